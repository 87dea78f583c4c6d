"""What there is, as Ray will see it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager

from ident.render.stage import cluster
from tests.processes import below, gone, wait_for


@pytest.mark.parametrize(
    ("shown", "count"), [(None, 3), ("", 0), ("-1", 0), ("NoDevFiles", 0), ("2", 1), ("0,2", 2), ("0,1,2,3", 3)]
)
def test_gpus_that_are_hidden_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str | None, count: int
) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cluster, "DRIVER", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert cluster.gpus_there(None) == count
    seen = NvidiaGPUAcceleratorManager.get_current_process_visible_accelerator_ids()
    assert count <= (3 if seen is None else len(seen))


@pytest.fixture
def temporary_directory() -> Iterator[Path]:
    """A temporary directory of the test's own, whose path is short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="") as folder:
        yield Path(folder)


@pytest.fixture
def disk(temporary_directory: Path) -> Iterator[Path]:
    """A disk of 60 MB and 1,000 files."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    options = "size=60m,nr_inodes=1000"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", temporary_directory], check=True)
    yield temporary_directory
    subprocess.run(["umount", "--lazy", temporary_directory], check=True)


def python(code: str, temporary_directory: Path) -> subprocess.Popen[str]:
    """Code in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code], env=environment | {"TMPDIR": str(temporary_directory)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


FULL = """
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from ident.render.stage.cluster import cluster
from ident.render.errors import Failed

try:
    with cluster(None, cores=1, gpus=0) as ray:
        ray.get(ray.remote(lambda: 1).remote())
        for size in (2**20, 0):
            with suppress(OSError):
                for number in count():
                    Path(os.environ["TMPDIR"], f"{{size}}-{{number}}").write_bytes(bytes(size))
        print("full")
        {then}
except Failed as error:
    print(error)
"""


def test_a_disk_that_fills_under_ray_does_not_stop_it(disk: Path) -> None:
    assert python(FULL.format(then=""), disk).communicate() == ("full\n", "")
    assert not list(disk.glob("ident-*"))


def test_a_disk_that_fills_under_ray_is_why_a_run_stops(disk: Path) -> None:
    out, errors = python(FULL.format(then="raise Failed('the actor died')"), disk).communicate()
    assert out.splitlines() == [
        "full", f"{disk}: 0 MB and 0 files are free there, too few for Ray's, which take 20 MB; free some, or let "
        "TMPDIR name another folder",
    ]  # fmt: skip
    assert errors == ""


STARTS = """
import sys
from ident.render.stage.cluster import cluster
from ident.render.errors import Impossible

try:
    with cluster(None, cores=1, gpus=0) as ray:
        print(ray.get(ray.remote(lambda: "started").remote()), flush=True)
        {then}
except Impossible as error:
    print(error)
"""


def test_a_full_disk_is_refused_before_ray_starts(disk: Path) -> None:
    (disk / "full").write_bytes(bytes(50 * 2**20))
    out, errors = python(STARTS.format(then=""), disk).communicate()
    assert out.startswith(f"{disk}: 10 MB and 99")
    assert errors == ""


def test_sockets_whose_paths_are_too_long_are_refused_before_ray_starts(temporary_directory: Path) -> None:
    most = 107 - len("/ident-12345678/session_2026-11-19_20-56-36_647756_4194304/sockets/plasma_store")
    longest = temporary_directory / ("x" * (most - len(f"{temporary_directory}/")))
    longest.mkdir()
    out, errors = python(STARTS.format(then=""), longest).communicate()
    assert (out, errors) == ("started\n", "")
    too_long = temporary_directory / ("x" * (60 - len(f"{temporary_directory}/")))
    too_long.mkdir()
    out, errors = python(STARTS.format(then=""), too_long).communicate()
    assert out == (
        f"TMPDIR={too_long}: 60 bytes, and Ray's sockets there may have paths of 107; shorten it to {most} or fewer, "
        "like TMPDIR=/tmp\n"
    )
    assert errors == ""
    assert list(too_long.iterdir()) == list(longest.iterdir()) == []


def test_what_a_killed_driver_left_goes_at_the_next_start(temporary_directory: Path) -> None:
    drivers = list[subprocess.Popen[str]]()
    try:
        for _ in range(2):
            drivers.append(python(STARTS.format(then="__import__('time').sleep(600)"), temporary_directory))
            assert drivers[-1].stdout
            assert drivers[-1].stdout.readline() == "started\n"
        killed, _living = drivers
        folders = list(temporary_directory.iterdir())
        assert len(folders) == 2
        assert all((folder / "session_latest").exists() for folder in folders)
        of_ray = below({killed.pid}) - {killed.pid}
        killed.kill()
        killed.wait()
        for process in of_ray:  # which end after their driver, though some take a minute to notice
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait_for(lambda: all(map(gone, of_ray)))
        (left,) = [folder for folder in folders if str(killed.pid) in str((folder / "session_latest").readlink())]
        out, errors = python(STARTS.format(then=""), temporary_directory).communicate()
        assert (out, errors) == ("started\n", "")
        assert list(temporary_directory.iterdir()) == [folder for folder in folders if folder != left]
    finally:
        for driver in drivers:
            driver.send_signal(signal.SIGINT)
            driver.communicate()
    assert list(temporary_directory.iterdir()) == []


BLENDER = """
import os, signal
from ident.render.blender import engine
engine.Engine(engine.Settings(size=16))
print(os.environ["TMPDIR"])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_blender_leaves_nothing_where_it_is_killed(temporary_directory: Path) -> None:
    out, errors = python(BLENDER, temporary_directory).communicate()
    assert (out, errors) == (f"{temporary_directory}\n", "")
    assert list(temporary_directory.iterdir()) == []
