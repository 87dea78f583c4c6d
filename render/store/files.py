"""Files of a folder that the user names: written whole or not at all, read with a bound, never through a link, locked.

The folder itself may be a link; below it, nothing is written through one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ident.render.errors import Failed, Impossible

PART = ".ident-"
"""How the names of files begin that are not whole yet."""

LOCK = ".lock"
PARTS = ".parts"
IMPORTED = ".imported"
"""In a dataset's folder: who writes there, what is not finished, and of which files it was or is being made."""

TEMPORARY = re.compile(re.escape(PART) + "[a-z0-9_]{8}")
IN_PARTS = re.compile(rf"{TEMPORARY.pattern}|\d{{5,}}\.(part|rows|h5|json|[0-9a-f]{{16}})|\d+-\d{{5,}}\.part")
"""The names of files that a killed run leaves: beside others, and in PARTS."""

LARGEST_NOTE = 2**26
"""Bytes of a file in which a run says what it has done: IMPORTED of a hundred thousand shards has half as many."""

LARGEST_LATENTS = 2**30
"""Bytes of raw latents that are read at once: those of 25 million images of ten factors."""

CHUNK = 2**20  # bytes that are read at once

SPARE = 50_000_000  # bytes that a disk shall still have free at the end


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system say which file it was: not all do."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file: a pipe or a device in its place is refused, and not waited for.

    What is written to is this file alone: neither where a link leads, nor a file that has another name, too.
    """
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    try:
        number = os.open(path, flags | os.O_NONBLOCK | (os.O_NOFOLLOW if writes else 0), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise Impossible(f"{path}: is a link, and nothing goes where it leads; remove it") from error
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise Impossible(f"{path}: is not a file; remove it") from error
        raise
    status = os.fstat(number)
    wrong = "is not a file" if not stat.S_ISREG(status.st_mode) else ""
    if writes and status.st_nlink > 1:
        wrong = "is another file's second name, which would be changed with it"
    if wrong:
        os.close(number)
        raise Impossible(f"{path}: {wrong}; remove it") if writes else Failed(f"{path}: {wrong}")
    return number


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; what is there at the end appears as `path`, on disk and whole."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=PART)
    os.close(number)
    part = Path(name)
    try:
        with naming(path):
            yield part
            publish(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def publish(part: Path, path: Path) -> None:
    """Let a finished file appear under its name: what the disk has not taken yet, it takes now."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.chmod(0o666 & ~_umask())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def content(file: IO[bytes], what: str, most: int) -> bytes:
    """All bytes of a file, if these are not too many; memory is taken as they come."""
    data = bytearray()
    while piece := file.read(min(CHUNK, most + 1 - len(data))):
        data += piece
    if len(data) > most:
        raise Failed(f"{what}: has more than {most} bytes")
    return bytes(data)


def bounded(chunks: Iterator[bytes], most: int, what: str) -> Iterator[bytes]:
    """The same bytes, if there are no more than so many."""
    place = 0
    for chunk in chunks:
        place += len(chunk)
        if place > most:
            raise Failed(f"{what}: has more than {most} bytes")
        yield chunk


def read(path: Path, most: int) -> bytes:
    """A plain file's content, if it has at most so many bytes."""
    with os.fdopen(open_plain(path), "rb") as file:
        return content(file, str(path), most)


def write(path: Path, data: bytes) -> None:
    """Write a file that appears under its name only when whole."""
    with whole(path) as part:
        part.write_bytes(data)


@cache
def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def make_folder(path: Path, instead: str = "give another --out") -> None:
    """Make a folder to write to, or say why it cannot be, and what to do instead."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Impossible(f"{path}: is a file or lies in one, not a folder; {instead}") from error
    except OSError as error:
        raise Impossible(f"{path}: cannot be made ({error.strerror}); {instead}") from error
    check_folder(path, instead)


def check_folder(path: Path, instead: str = "give another --out") -> None:
    """Refuse a folder that cannot be made, or in which no file can; it leaves nothing there."""
    nearest = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryFile(dir=nearest, prefix=PART):  # the system's permissions promise root more than it can
            pass
    except NotADirectoryError as error:
        raise Impossible(f"{path}: is a file or lies in one, not a folder; {instead}") from error
    except OSError as error:
        cannot = "nothing can be written there" if nearest == path else "cannot be made"
        raise Impossible(f"{path}: {cannot} ({error.strerror}); {instead}") from error


def make_inside(folder: Path, *names: str, instead: str = "give another --out") -> Path:
    """Make a folder to write to, and those of ours in it, one inside the other; these may not be links."""
    make_folder(folder, instead)
    for name in names:
        folder /= name
        if folder.is_symlink():
            raise Impossible(f"{folder}: is a link, and nothing goes where it leads; remove it, or {instead}")
        make_folder(folder, instead)
    return folder


def remove(folder: Path, ours: re.Pattern[str]) -> None:
    """Remove the files in a folder that have names of ours; none where the folder is a link."""
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return
        raise
    try:
        for name in filter(ours.fullmatch, os.listdir(number)):  # noqa: PTH208
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=number)
    finally:
        os.close(number)


def remove_folder(folder: Path, ours: re.Pattern[str] = IN_PARTS) -> None:
    """Remove the files of ours in a folder, and with them the folder, unless something else lies there."""
    remove(folder, ours)
    with suppress(OSError):
        folder.rmdir()


def free_bytes(folder: Path) -> int:
    """How much is free on the disk where the folder is or will be."""
    path = folder.absolute()
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def check_room(folder: Path, needed: float, said: str, instead: str = "give another --out") -> None:
    """Refuse to begin where the disk has no room for so many bytes; `said` says what they are."""
    free = free_bytes(folder)
    if needed + SPARE > free:
        raise Impossible(f"{folder}: {said} {free / 1e9:.2f} GB are free there: {instead}")


def npy(array: npt.NDArray[Any]) -> bytes:
    """An array as the bytes of a .npy file."""
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def read_npy(file: IO[bytes], most: int) -> npt.NDArray[Any]:
    """The array in a .npy file. What its header asks for is compared before memory is taken for it: a ValueError."""
    if np.lib.format.read_magic(file) != (1, 0):  # type: ignore[no-untyped-call]
        raise ValueError("its header is none of an array of numbers")  # others may have gigabytes
    shape, in_columns, dtype = np.lib.format.read_array_header_1_0(file)  # type: ignore[no-untyped-call]
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not 0 <= size <= most:
        raise ValueError(f"its header says {dtype} {shape}, where numbers of at most {most} bytes are read")
    data = bytearray()
    while piece := file.read(min(CHUNK, size - len(data))):
        data += piece
    if len(data) < size:
        raise ValueError(f"it is cut short: {len(data)} bytes of {size}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if in_columns else "C")


def read_npy_file(path: Path, instead: str) -> npt.NDArray[Any]:
    """The array of a .npy file of the user's, which may be hostile; an error says what to give instead."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            return read_npy(file, LARGEST_LATENTS)
    except Failed as error:
        raise Impossible(f"{error}; give {instead}") from error
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror or error}; give {instead}") from error
    except Exception as error:  # numpy raises half a dozen kinds on a hostile header
        raise Impossible(f"{path}: not a .npy file of numbers ({error})") from error


def sha256(path: Path) -> str:
    """The checksum of a file, as dataset.json has it."""
    with os.fdopen(open_plain(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder(*parts: str) -> Path:
    """A folder for copies and indexes of datasets: in $IDENT_CACHE, or in `ident` in the user's cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("IDENT_CACHE") or Path(caches, "ident")).joinpath(*parts)
    make_folder(folder, "let the variable IDENT_CACHE name another")
    return folder


@contextmanager
def lock(path: Path, busy: str = "") -> Iterator[str]:
    """Hold a lock file, which ends with its process, however that comes about.

    If someone holds it: wait, or say `busy` and who it is. Gives what the file says of us.
    """
    with os.fdopen(open_plain(path, os.O_RDWR | os.O_CREAT), "r+", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            holder = file.read(200).strip() or "unknown"
            raise Impossible(f"{busy} (process {holder}): wait for it, or stop it") from error
        owner = f"{os.getpid()} on {os.uname().nodename}, run {os.urandom(4).hex()}"
        file.truncate(0)
        file.write(owner)
        file.flush()
        yield owner
