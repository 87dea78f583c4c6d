"""Files as others lay them out: where they come from, and what is found in them."""

from __future__ import annotations

import json
import re
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from tarfile import InvalidHeaderError  # type: ignore[attr-defined]
from typing import IO, Any, Self

import numpy as np

from ident.render import latents
from ident.render.errors import Failed, Impossible
from ident.render.latents import Float32s
from ident.render.manifest import Manifest

LARGEST = 2**30  # bytes that are read at once; the latents of 25 million images

File = tuple[str, Callable[[], AbstractContextManager[IO[bytes]]]]
"""The name of a file, and what opens it: once, and before the next file is asked for."""


@dataclass(frozen=True)
class Parts:
    """How many parts there are, where that is said."""

    count: int


@dataclass(frozen=True)
class Latents:
    """The raw latents (n, 10) of a part."""

    part: int
    raw: Float32s


@dataclass(frozen=True)
class Picture:
    """An image file, and where it stands."""

    part: int
    number: int
    name: str
    data: bytes


Item = Parts | Latents | Picture


@dataclass(frozen=True)
class Row:
    """An image as PNG or the like, and its raw latents (10,), if these are kept beside it."""

    image: bytes
    raw: Float32s | None


@dataclass(frozen=True)
class Written:
    """A file that was written, by its name, and what it holds."""

    name: str
    rows: int
    bytes: int


class Layout(ABC):
    """A layout: how its files are named, written and read."""

    meaning: str
    pattern: re.Pattern[str]
    """The names of its files, with the groups that `items` looks for."""
    rows: int
    """Images in a file, at most."""

    @abstractmethod
    def path(self, number: int, count: int) -> str:
        """The name of file `number` of so many."""

    @abstractmethod
    def pack(self, rows: list[Row], start: int) -> bytes:
        """A file of rows, of which the first has the number `start` in the dataset."""

    @abstractmethod
    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The rows of a file."""

    @abstractmethod
    def rest(self, manifest: Manifest, raw: Float32s, files: list[Written]) -> dict[str, bytes]:
        """What is written last: latents, or what says which files there are."""

    @abstractmethod
    def items(self, files: Iterator[File], where: str) -> Iterator[Item]:
        """What the files are; those that have no place in the layout are passed by."""


def files_of_folder(folder: Path) -> Iterator[File]:
    """The files below a folder, by their paths in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield local(path, path.relative_to(folder).as_posix())


def local(path: Path, name: str) -> File:
    """A file on a disk."""
    return name, lambda: path.open("rb")


@contextmanager
def untarring(where: str) -> Iterator[None]:
    """Say of what goes wrong with an archive that it does, and with which."""
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise Failed(f"{where}: not a whole tar archive ({error})") from error


class Header(tarfile.TarInfo):
    """A header that must be there and whole: by itself tarfile takes what is wrong with a later one for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The header in a block."""
        if len(buf) != tarfile.BLOCKSIZE:
            raise tarfile.ReadError("it is cut short")
        try:
            return super().frombuf(buf, encoding, errors)
        except InvalidHeaderError as error:
            raise tarfile.ReadError(str(error)) from error


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


def content(file: IO[bytes], what: str) -> bytes:
    """All bytes of a file."""
    data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Failed(f"{what}: has more than {LARGEST} bytes")
    return data


def detect(files: Iterator[File], layouts: Mapping[str, Layout], where: str) -> tuple[str, Iterator[File]]:
    """The name of the layout that the files are in, and the files from the first on that shows it."""
    others = list[str]()
    for file in files:
        for name, layout in layouts.items():
            if layout.pattern.fullmatch(file[0]):
                return name, chain([file], files)
        others.append(file[0])
    wanted = ", ".join(layouts)
    raise Impossible(f"{where}: in none of the layouts {wanted}; found {', '.join(others[:5]) or 'no file'}")


def matching(files: Iterator[File], pattern: re.Pattern[str], where: str) -> Iterator[tuple[re.Match[str], File]]:
    """The files that a pattern with the group root knows; all of them must have the same root."""
    root: str | None = None
    for file in files:
        found = pattern.fullmatch(file[0])
        if found is None:
            continue
        if root is not None and found["root"] != root:
            both = f"{root or '.'} and {found['root'] or '.'}"
            raise Impossible(f"{where}: holds more than one set, {both}: give one of them")
        root = found["root"]
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
