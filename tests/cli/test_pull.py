"""`ident pull` and `ident push` as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ident.render.manifest import Manifest
from ident.render.storage import Storage
from tests.conftest import Run
from tests.render.engines import RECIPE
from tests.render.test_dataset import paint
from tests.servers import serving


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of twelve shards with something in them."""
    folder = tmp_path_factory.mktemp("painted")
    paint(
        folder / "d", replace(RECIPE, settings=replace(RECIPE.settings, size=128), codec="fast", passes=("normal",)), 96
    )
    return folder


def test_push_and_pull(painted: Path, ident: Run, tmp_path: Path) -> None:
    done = ident("push", painted / "d", tmp_path / "served" / "d")
    assert done.returncode == 0, done.stderr
    assert "96 images" in done.stdout
    with serving(tmp_path / "served") as moods:
        done = ident("pull", f"{moods.url}/d", "--json")
        assert json.loads(done.stdout) == {
            "out": "data/d", "images": 96, "bytes": Manifest.read(Storage(str(painted / "d"))).disk,
        }  # fmt: skip
        assert "fetching: " in done.stderr
        assert ident("verify", "data/d").returncode == 0
        assert "complete" in ident("info", f"{moods.url}/d").stdout
        assert ident("verify", f"{moods.url}/d").returncode == 0


def test_killed_at_half_and_continued(painted: Path, ident: Run, tmp_path: Path) -> None:
    manifest = Manifest.read(Storage(str(painted / "d")))
    largest = max(record.bytes for record in manifest.shards.values())
    with serving(painted) as moods:
        moods.pause = 0.05  # seconds after each 64 kB
        command = [sys.executable, "-m", "ident.cli", "pull", f"{moods.url}/d", "--out", str(tmp_path / "d")]
        going = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while sum(path.stat().st_size for path in (tmp_path / "d").rglob("*.*") if path.exists()) < manifest.disk // 2:
            assert going.poll() is None
            time.sleep(0.01)
        going.send_signal(signal.SIGKILL)
        going.wait()
        time.sleep(0.5)
        moods.pause, moods.sent = 0.0, 0
        assert ident("pull", f"{moods.url}/d", "--out", tmp_path / "d").returncode == 0
        assert moods.sent <= manifest.disk / 2 + largest
    assert ident("verify", tmp_path / "d").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pull", "nowhere"), "nowhere: no dataset there, dataset.json is missing"),
        (("pull", "http://127.0.0.1:9/d"), "127.0.0.1:9/d/dataset.json: "),
        (("pull", "foo://bar"), "nobody knows foo://"),
        (("push", "nowhere", "there"), "nowhere: no dataset there"),
        (("push", "nowhere", "http://host/there"), "nothing that lasts can be written there"),
    ],
)
def test_what_cannot_be(ident: Run, arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ident(*arguments)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()
