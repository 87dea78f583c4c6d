"""Folders in the temporary directory: gone after a normal end, gone at the next start after a kill, never another's."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ident.render import temporary
from ident.render.errors import Failed


def test_nothing_is_left_of_a_folder(tmp_path: Path) -> None:
    with temporary.folder(tmp_path) as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "session").mkdir()
        (folder / "session" / "log").write_text("x")
        (folder / "latest").symlink_to(folder / "session")
        with temporary.folder(tmp_path) as other:
            assert folder.exists()
            assert other != folder
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Failed, match=f"{tmp_path}/none: no temporary folder can be made there .No such file"):
        temporary.folder(tmp_path / "none").__enter__()


HOLD = """
import sys, time
from pathlib import Path
from ident.render import temporary
with temporary.folder(Path(sys.argv[1])) as folder:
    (folder / "session").mkdir()
    print(folder, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_left_goes_and_a_living_ones_stays(tmp_path: Path) -> None:
    holders = [
        subprocess.Popen([sys.executable, "-P", "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        killed, living = (Path(holder.stdout.readline().strip()) for holder in holders if holder.stdout)
        holders[0].kill()
        holders[0].wait()
        assert (killed / "session").exists()
        with temporary.folder(tmp_path):
            assert not killed.exists()
            assert (living / "session").exists()
        holders[1].send_signal(signal.SIGSTOP)  # it lives, though it does nothing
        with temporary.folder(tmp_path):
            assert (living / "session").exists()
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_what_was_killed_before_it_held_its_folder_goes_when_it_is_old(tmp_path: Path) -> None:
    folders = [tmp_path / f"ident-abcdefg{i}" for i in range(5)]
    for folder in folders:
        folder.mkdir(0o700)
    for folder in folders[1:4]:
        (folder / temporary.SOON).touch()
    (folders[2] / "kept").touch()
    folders[4].chmod(0o755)  # as no folder of ours is
    long_ago = time.time() - 2 * temporary.FORSAKEN
    for folder in (*folders[:3], folders[4]):
        os.utime(folder, (long_ago, long_ago))
    temporary.sweep(tmp_path)
    assert [folder.exists() for folder in folders] == [False, False, True, True, True]


def test_a_folder_that_cannot_be_held_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(Failed, match=f"{tmp_path}: no temporary folder can be made there .No space left on device"):
        temporary.folder(tmp_path).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for folder in (elsewhere, tmp_path / "ident-mydata12", tmp_path / "ident-data", tmp_path / "blender_abcdef"):
        folder.mkdir()
        (folder / "kept").touch()
    (tmp_path / "ident-data" / temporary.HELD).touch()
    (elsewhere / temporary.HELD).touch()
    (tmp_path / "ident-abcdefgh").symlink_to(elsewhere)
    (tmp_path / "ident-abcdefg1").touch()
    (tmp_path / "ident-abcdefg2").mkdir()
    (tmp_path / "ident-abcdefg2" / temporary.HELD).symlink_to(elsewhere / temporary.HELD)
    before = sorted(map(str, tmp_path.rglob("*")))
    temporary.sweep(tmp_path)
    assert sorted(map(str, tmp_path.rglob("*"))) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder to another user needs root")
def test_what_is_another_users_stays(tmp_path: Path) -> None:
    (tmp_path / "ident-abcdefgh").mkdir()
    (tmp_path / "ident-abcdefgh" / temporary.HELD).touch()
    os.chown(tmp_path / "ident-abcdefgh", 12345, 12345)
    temporary.sweep(tmp_path)
    assert (tmp_path / "ident-abcdefgh").exists()
    os.chown(tmp_path / "ident-abcdefgh", os.geteuid(), -1)
    temporary.sweep(tmp_path)
    assert not (tmp_path / "ident-abcdefgh").exists()
