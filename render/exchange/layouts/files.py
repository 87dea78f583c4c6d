"""Files that others have made: where they come from, and how they are read without trusting them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import math
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import IO, Any, Self, cast

import numpy as np

from ident.render.aliases import Array, Float32s
from ident.render.errors import Failed, Impossible
from ident.render.store.files import LARGEST_LATENTS, content, read_npy
from ident.render.worlds.factors import Factor, check_raw

CHUNK = 2**20
LARGEST_IMAGE, LARGEST_JSON = 2**26, 2**24  # bytes
LARGEST_HEADER, LARGEST_DECODER = 2**16, 2**28
"""Bytes of a header in an archive with all that belongs to it, and of memory that xz may take: at its best, 2**26."""

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
    except Impossible:  # a ValueError, too, but not of the archive
        raise
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RecursionError) as error:
        if isinstance(error, FileNotFoundError) or (isinstance(error, OSError) and error.filename is not None):
            raise
        raise Failed(f"{where}: not a whole tar archive ({error})") from error


class Begun:
    """A stream whose first bytes were read, as if they had not been."""

    def __init__(self, begin: bytes, rest: IO[bytes]) -> None:
        self._begin, self._rest = begin, rest

    def read(self, size: int) -> bytes:
        """So many bytes, or as many as are left."""
        begin, self._begin = self._begin[:size], self._begin[size:]
        return begin + self._rest.read(size - len(begin))


class Xz(io.RawIOBase):
    """What is packed by xz, by a decoder with a bound for its memory, which Python's own file has not."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed, self._decoder = packed, lzma.LZMADecompressor(memlimit=LARGEST_DECODER)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As much as is there, and fits."""
        data = b""
        while not data:
            piece = self._packed.read(CHUNK) if self._decoder.eof or self._decoder.needs_input else b""
            if self._decoder.eof:  # more streams may follow, padded with zeros
                piece = (self._decoder.unused_data + piece).lstrip(b"\0")
                if not piece:
                    return 0
                self._decoder = lzma.LZMADecompressor(memlimit=LARGEST_DECODER)
            elif self._decoder.needs_input and not piece:
                raise EOFError("it is cut short")
            data = self._decoder.decompress(piece, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def unpacked(stream: IO[bytes]) -> IO[bytes]:
    """What a stream holds, packed or not. Nothing here unpacks more at a time than it is asked for, as tarfile does."""
    begin = stream.read(6)
    whole = cast("IO[bytes]", Begun(begin, stream))
    if begin.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=whole, mode="rb"))
    if begin.startswith(b"BZh"):
        return bz2.BZ2File(whole)
    if begin.startswith((b"\xfd7zXZ", b"\x5d\0\0\x80")):
        return io.BufferedReader(Xz(whole))
    return whole


class Forward:
    """A stream that is read from its begin to its end, as a file that knows its place."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._place = stream, 0
        self.end = math.inf
        """How far it may be read for now."""

    def tell(self) -> int:
        """Where it is."""
        return self._place

    def seek(self, place: int) -> None:
        """Go on to a place."""
        if place < self._place:
            raise tarfile.ReadError("its members overlap")
        while self._place < place and self.read(min(CHUNK, place - self._place)):
            pass

    def read(self, size: int) -> bytes:
        """So many bytes, or as many as are left."""
        if self._place + size > self.end:
            raise tarfile.ReadError(f"a header has more than {LARGEST_HEADER} bytes")
        data = self._stream.read(size)
        self._place += len(data)
        return data


class Header(tarfile.TarInfo):
    """A header that must be there, small and whole: by itself tarfile takes what is wrong with one for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """The next header, with those before it that say more of it."""
        stream = cast("Forward", archive.fileobj)
        stream.end = min(stream.end, stream.tell() + LARGEST_HEADER)
        try:
            return super().fromtarfile(archive)
        except EOFHeaderError:  # the mark at the end
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"it is cut short, or damaged: {error}") from error


def files_of_archive(stream: IO[bytes], where: str) -> Iterator[File]:
    """The files of a tar archive, packed or not, as it streams by. Their names are read, never written to."""
    with untarring(where):
        forward = Forward(unpacked(stream))
        with tarfile.open(fileobj=cast("IO[bytes]", forward), mode="r:", tarinfo=Header) as archive:
            while (member := archive.next()) is not None:
                forward.end = math.inf
                archive.members.clear()  # type: ignore[attr-defined]  # else all are kept
                archive.pax_headers = {}
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


def matching(files: Iterator[File], pattern: re.Pattern[str], where: str) -> Iterator[tuple[re.Match[str], File]]:
    """The files that a pattern with the group root knows; all that have a root must have the same."""
    root: str | None = None
    for file in files:
        match = pattern.fullmatch(file[0])
        if match is None:
            continue
        if None not in (root, match["root"]) and match["root"] != root:
            both = f"{root or '.'} and {match['root'] or '.'}"
            raise Impossible(f"{where}: holds more than one set, {both}: give one of them")
        root = root if match["root"] is None else match["root"]
        yield match, file


def read_json(file: IO[bytes], what: str) -> Any:
    """What a JSON file has."""
    data = content(file, what, LARGEST_JSON)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Failed(f"{what}: not JSON, or cut short ({error})") from error


def read_latents(file: IO[bytes], what: str, factors: tuple[Factor, ...]) -> Float32s:
    """Raw latents (n, d) of a .npy file, checked; those of one image may be (d,)."""
    try:
        array = read_npy(file, LARGEST_LATENTS)
    except (Failed, OSError, EOFError):  # of where it comes from
        raise
    except Exception as error:  # numpy raises half a dozen kinds on a hostile header
        raise Failed(f"{what}: not a .npy file of numbers ({error})") from error
    return checked(np.atleast_2d(array), what, factors)


def checked(raw: Array, what: str, factors: tuple[Factor, ...]) -> Float32s:
    """Raw latents (n, d), or an error that says where they are wrong."""
    try:
        return check_raw(raw, factors, what)
    except Impossible as error:
        raise Failed(str(error)) from error
