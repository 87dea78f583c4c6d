"""What is exported is read by a reader that knows the layout alone, and comes back as it was."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image
from pyarrow import parquet
from torch.utils.data import DataLoader

from ident.render.errors import Failed, Impossible
from ident.render.exchange import assembly
from ident.render.exchange import export as exporting
from ident.render.exchange.export import Export
from ident.render.exchange.import_ import import_path
from ident.render.exchange.layouts import LAYOUTS
from ident.render.store import files
from ident.render.store.dataset import Dataset
from ident.render.store.storage import Storage
from ident.render.worlds.threedident import WORLD
from tests.render import libraries
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import WANTED, N, paint

EVERY = pytest.mark.parametrize("layout", LAYOUTS)
LIBRARIES = pytest.mark.parametrize("layout", ["webdataset", "mds", "huggingface"])


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setattr(assembly, "SHARD_SIZE", 8)
    monkeypatch.setattr(exporting, "FILE_BYTES", 3 * 16 * 16)  # five images, where several are in a file
    paint(tmp_path / "d")
    return Dataset(tmp_path / "d")


def export(data: Dataset, layout: str, folder: Path, *, force: bool = False) -> list[tuple[int, int]]:
    told = list[tuple[int, int]]()
    Export(data, layout, folder).run(force=force, tell=lambda *far: told.append(far))
    return told


def bring(path: Path, layout: str, out: Path) -> None:
    import_path(path, layout, Storage(str(out)), codec="fast", force=False, tell=lambda *_: None)


class Published(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """A reader of the original layout, and of Causal3DIdent's with a suffix, written from its description."""

    def __init__(self, root: Path, suffix: str = "") -> None:
        self.latents = np.load(root / f"raw_latents{suffix}.npy")
        self.values = np.load(root / f"latents{suffix}.npy")
        self.folder, self.digits = root / f"images{suffix}", math.ceil(math.log10(len(self.latents)))

    def __len__(self) -> int:
        return len(self.latents)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = Image.open(self.folder / f"{str(index).zfill(self.digits)}.png")
        return torch.from_numpy(np.array(image)), torch.from_numpy(self.latents[index])


@pytest.mark.parametrize(("layout", "suffix"), [("3dident", ""), ("causal3dident", "_0")])
def test_a_reader_of_the_published_layouts(data: Dataset, tmp_path: Path, layout: str, suffix: str) -> None:
    told = export(data, layout, tmp_path / "root" / "train")
    assert told[-1] == (N, N)
    assert [count for count, _ in told] == sorted(count for count, _ in told)
    published = Published(tmp_path / "root" / "train", suffix)
    images, raw = next(iter(DataLoader(published, batch_size=N)))
    assert torch.equal(images, torch.from_numpy(WANTED))
    assert np.array_equal(raw.numpy(), data.latents)
    assert published.values.dtype == published.latents.dtype == np.float32
    assert np.allclose(published.values, WORLD.values(data.latents))


class Samples(torch.utils.data.IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """A reader of WebDataset's layout, written from its description: files that share a basename are a sample."""

    def __init__(self, root: Path) -> None:
        self.archives = sorted(root.glob("[0-9][0-9][0-9][0-9][0-9][0-9].tar"))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for path in self.archives:
            with tarfile.open(path) as archive:
                files = {member.name: cast("Any", archive.extractfile(member)).read() for member in archive}
            for key in sorted({name.split(".")[0] for name in files}):
                image = np.array(Image.open(io.BytesIO(files[f"{key}.png"])))
                yield torch.from_numpy(image), torch.from_numpy(np.load(io.BytesIO(files[f"{key}.raw_latents.npy"])))


class Table(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """A reader of Hugging Face's layout, written from its description: Parquet, an image column of {bytes, path}."""

    def __init__(self, root: Path) -> None:
        self.rows = [row for path in sorted(root.rglob("*.parquet")) for row in parquet.read_table(path).to_pylist()]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        row = self.rows[index]
        image = np.array(Image.open(io.BytesIO(row["image"]["bytes"])))
        return torch.from_numpy(image), torch.tensor(row["raw_latents"])


@pytest.mark.parametrize(("layout", "reader"), [("webdataset", Samples), ("huggingface", Table)])
def test_a_reader_that_knows_the_format_alone(data: Dataset, tmp_path: Path, layout: str, reader: Any) -> None:
    export(data, layout, tmp_path / "out")
    images, raw = next(iter(DataLoader(reader(tmp_path / "out"), batch_size=N)))
    assert torch.equal(images, torch.from_numpy(WANTED))
    assert np.array_equal(raw.numpy(), data.latents)


def library(*arguments: object) -> None:
    """Let the library of a format read or write."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-W", "ignore", libraries.__file__, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@LIBRARIES
def test_the_library_of_the_format_reads_it(data: Dataset, tmp_path: Path, layout: str) -> None:
    export(data, layout, tmp_path / "out")
    library("read", layout, tmp_path / "out", tmp_path / "read.npz")
    with np.load(tmp_path / "read.npz") as read:
        assert np.array_equal(read["images"], WANTED)
        assert np.array_equal(read["raw"], data.latents)
        assert np.array_equal(read["latents"], WORLD.values(data.latents).astype(np.float32))


@LIBRARIES
def test_what_the_library_of_the_format_writes_is_read(data: Dataset, tmp_path: Path, layout: str) -> None:
    np.savez(tmp_path / "made.npz", images=WANTED, raw=data.latents)
    (tmp_path / "theirs").mkdir()
    library("write", layout, tmp_path / "theirs", tmp_path / "made.npz")
    bring(tmp_path / "theirs", layout, tmp_path / "back")
    assert np.array_equal(Dataset(tmp_path / "back").images(range(N)), WANTED)
    assert np.array_equal(Dataset(tmp_path / "back").latents, data.latents)


@pytest.mark.parametrize(("n", "digits"), [(1, 1), (9, 1), (10, 1), (11, 2), (25_000, 5), (250_000, 6), (10**6, 6)])
def test_as_many_digits_as_readers_expect(n: int, digits: int) -> None:
    for layout in ("3dident", "causal3dident"):
        assert len(Path(LAYOUTS[layout].path(n - 1, n)).stem) == digits


@EVERY
def test_it_comes_back_as_it_went(data: Dataset, tmp_path: Path, layout: str) -> None:
    export(data, layout, tmp_path / "out")
    bring(tmp_path / "out", layout, tmp_path / "back")
    back = Dataset(tmp_path / "back")
    assert np.array_equal(back.images(range(N)), WANTED)
    # In Causal3DIdent's layout all images have a class: these show the teapot, the first.
    classes = np.zeros((N, int(layout == "causal3dident")))
    assert np.array_equal(back.latents, np.column_stack([data.latents, classes]))


def test_an_export_goes_on(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[str]()
    save = Image.Image.save

    def noted(self: Image.Image, path: Any, *arguments: Any) -> None:
        if len(written) == 5:
            raise KeyboardInterrupt
        written.append(str(path))
        save(self, path, *arguments)

    monkeypatch.setattr(Image.Image, "save", noted)
    with pytest.raises(KeyboardInterrupt):
        export(data, "3dident", tmp_path / "out")
    assert not (tmp_path / "out" / "raw_latents.npy").exists()
    monkeypatch.setattr(Image.Image, "save", save)
    assert not list((tmp_path / "out" / "images").glob("*.png"))  # which a reader would take for images of the set
    there = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "images").glob(".*.png.part")}
    assert len(there) == 5
    damaged = min(there)
    damaged.write_bytes(damaged.read_bytes()[:-10])
    export(data, "3dident", tmp_path / "out")
    again = {path: path.with_name(path.name[len(".ident-") : -len(".part")]).stat().st_mtime_ns for path in there}
    assert {path for path in there if there[path] == again[path]} == set(there) - {damaged}
    assert len(Published(tmp_path / "out")) == N
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".exported", ".lock", "images", "latents.npy", "raw_latents.npy",
    ]  # fmt: skip


def test_what_is_there_is_not_overwritten(data: Dataset, tmp_path: Path) -> None:
    export(data, "3dident", tmp_path / "out")
    export(data, "3dident", tmp_path / "out")
    paint(tmp_path / "e", RECIPE, 9)
    for other, layout in ((Dataset(tmp_path / "e"), "3dident"), (data, "mds")):
        with pytest.raises(Impossible, match="holds something else; give --force to overwrite it"):
            export(other, layout, tmp_path / "out")
    with pytest.raises(Impossible, match="is a dataset of ident; give another --out"):
        export(data, "mds", tmp_path / "d", force=True)
    assert np.array_equal(np.load(tmp_path / "out" / "raw_latents.npy"), data.latents)


@EVERY
def test_force_removes_what_an_export_wrote_and_nothing_else(data: Dataset, tmp_path: Path, layout: str) -> None:
    export(data, layout, tmp_path / "out")
    mine = [tmp_path / "out" / name for name in ("backup2024.tar", "images/mine.png", "data/mine-1-of-2.parquet")]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    paint(tmp_path / "e", RECIPE, 9)
    for other in LAYOUTS:
        export(Dataset(tmp_path / "e"), other, tmp_path / "out", force=True)
    assert [path.read_bytes() for path in mine] == [b"mine"] * 3
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    found -= {path.relative_to(tmp_path / "out").as_posix() for path in mine}
    assert found == {".exported", ".lock", "README.md", "data/00000-of-00002.parquet", "data/00001-of-00002.parquet"}


def test_a_linked_folder_is_not_written_through(data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "out" / "images").symlink_to(tmp_path / "theirs")
    with pytest.raises(Impossible, match="images: is a link"):
        export(data, "3dident", tmp_path / "out", force=True)


@EVERY
def test_half_an_export_is_none(data: Dataset, tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(LAYOUTS[layout]), "rest", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.setattr(Path, "replace", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        export(data, layout, tmp_path / "out")
    monkeypatch.undo()
    with pytest.raises(Impossible, match="in none of the layouts"):
        bring(tmp_path / "out", layout, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_disk_that_does_not_keep_what_is_written(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Export, "_holds", lambda *_: False)
    with pytest.raises(Failed, match=r"images/\d\d\.png: does not read as it was written"):
        export(data, "3dident", tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(files, "free_bytes", lambda _: 1000)
    with pytest.raises(Impossible, match=r"GB are needed, 0\.00 GB are free there"):
        export(data, "3dident", tmp_path / "other")
