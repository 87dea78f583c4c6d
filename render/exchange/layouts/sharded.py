"""What the layouts of a file many images have in common: numbered parts, and latents beside each image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from ident.render.aliases import Float32s
from ident.render.errors import Failed
from ident.render.exchange.layouts.files import File, checked, matching, read_json
from ident.render.exchange.layouts.layout import Item, Latents, Layout, Parts, Picture


@dataclass(frozen=True)
class Sharded(Layout):
    """A layout with rows in numbered files. The pattern has the groups root, part, and of (how many) or index."""

    rows = 1000
    listing = ("", "")
    """Under which name an index lists the files, and under which how many samples each has."""

    def items(self, files: Iterator[File], where: str) -> Iterator[Item]:
        """The images of each part, then its latents."""
        for match, (name, opened) in matching(files, self.pattern, where):
            groups, what = match.groupdict(), f"{where}/{name}"
            with opened() as file:
                if groups["part"] is None:
                    yield self._listed(file, what)
                    continue
                if groups.get("of") is not None:
                    yield Parts(int(groups["of"]))
                yield from self._part(int(groups["part"]), file, what)

    def _part(self, part: int, file: IO[bytes], what: str) -> Iterator[Item]:
        raw = list[Float32s]()
        for number, row in enumerate(self.unpack(file, what)):
            assert row.raw is not None
            raw.append(row.raw)
            yield Picture(part, number, f"{what}, row {number}", row.image)
        if not raw:
            raise Failed(f"{what}: holds no rows")
        if {array.shape for array in raw} != {(len(self.factors),)}:
            raise Failed(f"{what}: not all of its rows have {len(self.factors)} latents")
        yield Latents(part, checked(np.stack(raw), what, self.factors))

    def _listed(self, file: IO[bytes], what: str) -> Parts:
        files, samples = self.listing
        try:
            listed = read_json(file, what)[files]
            packed = {part.get("compression") for part in listed} - {None}
            rows = tuple(int(part[samples]) for part in listed)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise Failed(f"{what}: not an index of the files ({type(error).__name__}: {error})") from error
        if packed:
            raise Failed(f"{what}: files packed with {', '.join(map(str, packed))}; only unpacked ones can be read")
        return Parts(len(rows), rows)
