"""Files that carry their label, figures, and a pool that loses nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident.render.blender.settings import Settings, plain
from ident.render.errors import Impossible
from ident.render.grid import Grid
from ident.render.stage import gallery
from ident.render.stage.gallery import Shots
from ident.render.threads import cores
from ident.render.worlds.threedident import WORLD
from tests.conftest import Start
from tests.processes import HANG, started_by, wait_for

QUICK = Settings(size=16, quality=plain(1))
PASSES = ("mask", "depth", "normal")
RAW = WORLD.draw(seed=0, split="test", start=0, n=4)


def save(folder: Path, passes: tuple[str, ...] = PASSES, *, force: bool = False) -> list[int]:
    """Save the frames of RAW; gives the counts that were told."""
    told = list[int]()
    gallery.save_all(folder, Shots(WORLD, QUICK, RAW, passes), force=force, done=lambda count, _: told.append(count))
    return told


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images of RAW without passes, to be copied."""
    folder = tmp_path_factory.mktemp("saved") / "d"
    save(folder, ())
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_traversal_moves_one_latent_a_column() -> None:
    raw = gallery.traversal(WORLD, steps=3).reshape(3, 10, 10)
    assert np.array_equal(raw, np.array([-1, 0, 1])[:, None, None] * np.eye(10))


def test_layouts_place_cells_and_labels() -> None:
    cells = [np.full((30, 30, 3), 10 * i, np.uint8) for i in range(5)]
    bare = np.asarray(Grid(2).compose(cells))
    assert bare.shape == (90, 60, 3)
    assert [bare[30 * (i // 2) + 15, 30 * (i % 2) + 15, 0] for i in range(6)] == [0, 10, 20, 30, 40, 255]
    labelled = np.asarray(Grid(2, ("a", "b"), ("1", "2", "3")).compose(cells))
    assert np.array_equal(labelled[-90:, -60:], bare)
    assert (labelled[:20] < 128).any()
    assert (labelled[20:, :40] < 128).any()


def test_views_of_the_passes() -> None:
    assert gallery.VIEWS["mask"](np.array([[0, 1], [2, 2]], np.uint8)).shape == (2, 2, 3)
    depth = gallery.VIEWS["depth"](np.array([[4, 8], [40, 1e10]], np.float32))
    assert depth[..., 0].tolist() == [[255, 127], [25, 0]]
    assert gallery.VIEWS["normal"](np.array([[[-1, 0, 1]]], np.float32)).tolist() == [[[0, 127, 255]]]


def test_what_is_there_is_not_rendered_again_and_what_is_not_is(tmp_path: Path) -> None:
    assert save(tmp_path) == [0, 1, 2, 3, 4]
    whole = content(tmp_path)
    assert set(whole) == {f"0{i}{kind}" for i in range(4) for kind in (".png", *(f"_{name}.npy" for name in PASSES))}
    assert save(tmp_path) == [4]
    (tmp_path / "01_mask.npy").unlink()
    (tmp_path / "02_depth.npy").write_bytes(b"junk")
    (tmp_path / "03.png").unlink()
    (tmp_path / "03_mask.npy").unlink()
    (tmp_path / "03_depth.npy").unlink()
    (tmp_path / "03_normal.npy").unlink()
    assert save(tmp_path) == [1, 2, 3, 4]
    assert content(tmp_path) == whole


def test_passes_may_come_later_in_any_order(tmp_path: Path) -> None:
    save(tmp_path, ("mask",))
    images = {name: data for name, data in content(tmp_path).items() if name.endswith("_mask.npy")}
    assert save(tmp_path, ()) == [4]
    assert save(tmp_path, ("depth",)) == [0, 1, 2, 3, 4]
    assert save(tmp_path, ("mask",)) == [4]
    assert images.items() <= content(tmp_path).items()


def damaged(png: bytes) -> list[bytes]:
    """Hostile PNGs: cut, not a PNG, a bad header, and a text chunk that unpacks to 64 MB."""
    bomb = b"ident\0\0" + zlib.compress(bytes(2**26))
    chunk = len(bomb).to_bytes(4, "big") + b"zTXt" + bomb + zlib.crc32(b"zTXt" + bomb).to_bytes(4, "big")
    return [b"", b"not an image", png[: len(png) // 2], png[:12] + b"IHDX" + png[16:], png[:33] + chunk + png[33:]]


def test_a_link_in_place_of_the_folder_of_frames(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "00.png").write_text("precious")
    (tmp_path / ".g.png.parts").symlink_to(tmp_path / "precious")
    with pytest.raises(Impossible, match=r"\.g\.png\.parts: is a link, and nothing goes where it leads; remove it, or"):
        gallery.save_figure(tmp_path / "g.png", Shots(WORLD, QUICK, RAW), Grid(2), force=True, done=lambda *_: None)
    assert content(tmp_path / "precious") == {"00.png": b"precious"}


def test_something_else_is_never_overwritten(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    ours = (tmp_path / "00.png").read_bytes()
    other = tmp_path / "other"
    gallery.save_all(other, Shots(WORLD, QUICK, -RAW), force=False, done=lambda *_: None)
    for data in (*damaged(ours), (other / "00.png").read_bytes()):
        (tmp_path / "00.png").write_bytes(data)
        with pytest.raises(Impossible, match=r"00\.png: holds something else; give --force"):
            save(tmp_path, ())
        assert (tmp_path / "00.png").read_bytes() == data
    assert save(tmp_path, (), force=True)[-1] == 4
    assert (tmp_path / "00.png").read_bytes() == ours
    (tmp_path / "02_mask.npy").write_bytes(b"precious")
    with pytest.raises(Impossible, match=r"02_mask\.npy: holds something else"):
        save(tmp_path, ("mask",))
    assert (tmp_path / "02_mask.npy").read_bytes() == b"precious"


def test_images_say_what_they_were_made_from(saved: Path) -> None:
    label = gallery.read_label(saved / "00.png")
    assert np.array_equal(np.array(label["raw_latents"], np.float32), RAW[0])
    assert label["world"] == {"name": "3dident", "digest": WORLD.digest}
    assert label["render"]["size"] == 16
    assert {"ident", "bpy", "scene"} <= set(label["render"])


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "d" / "00.png").mkdir(parents=True)
    with pytest.raises(Impossible, match=r"00\.png: is not a file"):
        save(tmp_path / "d", (), force=True)


def figure(path: Path, columns: int, passes: tuple[str, ...] = (), *, force: bool = False) -> list[Path]:
    return gallery.save_figure(path, Shots(WORLD, QUICK, RAW, passes), Grid(columns), force=force, done=lambda *_: None)


def test_figures_are_told_apart_by_layout_and_view(tmp_path: Path) -> None:
    assert figure(tmp_path / "g.png", 2, ("mask",)) == [tmp_path / "g.png", tmp_path / "g_mask.png"]
    assert sorted(content(tmp_path)) == ["g.png", "g_mask.png"]
    kept = content(tmp_path)
    figure(tmp_path / "g.png", 2, ("mask",))
    for path, columns in ((tmp_path / "g.png", 4), (tmp_path / "g_mask.png", 2)):
        with pytest.raises(Impossible, match=f"{path.name}: holds something else"):
            figure(path, columns)
    assert content(tmp_path) == kept
    figure(tmp_path / "g.png", 4, force=True)
    with Image.open(tmp_path / "g.png") as image:
        assert image.size == (64, 16)


def test_figures_go_on_from_their_parts(saved: Path, tmp_path: Path) -> None:
    told = list[int]()
    shutil.copytree(saved, tmp_path / ".g.png.parts")
    (tmp_path / ".g.png.parts" / "02.png").unlink()
    gallery.save_figure(
        tmp_path / "g.png", Shots(WORLD, QUICK, RAW), Grid(2), force=False, done=lambda count, _: told.append(count)
    )
    assert told == [3, 4]


def test_figures_that_are_too_large_or_no_png(tmp_path: Path) -> None:
    large = Shots(WORLD, Settings(size=4096), gallery.traversal(WORLD))
    with pytest.raises(Impossible, match="70 images of size 4096 has more than 80,000,000 pixels"):
        gallery.save_figure(tmp_path / "t.png", large, Grid(10), force=False, done=lambda *_: None)
    with pytest.raises(Impossible, match=r"t\.jpg: give a name that ends in \.png"):
        figure(tmp_path / "t.jpg", 2)


LONG = """
import os, sys
from pathlib import Path
from ident.render.blender.settings import Settings, plain
from ident.render.stage import gallery
from ident.render.worlds.threedident import WORLD
if __name__ == "__main__":
    raw = WORLD.draw(seed=0, split="test", start=0, n=2)
    settings = Settings(size=512, quality=plain(60000))
    gallery.save_all(Path("out"), gallery.Shots(WORLD, settings, raw), force=False, done=lambda *_: None)
else:  # an engine's process
    from ident.render.blender.engine import Engine
    image = Engine.image
    def noted(self, scene):
        Path(f"rendering-{os.getpid()}").touch()
        return image(self, scene)
    Engine.image = noted
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_engines_end_with_their_parent(tmp_path: Path, start: Start, mark: str, how: signal.Signals) -> None:
    (tmp_path / "long.py").write_text(LONG)
    run = start("long.py", stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(tmp_path.glob("rendering-*"))) == min(2, cores()))
    run.send_signal(how)
    assert run.wait(HANG) != 0
    wait_for(lambda: not started_by(mark))  # hours before the images would be done
