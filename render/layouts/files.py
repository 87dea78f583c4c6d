"""Files that others have made: where they come from, and how they are read without trusting them."""

from __future__ import annotations

import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import IO, Any, Self

import numpy as np

from ident.render import latents
from ident.render.aliases import Float32s
from ident.render.errors import Failed, Impossible

LARGEST = 2**30  # bytes that are read at once; the latents of 25 million images
LARGEST_IMAGE = 2**26

File = tuple[str, Callable[[], AbstractContextManager[IO[bytes]]]]
"""The name of a file, and what opens it: once, and before the next file is asked for."""


def paths_below(folder: Path) -> Iterator[Path]:
    """The files below a folder in order, also behind links, each folder once."""
    seen = set[Path]()

    def walk(place: Path) -> Iterator[Path]:
        if place.resolve() not in seen:
            seen.add(place.resolve())
            for path in sorted(place.iterdir()):
                if path.is_dir():
                    yield from walk(path)
                elif path.is_file():
                    yield path

    return walk(folder)


@contextmanager
def untarring(where: str) -> Iterator[None]:
    """Say of what goes wrong with an archive that it does, and with which."""
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) or (isinstance(error, OSError) and error.filename is not None):
            raise
        raise Failed(f"{where}: not a whole tar archive ({error})") from error


class Header(tarfile.TarInfo):
    """A header that must be there and whole: by itself tarfile takes what is wrong with a later one for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """The next header."""
        try:
            return super().fromtarfile(archive)
        except EOFHeaderError:  # the mark at the end
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"it is cut short, or damaged: {error}") from error


def files_of_archive(stream: IO[bytes], where: str) -> Iterator[File]:
    """The files of a tar archive, packed or not, as it streams by. Their names are read, never written to."""
    with untarring(where), tarfile.open(fileobj=stream, mode="r|*", tarinfo=Header) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isdir():
                continue
            if not member.isreg() or name.startswith("/") or ".." in name.split("/"):
                raise Failed(f"{where}: the member {member.name!r} is a link, or lies outside: not to be trusted")
            yield name, partial(_member, archive, member, where)


@contextmanager
def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> Iterator[IO[bytes]]:
    with untarring(where):
        file = archive.extractfile(member)
        assert file is not None
        yield file


def content(file: IO[bytes], what: str, most: int = LARGEST) -> bytes:
    """All bytes of a file."""
    data = file.read(most + 1)
    if len(data) > most:
        raise Failed(f"{what}: has more than {most} bytes")
    return data


def matching(files: Iterator[File], pattern: re.Pattern[str], where: str) -> Iterator[tuple[re.Match[str], File]]:
    """The files that a pattern with the group root knows; all that have a root must have the same."""
    root: str | None = None
    for file in files:
        found = pattern.fullmatch(file[0])
        if found is None:
            continue
        if None not in (root, found["root"]) and found["root"] != root:
            both = f"{root or '.'} and {found['root'] or '.'}"
            raise Impossible(f"{where}: holds more than one set, {both}: give one of them")
        root = root if found["root"] is None else found["root"]
        yield found, file


def read_json(data: bytes, what: str) -> Any:
    """What a JSON file has."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Failed(f"{what}: not JSON, or cut short ({error})") from error


def read_latents(data: bytes, what: str) -> Float32s:
    """Raw latents (n, 10) of the bytes of a .npy file, checked; those of one image may be (10,)."""
    try:
        array = np.load(BytesIO(data), allow_pickle=False)
    except Exception as error:  # numpy raises half a dozen kinds on a hostile header
        raise Failed(f"{what}: not a .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray):
        raise Failed(f"{what}: not a .npy file, but an archive of them")
    return checked(np.atleast_2d(array), what)


def checked(raw: np.ndarray, what: str) -> Float32s:  # type: ignore[type-arg]
    """Raw latents (n, 10), or an error that says where they are wrong."""
    try:
        return latents.check(raw, what)
    except Impossible as error:
        raise Failed(str(error)) from error
