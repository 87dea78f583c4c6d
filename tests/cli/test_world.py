"""A user's world, in one file of theirs: rendered, looked at, killed, continued and verified as ours is."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident.render import worlds
from ident.render.store.dataset import Dataset
from tests.cli.test_render import sums
from tests.conftest import Run, Start
from tests.discs import DISCS
from tests.processes import below, gone, wait_for

SLOW = DISCS.replace("    x, y, turn", "    __import__('time').sleep(0.05)\n    x, y, turn")
SMALL = ("--world", "discs.py:world", "--n", 40, "--size", 24, "--shard-size", 16)


WRONG_SHAPE = r"give \(H, W, C\) whose longer side is 24"


@pytest.fixture
def discs(tmp_path: Path) -> Path:
    (tmp_path / "discs.py").write_text(DISCS)
    return tmp_path / "discs.py"


def test_the_file_is_short() -> None:
    assert len([line for line in DISCS.splitlines() if line.strip()]) <= 20


def test_a_world_of_discs(discs: Path, ident: Run, tmp_path: Path) -> None:
    ended = ident("render", *SMALL)
    assert ended.returncode == 0, ended.stderr
    data = Dataset(tmp_path / "data" / "discs")
    world = worlds.load(f"{discs}:world")
    assert (data.names, data.shape) == (("x", "y", "turn", "colour"), (24, 24, 3))
    assert data.factors == world.factors
    assert np.array_equal(data.latents, world.draw(seed=0, split="train", start=0, n=40))
    assert world.picture is not None
    wanted = [world.picture(values, 24) for values in world.values(data.latents)]
    assert np.array_equal(data.images(range(40)), wanted)

    ended = ident("info", "data/discs")
    for said in (
        "world     discs, 4 factors, definition",
        "images    40 of 24 x 24, complete",
        "columns   images 24 x 24 x 3 uint8, compact",
        "on the cpu, by ident",
        "  x: from -0.6 to 0.6\n",
        "  turn: around a circle from 0 to 6.283 rad\n",
        "  colour: one of red, green, blue\n",
    ):
        assert said in ended.stdout
    ended = ident("verify", "data/discs", "--rerender", 4, "--world", "discs.py:world")
    assert (ended.returncode, ended.stdout) == (
        0, "data/discs: clean; 40 images in 3 shards, 4 of 4 identical when rendered again\n",
    ), ended.stderr  # fmt: skip

    # Nothing of the dataset is imported: without the definition it is read, and not rendered.
    ended = ident("verify", "data/discs", "--rerender", 4)
    assert ended.returncode == 2
    assert "--rerender 4: world discs is not one of 3dident, dsprites, " in ended.stderr
    assert ident("verify", "data/discs").returncode == 0

    discs.write_text(DISCS.replace("0.1] = 0", "0.1] = 9"))
    for command in (("render", *SMALL, "--n", 50), ("verify", "data/discs", "--rerender", 1, *SMALL[:2])):
        ended = ident(*command)
        assert ended.returncode == 2
        assert (
            "world.digest is " if command[0] == "render" else "by another definition of world discs"
        ) in ended.stderr
    assert ident("verify", "data/discs").returncode == 0


def test_it_is_found_where_it_is_named_and_nowhere_else(discs: Path, ident: Run, tmp_path: Path) -> None:
    """Ray's workers, which stand elsewhere, take the file that was typed, also a module that is no file's path."""
    (tmp_path / "elsewhere").mkdir()
    shutil.move(discs, tmp_path / "elsewhere" / "discs.py")
    discs.write_text("raise SystemExit('the wrong one')")
    ended = ident("render", "--world", "elsewhere/discs.py:world", *SMALL[2:], "--out", "a")
    assert ended.returncode == 0, ended.stderr
    shutil.move(tmp_path / "elsewhere" / "discs.py", tmp_path / "own_discs.py")
    ended = ident("render", "--world", "own_discs:world", *SMALL[2:], "--out", "b")
    assert ended.returncode == 0, ended.stderr
    assert sums(tmp_path / "a") == sums(tmp_path / "b")


def test_a_killed_run_goes_on_to_the_same_bytes(ident: Run, start: Start, tmp_path: Path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "discs.py").write_text(SLOW)
    slow = ("render", "--world", "slow/discs.py:world", *SMALL[2:], "--out", "d")
    running = start("-m", "ident.cli", *slow)
    wait_for(lambda: any(path.stat().st_size > 2000 for path in (tmp_path / "d" / ".parts").glob("*.part")))
    every = below({running.pid})
    for pid in every:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: all(map(gone, every)))
    assert not json.loads((tmp_path / "d" / "dataset.json").read_text())["complete"]
    ended = ident(*slow)
    assert ended.returncode == 0, ended.stderr
    data, world = Dataset(tmp_path / "d"), worlds.load(f"{tmp_path}/slow/discs.py:world")
    assert world.picture is not None
    assert np.array_equal(data.images(range(40)), [world.picture(values, 24) for values in world.values(data.latents)])
    assert ident("render", "--world", "slow/discs.py:world", *SMALL[2:], "--out", "again").returncode == 0
    assert sums(tmp_path / "d") == sums(tmp_path / "again")


@pytest.mark.usefixtures("discs")
def test_a_traversal_has_a_column_a_factor(ident_here: Run, tmp_path: Path) -> None:
    ended = ident_here("show", "--world", "discs.py:world", "--size", 24)
    assert ended.returncode == 0, ended.stderr
    with Image.open(tmp_path / "traversal.png") as figure:
        assert figure.size == (4 * 24, 20 + 7 * 24)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            ("0.1] = 0", "0.1] = 0\n    image = image / 2"),
            r"its picture is float64 \(24, 24, 3\); give uint8",
        ),
        (("return image", "return None"), "its picture is NoneType; give uint8 of the shape"),
        (
            ("return image", "return image[:, :, :2]"),
            r"at size 24 is \(24, 24, 2\); " + WRONG_SHAPE,
        ),
        (
            ("return image", "return image[::2, ::2]"),
            r"at size 24 is \(12, 12, 3\); " + WRONG_SHAPE,
        ),
        (('World("discs"', 'World("../discs"'), r"world '\.\./discs': give a name of letters"),
        (("Interval(-0.6, 0.6)", "Interval(0.6, -0.6)"), "give two numbers, the lower one first"),
        (('"y"', '"x"'), "several factors are called x"),
        (("world =", "worlds ="), "has no attribute 'world'"),
        (("import numpy", "import nompy"), "No module named 'nompy'; give|No module named 'nompy'"),
        (("def picture", "def picture("), "invalid syntax|SyntaxError"),
        (("world = World", "world = dict; World"), "is a type, not a World"),
    ],
)
def test_worlds_that_cannot_be_rendered(discs: Path, ident_here: Run, changed: tuple[str, str], said: str) -> None:
    discs.write_text(DISCS.replace(*changed))
    ended = ident_here("render", *SMALL)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("\n") == 1
    assert re.search(said, ended.stderr), ended.stderr
    assert not (discs.parent / "data").exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--world", "3dindent"), "world '3dindent': did you mean 3dident?"),
        (("--quality", "high"), "quality high: the pictures of this world have a size, and nothing else"),
        (("--gpus", 1), "gpus"),
        (("--passes", "mask"), "pass 'mask': choose from none, this world has no passes"),
        (("--positives", "laplace(0.1)"), "positives: are drawn in the box [-1, 1], and x of world discs is"),
        (("--size", 0), "size 0: give a whole number of pixels from 1 to 4096"),
    ],
)
def test_what_a_world_has_not(discs: Path, ident_here: Run, typed: tuple[object, ...], said: str) -> None:
    ended = ident_here("render", *SMALL, *typed)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert not (discs.parent / "data").exists()


GREY = """
import numpy as np
from ident.render.worlds import Factor, Interval, World

world = World("bars", (Factor("height", Interval(0, 1)),),
              lambda values, size: np.full((size // 2, size, CHANNELS), int(255 * values[0]), np.uint8))
"""


@pytest.mark.parametrize("channels", [1, 4])
def test_images_need_be_neither_square_nor_rgb(ident: Run, tmp_path: Path, channels: int) -> None:
    (tmp_path / "bars.py").write_text(GREY.replace("CHANNELS", str(channels)))
    ended = ident("render", "--world", "bars.py:world", "--n", 20, "--size", 10)
    assert ended.returncode == 0, ended.stderr
    data = Dataset(tmp_path / "data" / "bars")
    assert data.shape == (5, 10, channels)
    assert data.manifest.codec == "fast"
    images = data.images(range(20))
    assert np.array_equal(images[:, 2, 3, 0], (255 * data.latents[:, 0].astype(np.float64)).astype(np.uint8))
    mean, sd = data.manifest.moments()
    assert np.allclose(mean, (images / 255).mean((0, 1, 2)))
    assert np.allclose(sd, (images / 255).std((0, 1, 2)))
    ended = ident("verify", "data/bars", "--rerender", 3, "--world", "bars.py:world")
    assert "3 of 3 identical" in ended.stdout, ended.stderr
    ended = ident("render", "--world", "bars.py:world", "--n", 20, "--size", 10, "--codec", "compact", "--out", "c")
    assert f"codec 'compact': does not keep uint8 (5, 10, {channels}); choose from fast" in ended.stderr
