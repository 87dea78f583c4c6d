"""Which datasets a run is trained and tested on: where they lie, and what tells them from others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

FILES = "files"
"""In place of a split: what stands there is where the published files of a source lie."""


@dataclass(frozen=True)
class Data:
    """A dataset: where it lies, a digest of all that is in it, and the side of its images."""

    place: str
    digest: str
    size: int


NOWHERE: Mapping[str, Data] = MappingProxyType({})
"""What a source is given that finds its files where `ident pull` brings them."""
