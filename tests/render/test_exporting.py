"""What is exported is read by a reader that knows the layout alone, and comes back as it was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from ident.render import exporting, importing, latents, storage
from ident.render.archives import bring_local
from ident.render.dataset import Dataset
from ident.render.errors import Failed, Impossible
from ident.render.exporting import Export
from ident.render.layouts import LAYOUTS
from ident.render.storage import Storage
from tests.render.engines import RECIPE
from tests.render.test_dataset import WANTED, N, paint

TREES = pytest.mark.parametrize("layout", ["3dident", "causal3dident"])


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setattr(importing, "SHARD_SIZE", 8)
    paint(tmp_path / "d")
    return Dataset(tmp_path / "d")


def export(data: Dataset, layout: str, folder: Path, *, force: bool = False) -> list[tuple[int, int]]:
    told = list[tuple[int, int]]()
    Export(data, LAYOUTS[layout], folder).run(force=force, tell=lambda *far: told.append(far))
    return told


class Published(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """A reader of the original layout, written from its description."""

    def __init__(self, root: Path) -> None:
        self.latents = np.load(root / "raw_latents.npy")
        self.values = np.load(root / "latents.npy")
        self.root, self.digits = root, math.ceil(math.log10(len(self.latents)))

    def __len__(self) -> int:
        return len(self.latents)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = Image.open(self.root / "images" / f"{str(index).zfill(self.digits)}.png")
        return torch.from_numpy(np.array(image)), torch.from_numpy(self.latents[index])


def test_a_reader_of_the_original_layout(data: Dataset, tmp_path: Path) -> None:
    told = export(data, "3dident", tmp_path / "root" / "train")
    assert told[-1] == (N, N)
    assert [count for count, _ in told] == sorted(count for count, _ in told)
    published = Published(tmp_path / "root" / "train")
    images, raw = next(iter(DataLoader(published, batch_size=N)))
    assert torch.equal(images, torch.from_numpy(WANTED))
    assert np.array_equal(raw.numpy(), data.latents)
    assert published.values.dtype == published.latents.dtype == np.float32
    assert np.allclose(published.values, latents.to_scene_values(data.latents))


@pytest.mark.parametrize(("n", "digits"), [(1, 1), (9, 1), (10, 1), (11, 2), (25_000, 5), (250_000, 6), (10**6, 6)])
def test_as_many_digits_as_readers_expect(n: int, digits: int) -> None:
    for layout in ("3dident", "causal3dident"):
        assert len(LAYOUTS[layout].image(Path(), n - 1, n).stem) == digits


@TREES
def test_it_comes_back_as_it_went(data: Dataset, tmp_path: Path, layout: str) -> None:
    export(data, layout, tmp_path / "out")
    out = Storage(str(tmp_path / "back"))
    bring_local(tmp_path / "out", layout, out, codec="fast", force=False, tell=lambda _: None)
    back = Dataset(tmp_path / "back")
    assert np.array_equal(back.images(range(N)), WANTED)
    assert np.array_equal(back.latents, data.latents)


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
    there = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "images").glob("*.png")}
    assert len(there) == 5
    damaged = min(there)
    damaged.write_bytes(damaged.read_bytes()[:-10])
    export(data, "3dident", tmp_path / "out")
    again = {path: path.stat().st_mtime_ns for path in there}
    assert {path for path in there if there[path] == again[path]} == set(there) - {damaged}
    assert len(Published(tmp_path / "out")) == N
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".lock", "images", "latents.npy", "raw_latents.npy",
    ]  # fmt: skip


def test_what_is_there_is_not_overwritten(data: Dataset, tmp_path: Path) -> None:
    export(data, "3dident", tmp_path / "out")
    export(data, "3dident", tmp_path / "out")
    paint(tmp_path / "e", RECIPE, 9)
    for other, folder in ((Dataset(tmp_path / "e"), tmp_path / "out"), (data, tmp_path / "d")):
        with pytest.raises(Impossible, match="holds something else; give --force to overwrite it"):
            export(other, "3dident", folder)
    assert np.array_equal(np.load(tmp_path / "out" / "raw_latents.npy"), data.latents)


def test_a_disk_that_does_not_keep_what_is_written(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "holds", lambda *_: False)
    with pytest.raises(Failed, match=r"images/\d\d\.png: does not read as it was written"):
        export(data, "3dident", tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(storage, "free_bytes", lambda _: 1000)
    with pytest.raises(Impossible, match=r"GB are needed, 0\.00 GB are free there"):
        export(data, "3dident", tmp_path / "other")
