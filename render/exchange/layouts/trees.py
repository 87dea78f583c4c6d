"""What the layouts of a file an image have in common: a folder of images, and beside it an array of their latents."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from ident.render.aliases import Float32s
from ident.render.exchange.layouts.files import LARGEST_IMAGE, File, matching, read_latents
from ident.render.exchange.layouts.layout import Item, Latents, Layout, Picture, Row, Written
from ident.render.store.files import content, npy
from ident.render.store.manifest import Manifest
from ident.render.worlds.threedident import WORLD


@dataclass(frozen=True)
class Tree(Layout):
    """A layout with a file an image. The pattern has the groups root and image, and part_of_... for several sets."""

    meaning: str
    pattern: re.Pattern[str]
    images: str
    suffix: str
    rows: int = 1

    @property
    def last(self) -> tuple[str, ...]:  # type: ignore[override]
        """The latents."""
        return f"raw_latents{self.suffix}.npy", f"latents{self.suffix}.npy"

    def path(self, number: int, count: int) -> str:
        """The name of an image: as many digits as readers expect."""
        return f"{self.images}/{number:0{max(1, math.ceil(math.log10(count)))}d}.png"

    def pack(self, rows: list[Row], _: int) -> bytes:
        """The image as it is."""
        (row,) = rows
        return row.image

    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The image; its latents lie elsewhere."""
        yield Row(content(file, what, LARGEST_IMAGE), None)

    def rest(self, _: Manifest, raw: Float32s, __: list[Written]) -> dict[str, bytes]:
        """The latents."""
        values = WORLD.values(raw).astype(np.float32)
        return dict(zip(self.last, (npy(raw), npy(values)), strict=True))

    def items(self, files: Iterator[File], where: str) -> Iterator[Item]:
        """Images and latents."""
        for found, (name, opened) in matching(files, self.pattern, where):
            groups, what = found.groupdict(), f"{where}/{name}"
            part = int(groups.get("part_of_latents") or groups.get("part_of_image") or 0)
            with opened() as file:
                if groups["image"] is None:
                    yield Latents(part, read_latents(file, what))
                else:
                    yield Picture(part, int(groups["image"]), name, content(file, what, LARGEST_IMAGE))
