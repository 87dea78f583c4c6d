"""What the layouts of plain files have in common: each file has a role, and files come from a folder or an archive."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from ident.render import latents
from ident.render.errors import Failed, Impossible
from ident.render.latents import Float32s

LARGEST_FILE = 2**30  # bytes; the latents of 25 million images


@dataclass(frozen=True)
class Role:
    """What a file is: the raw latents of a part of the images, or image `number` of the part."""

    root: str
    part: int
    number: int | None


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


Item = Latents | Picture
File = tuple[str, Callable[[], bytes]]


def role(pattern: re.Pattern[str], name: str) -> Role | None:
    """The role of a file by a pattern with the groups root, and latents or image, and part if there are several."""
    found = pattern.fullmatch(name)
    if found is None:
        return None
    groups = found.groupdict()
    part = groups.get("part_of_latents") or groups.get("part_of_image") or 0
    return Role(groups["root"] or "", int(part), None if groups["image"] is None else int(groups["image"]))


def files_of_folder(folder: Path) -> Iterator[File]:
    """The files below a folder, by their paths in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path.read_bytes


@contextmanager
def untarring(where: str) -> Iterator[None]:
    """Say of what goes wrong with an archive that it does, and with which."""
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise Failed(f"{where}: not a whole tar archive ({error})") from error


def files_of_archive(stream: IO[bytes], where: str) -> Iterator[File]:
    """The files of a tar archive, packed or not, as it streams by. Their names are read, never written to."""
    with untarring(where), tarfile.open(fileobj=stream, mode="r|*") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isdir():
                continue
            if not member.isreg() or name.startswith("/") or ".." in name.split("/"):
                raise Failed(f"{where}: the member {member.name!r} is a link, or lies outside: not to be trusted")
            if member.size > LARGEST_FILE:
                raise Failed(f"{where}: the member {member.name!r} has {member.size} bytes")
            yield name, partial(_member, archive, member, where)


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> bytes:
    with untarring(where):
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def detect(files: Iterator[File], patterns: Mapping[str, re.Pattern[str]], where: str) -> tuple[str, Iterator[File]]:
    """The name of the layout that the files are in, and the files from the first on that shows it."""
    others = list[str]()
    for file in files:
        for layout, pattern in patterns.items():
            if pattern.fullmatch(file[0]):
                return layout, chain([file], files)
        others.append(file[0])
    wanted = ", ".join(patterns)
    raise Impossible(f"{where}: in none of the layouts {wanted}; found {', '.join(others[:5]) or 'no file'}")


def items(files: Iterator[File], pattern: re.Pattern[str], where: str) -> Iterator[Item]:
    """What the files are; those that have no role are passed by."""
    root: str | None = None
    for name, read in files:
        found = role(pattern, name)
        if found is None:
            continue
        if root is not None and found.root != root:
            both = f"{root or '.'} and {found.root or '.'}"
            raise Impossible(f"{where}: holds more than one set, {both}: give one of them")
        root = found.root
        if found.number is None:
            yield Latents(found.part, read_latents(read(), f"{where}/{name}"))
        else:
            yield Picture(found.part, found.number, name, read())


def read_latents(data: bytes, what: str) -> Float32s:
    """Raw latents of the bytes of a .npy file, checked."""
    try:
        array = np.load(BytesIO(data), allow_pickle=False)
    except Exception as error:  # numpy raises half a dozen kinds on a hostile header
        raise Failed(f"{what}: not a .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray):
        raise Failed(f"{what}: not a .npy file, but an archive of them")
    try:
        return latents.check(array, what)
    except Impossible as error:
        raise Failed(str(error)) from error
