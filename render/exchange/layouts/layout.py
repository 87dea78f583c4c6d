"""What a layout is, and what is found in files that are laid out so."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import IO, ClassVar

import numpy as np

from ident.render.aliases import Float32s, Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.exchange.layouts.files import File
from ident.render.store.manifest import Manifest
from ident.render.worlds import Factor, WorldFacts
from ident.render.worlds.threedident import WORLD


@dataclass(frozen=True)
class Parts:
    """How many parts there are, where that is said, and how many images each has, if that is, too."""

    count: int
    rows: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Latents:
    """The raw latents (n, d) of a part."""

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
    """An image as PNG or the like, and its raw latents (d,), if these are kept beside it."""

    image: bytes
    raw: Float32s | None


@dataclass(frozen=True)
class Written:
    """A file that was written, by its name, and what it holds."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Layout(ABC):
    """A layout: how its files are named, written and read."""

    world: WorldFacts = WORLD.facts
    """What the images show: by itself what those show that others have made."""

    meaning = ""
    pattern = re.compile("")
    """The names of the files that are read, with the groups that `items` looks for."""
    rows = 1
    """Images in a file, at most."""
    last: ClassVar[tuple[str, ...]] = ()
    """The files that are written last: latents, or what says which files there are."""
    contiguous = True
    """Whether there are parts 0 to 2 where there is a part 3."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The columns of the raw latents."""
        return self.world.factors

    @abstractmethod
    def path(self, number: int, count: int, part: int = 0) -> str:
        """The name of file `number` of so many in a part."""

    def parts(self, raw: Float32s) -> Int64s:
        """The part (n,) in which each image of these latents (n, d) is written."""
        return np.zeros(len(raw), np.int64)

    @abstractmethod
    def pack(self, rows: list[Row], start: int) -> bytes:
        """A file of rows, of which the first has the number `start` in the dataset."""

    @abstractmethod
    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The rows of a file."""

    @abstractmethod
    def rest(self, manifest: Manifest, raw: Float32s, files: list[Written]) -> dict[str, bytes]:
        """The content of the files in `last`."""

    @abstractmethod
    def items(self, files: Iterator[File], where: str) -> Iterator[Item]:
        """What the files are; those that have no place in the layout are passed by."""

    def scene_values(self, raw: Float32s) -> Float32s:
        """The scene values (..., d) of raw latents (..., d)."""
        values: Float64s = raw * np.array([factor.scale for factor in self.factors], np.float64)
        return values.astype(np.float32)


def detect(files: Iterator[File], layouts: Mapping[str, Layout], where: str) -> tuple[str, Iterator[File]]:
    """The name of the layout that the files are in, and the files from the first on that shows it."""
    others = list[str]()
    for file in files:
        for name, layout in layouts.items():
            if layout.pattern.fullmatch(file[0]):
                return name, chain([file], files)
        if len(others) < 5:
            others.append(file[0][:100])
    wanted = ", ".join(layouts)
    raise Impossible(f"{where}: in none of the layouts {wanted}; found {', '.join(others) or 'no file'}")
