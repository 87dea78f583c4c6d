"""Observations with their factors: what supervised training takes in place of pairs."""

from __future__ import annotations

from ident.benchmark.pairs.batch import Batch, Pairs
from ident.benchmark.sources.source import Source
from ident.benchmark.training import distributed


class Labelled(Pairs):
    """Observations drawn from a source, and their factors."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number`."""
        observations, factors = self.source.labelled(number, size, distributed.share(size))
        return Batch(observations, factors=factors)
