"""Folders in the temporary directory for what other programs leave there, like Ray's sessions: ours to clean up.

Each has a name that nobody can foresee, is for its owner alone, and holds a lock file that is locked as long as its
process lives, whatever ends that. What a killed process has left is removed when the next one makes a folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ident.render.errors import Failed

PREFIX, HELD = "ident-", ".held"
"""How the names of such folders begin, and the lock file in each."""
LENGTH = len(PREFIX) + 8
"""Of such a name."""
SOON = f"{HELD}-soon"
"""The name of the lock file until it is locked."""
FORSAKEN = 600.0
"""Seconds after which nobody will lock a folder that was made and never held: whoever made it was killed in between."""
PATIENCE = 5.0
"""Seconds in which Ray's last processes are waited for, which still write as they end."""


@contextmanager
def folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder in the temporary directory, or in `parent`: removed at the end with all that is in it."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    sweep(parent)
    path = None
    try:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(path / SOON, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except OSError as error:
        if path:
            path.rmdir()
        raise Failed(
            f"{parent}: no temporary folder can be made there ({error.strerror}); let TMPDIR name another"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (path / SOON).rename(path / HELD)  # nobody sees it before it is held
        yield path
    finally:
        remove(path, PATIENCE)
        os.close(lock)


def sweep(parent: Path) -> None:
    """Remove the folders there of processes of this user that have ended."""
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is held, or not ours
            if not re.fullmatch(r"\w{8}", path.name.removeprefix(PREFIX)) or path.lstat().st_uid != os.geteuid():
                continue
            inside = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if forsaken(inside):
                    with suppress(FileNotFoundError):
                        os.unlink(SOON, dir_fd=inside)
                    path.rmdir()
                    continue
                lock = os.open(HELD, os.O_RDWR | os.O_NOFOLLOW, dir_fd=inside)
            finally:
                os.close(inside)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
            finally:
                os.close(lock)


def forsaken(folder: int) -> bool:
    """Whether an open folder was made long ago, and its process ended before it could hold it."""
    status = os.fstat(folder)
    old = time.time() - status.st_mtime > FORSAKEN
    return old and status.st_mode & 0o777 == 0o700 and set(os.listdir(folder)) <= {SOON}


def remove(path: Path, patience: float = 0.0) -> None:
    """Remove such a folder, its lock file last: what is left of one in the middle is still known as ours."""
    until = time.monotonic() + patience
    while True:
        with suppress(OSError):
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry)
                elif entry.name != HELD:
                    Path(entry).unlink()
            shutil.rmtree(path)
        if not path.exists() or time.monotonic() > until:
            return
        time.sleep(0.05)
