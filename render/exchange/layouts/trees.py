"""What the layouts of a file an image have in common: a folder of images, and beside it an array of their latents."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from ident.render.aliases import Float32s
from ident.render.exchange.layouts.files import LARGEST_IMAGE, File, matching, read_latents
from ident.render.exchange.layouts.layout import Item, Latents, Layout, Picture, Row, Written
from ident.render.store.files import content, npy
from ident.render.store.manifest import Manifest


@dataclass(frozen=True)
class Tree(Layout):
    """A layout with a file an image. The pattern has the groups root and image, and part_of_... for several parts."""

    def suffix(self, part: int) -> str:  # noqa: ARG002
        """What the names of a part's files and folder end with."""
        return ""

    def path(self, number: int, count: int, part: int = 0) -> str:
        """The name of an image: as many digits as readers expect."""
        return f"images{self.suffix(part)}/{number:0{max(1, math.ceil(math.log10(count)))}d}.png"

    def latents_of(self, part: int) -> tuple[str, str]:
        """The names of the files with a part's raw latents, and with its scene values."""
        return f"raw_latents{self.suffix(part)}.npy", f"latents{self.suffix(part)}.npy"

    def pack(self, rows: list[Row], _: int) -> bytes:
        """The image as it is."""
        (row,) = rows
        return row.image

    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The image; its latents lie elsewhere."""
        yield Row(content(file, what, LARGEST_IMAGE), None)

    def rest(self, _: Manifest, raw: Float32s, __: list[Written]) -> dict[str, bytes]:
        """The latents of each part."""
        parts, arrays = self.parts(raw), dict[str, bytes]()
        for part in sorted(set(parts.tolist())):
            within = raw[parts == part]
            arrays |= zip(self.latents_of(part), self.arrays(within), strict=True)
        return arrays

    def arrays(self, raw: Float32s) -> tuple[bytes, bytes]:
        """The files of a part's raw latents (n, d), and of its scene values."""
        return npy(raw), npy(self.scene_values(raw))

    def items(self, files: Iterator[File], where: str) -> Iterator[Item]:
        """Images and latents."""
        for match, (name, opened) in matching(files, self.pattern, where):
            groups, what = match.groupdict(), f"{where}/{name}"
            part = self.part_of(groups, what)
            with opened() as file:
                if groups["image"] is None:
                    yield Latents(part, self.latents_in(part, file, what))
                else:
                    yield Picture(part, int(groups["image"]), name, content(file, what, LARGEST_IMAGE))

    def part_of(self, groups: dict[str, str | None], what: str) -> int:  # noqa: ARG002
        """The part of a file whose name has these groups."""
        return 0

    def latents_in(self, part: int, file: IO[bytes], what: str) -> Float32s:  # noqa: ARG002
        """The raw latents (n, d) of a part, of its file."""
        return read_latents(file, what, self.factors)
