"""Which datasets a run is trained and tested on: where they lie, and what tells them from others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Data:
    """A dataset: where it lies, a digest of all that is in it, and the side of its images."""

    place: str
    digest: str
    size: int
