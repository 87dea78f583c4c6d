"""Files that carry their recipe, figures, and a pool that loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident.render import gallery, latents
from ident.render.errors import Impossible
from ident.render.gallery import Look
from ident.render.quality import plain

QUICK = Look(size=16, quality=plain(1), passes=("mask", "depth", "normal"))


def test_traversal_moves_one_latent_a_column() -> None:
    raw = gallery.traversal(steps=3).reshape(3, 10, 10)
    assert np.array_equal(raw, np.array([-1, 0, 1])[:, None, None] * np.eye(10))


def test_figures_place_cells_and_labels() -> None:
    cells = [np.full((30, 30, 3), 10 * i, np.uint8) for i in range(5)]
    bare = np.asarray(gallery.compose(cells, 2))
    assert bare.shape == (90, 60, 3)
    assert [bare[30 * (i // 2) + 15, 30 * (i % 2) + 15, 0] for i in range(6)] == [0, 10, 20, 30, 40, 255]
    labelled = np.asarray(gallery.compose(cells, 2, across=("a", "b"), down=("1", "2", "3")))
    assert np.array_equal(labelled[-90:, -60:], bare)
    assert (labelled[:20] < 128).any()
    assert (labelled[20:, :40] < 128).any()


def test_views_of_the_passes() -> None:
    assert gallery.VIEWS["mask"](np.array([[0, 1], [2, 2]], np.uint8)).shape == (2, 2, 3)
    depth = gallery.VIEWS["depth"](np.array([[4, 8], [40, 1e10]], np.float32))
    assert depth[..., 0].tolist() == [[255, 127], [25, 0]]
    assert gallery.VIEWS["normal"](np.array([[[-1, 0, 1]]], np.float32)).tolist() == [[[0, 127, 255]]]


def test_rows_are_rendered_once(tmp_path: Path) -> None:
    raw, steps = latents.sample(seed=0, split="test", start=0, n=5), list[int]()
    gallery.save_all(tmp_path, raw, QUICK, force=False, done=steps.append)
    assert sum(steps) == 5
    names = {f"0{i}{kind}" for i in range(5) for kind in (".png", "_mask.npy", "_depth.npy", "_normal.npy")}
    assert {path.name for path in tmp_path.iterdir()} == names
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    first = (tmp_path / "03.png").read_bytes()
    (tmp_path / "03.png").unlink()
    gallery.save_all(tmp_path, raw, QUICK, force=False, done=steps.append)
    assert (tmp_path / "03.png").read_bytes() == first
    assert {path.name for path, then in kept.items() if path.stat().st_mtime_ns != then} == {
        "03.png", "03_mask.npy", "03_depth.npy", "03_normal.npy",
    }  # fmt: skip


def test_something_else_is_never_overwritten(tmp_path: Path) -> None:
    raw = latents.sample(seed=0, split="test", start=0, n=1)
    gallery.save_all(tmp_path, raw, QUICK, force=False, done=lambda _: None)
    ours = (tmp_path / "00.png").read_bytes()
    for other in (b"", b"not a picture", ours[: len(ours) // 2], None):
        if other is None:  # another recipe
            gallery.save_all(tmp_path, -raw, QUICK, force=True, done=lambda _: None)
            other = (tmp_path / "00.png").read_bytes()
        (tmp_path / "00.png").write_bytes(other)
        with pytest.raises(Impossible, match=r"00\.png: holds something else; give --force"):
            gallery.save_all(tmp_path, raw, QUICK, force=False, done=lambda _: None)
        assert (tmp_path / "00.png").read_bytes() == other
    gallery.save_all(tmp_path, raw, QUICK, force=True, done=lambda _: None)
    assert (tmp_path / "00.png").read_bytes() == ours


def test_pictures_say_what_they_were_made_from(tmp_path: Path) -> None:
    raw = latents.sample(seed=0, split="test", start=0, n=1)
    gallery.save_all(tmp_path, raw, QUICK, force=False, done=lambda _: None)
    with Image.open(tmp_path / "00.png") as picture:
        recipe = json.loads(picture.info["ident"])
    assert np.array_equal(np.float32(recipe["raw_latents"]), raw[0])
    assert recipe["look"]["size"] == 16


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Impossible, match="is a file or lies in one"):
            gallery.make_folder(path)
    with pytest.raises(Impossible, match="/proc/nowhere"):
        gallery.make_folder(Path("/proc/nowhere"))


def test_figures_that_no_memory_holds(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="70 pictures of size 4096"):
        gallery.save_figure(
            tmp_path / "t.png", gallery.traversal(), 10, Look(size=4096), force=False, done=lambda _: None
        )
