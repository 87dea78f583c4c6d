"""Causal3DIdent: the class of each image is a factor, and comes back as it went."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ident.render.errors import Failed, Impossible
from ident.render.exchange import assembly
from ident.render.exchange.assembly import Note
from ident.render.exchange.export import Export
from ident.render.exchange.import_ import import_path
from ident.render.exchange.layouts.causal3dident import CLASSES
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from ident.render.store.verify import verify
from ident.render.worlds import Category
from ident.render.worlds.threedident import WORLD
from tests.render.exchange.test_import_ import RAW, npy, png, shuffled, tar
from tests.render.store.test_dataset import WANTED, N, paint

labels = np.sort(np.arange(N) % 7)
"""The class of each image: three of each, and two of the last."""


def published(classes: Iterator[int] | range = range(7)) -> dict[str, bytes]:
    """The files of a set as it was published."""
    files = dict[str, bytes]()
    for label in classes:
        rows = np.flatnonzero(labels == label)
        files |= {f"trainset/images_{label}/{i:05d}.png": png(WANTED[row]) for i, row in enumerate(rows)}
        files[f"trainset/raw_latents_{label}.npy"] = npy(RAW[rows])
        files[f"trainset/latents_{label}.npy"] = npy(WORLD.values(RAW[rows]).astype(np.float32))
    return files


FILES = published()


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "SHARD_SIZE", 8)


def bring(files: dict[str, bytes], folder: Path, *, force: bool = False) -> Dataset:
    """The dataset that an archive of files becomes."""
    packed = tar(files).getvalue()
    if not (folder / "a.tar").exists() or (folder / "a.tar").read_bytes() != packed:  # else it would be a new one
        (folder / "a.tar").write_bytes(packed)
    out = Storage(str(folder / "d"))
    import_path(folder / "a.tar", "causal3dident", out, codec="fast", force=force, tell=lambda *_: None)
    return Dataset(folder / "d")


def export(data: Dataset, folder: Path, *, force: bool = False) -> None:
    Export(data, "causal3dident", folder).run(force=force, tell=lambda *_: None)


def content(folder: Path) -> dict[str, bytes]:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not path.name.startswith(".")}


def test_the_class_of_each_image_is_a_factor(tmp_path: Path) -> None:
    data = bring(shuffled(FILES), tmp_path)
    assert data.names == (*WORLD.names, "class")
    assert data.factors[:10] == WORLD.factors
    assert data.factors[10].kind == Category(("teapot", "hare", "dragon", "cow", "armadillo", "horse", "head"))
    assert np.array_equal(data.latents, np.column_stack([RAW, labels]))
    assert data.latents.dtype == np.float32
    assert np.array_equal(data.images(range(N)), WANTED)
    image, latents = data[19]
    assert np.array_equal(image, WANTED[19])
    assert CLASSES[int(latents[10])] == "head"
    assert verify(str(tmp_path / "d"), done=lambda *_: None).wrong == ()
    assert data.manifest.world.name == "causal3dident"
    assert Manifest.read(Storage(str(tmp_path / "d"))).factors == data.factors


def test_each_class_goes_back_to_its_own_folder(tmp_path: Path) -> None:
    data = bring(FILES, tmp_path)
    export(data, tmp_path / "out")
    files = content(tmp_path / "out")
    assert len(files) == len(FILES)
    for name, wanted in FILES.items():
        folder, _, last = name.removeprefix("trainset/").rpartition("/")
        short = f"{folder}/{int(last.removesuffix('.png'))}.png" if folder else last  # of so few, one digit
        if short.endswith(".npy"):
            assert np.array_equal(np.load(io.BytesIO(files[short])), np.load(io.BytesIO(wanted)))
            assert np.load(io.BytesIO(files[short])).flags.c_contiguous
        else:
            assert files[short] == wanted
    (tmp_path / "again").mkdir()
    again = bring({f"x/{name}": text for name, text in files.items()}, tmp_path / "again")
    assert np.array_equal(again.latents, data.latents)
    assert np.array_equal(again.images(range(N)), WANTED)


def test_a_set_without_some_classes(tmp_path: Path) -> None:
    data = bring(published(iter((1, 4))), tmp_path)
    rows = np.flatnonzero(np.isin(labels, (1, 4)))
    assert np.array_equal(data.latents, np.column_stack([RAW, labels])[rows])
    assert np.array_equal(data.images(range(len(rows))), WANTED[rows])
    export(data, tmp_path / "out")
    assert {name.partition("/")[0] for name in content(tmp_path / "out")} == {
        "images_1", "images_4", "raw_latents_1.npy", "raw_latents_4.npy", "latents_1.npy", "latents_4.npy",
    }  # fmt: skip


def test_images_without_a_class_show_the_teapot(tmp_path: Path) -> None:
    paint(tmp_path / "plain")
    export(Dataset(tmp_path / "plain"), tmp_path / "out")
    data = bring(content(tmp_path / "out"), tmp_path)
    assert np.array_equal(data.latents, np.column_stack([RAW, np.zeros(N)]))


def test_force_removes_all_folders_of_an_export_and_nothing_else(tmp_path: Path) -> None:
    export(bring(FILES, tmp_path), tmp_path / "out")
    (tmp_path / "out" / "images_5" / "mine.png").write_bytes(b"mine")
    paint(tmp_path / "plain", n=9)
    export(Dataset(tmp_path / "plain"), tmp_path / "out", force=True)
    names = set(content(tmp_path / "out"))
    assert names == {
        "latents_0.npy", "raw_latents_0.npy", "images_5/mine.png", *(f"images_0/{i}.png" for i in range(9)),
    }  # fmt: skip


def test_what_an_ident_of_before_imported_without_classes(tmp_path: Path) -> None:
    """It is not taken for whole, and not overwritten without a word."""
    data = bring(FILES, tmp_path)
    note = tmp_path / "d" / ".imported"
    note.write_text(note.read_text().replace('"latents": 11', '"latents": 10'))
    with pytest.raises(Impossible, match=r"holds what .*a\.tar was before: give --force to overwrite it"):
        bring(FILES, tmp_path)
    noted = Note.read(tmp_path / "d")
    assert noted is not None
    assert noted.latents == 10
    (tmp_path / "d" / "dataset.json").unlink()  # as where it was stopped in the middle
    assert np.array_equal(bring(FILES, tmp_path).latents, data.latents)


def lacking(*names: str) -> dict[str, bytes]:
    return {name: data for name, data in FILES.items() if name not in names}


WRONG = {
    r"images_7/0\.png: class 7, where there are 0 to 6: teapot, hare, dragon, cow, armadillo, horse, head": {
        **FILES,
        "trainset/images_7/0.png": png(WANTED[0]),
    },
    r"raw_latents_9\.npy: class 9, where there are 0 to 6": FILES | {"trainset/raw_latents_9.npy": npy(RAW)},
    r"images of parts \[0, 1, 2, 3, 4, 5, 6\], latents of parts \[0, 1, 3, 4, 5, 6\]": lacking(
        "trainset/raw_latents_2.npy"
    ),
    "3 latents and 0 images of part 3, look at image 0": lacking(*(f"trainset/images_3/{i:05d}.png" for i in range(3))),
    "3 latents and 2 images of part 5, look at image 1": lacking("trainset/images_5/00001.png"),
    r"images_1/0\.png is there twice": FILES | {"trainset/images_1/0.png": png(WANTED[0])},
    r"raw_latents_4\.npy: the shape is \(3, 11\), not \(N, 10\) with N at least 1": FILES
    | {"trainset/raw_latents_4.npy": npy(np.zeros((3, 11), np.float32))},
    r"raw_latents_4\.npy: row 0, x is 2\.0, not in \[-1, 1\]": FILES
    | {"trainset/raw_latents_4.npy": npy(np.full((3, 10), 2, np.float32))},
    r"raw_latents_4\.npy: the shape is \(0, 10\)": FILES | {"trainset/raw_latents_4.npy": npy(RAW[:0])},
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong_with_a_class_is_named(tmp_path: Path, said: str) -> None:
    with pytest.raises(Failed, match=said):
        bring(WRONG[said], tmp_path)
    assert not (tmp_path / "d" / "dataset.json").exists()
    assert len(bring(FILES, tmp_path, force=True)) == N
