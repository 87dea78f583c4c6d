"""Pairs of a user's: a function that chooses them by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ident.benchmark.pairs.batch import Batch, Pairs, PositivePairs
from ident.benchmark.registry import Argument
from ident.benchmark.sources.dataset import Images
from ident.benchmark.training import distributed
from ident.benchmark.training.seeds import Stream, stream
from ident.render.errors import Failed

Choose = Callable[..., tuple[Any, Any]]
"""Gives anchors (size,) and positives (size,) of factors (n, d), a size, the row's arguments and a generator `rng`."""


class OwnPairs(Pairs):
    """Pairs of images that a function chooses; the same ones for the same batch number."""

    def __init__(self, source: Images, name: str, choose: Choose, *arguments: Argument, **keywords: Argument) -> None:
        self.source, self.name, self.choose = source, name, choose
        self.arguments, self.keywords = arguments, keywords

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number`, if these are pairs of images that there are."""
        rng = np.random.default_rng(stream(self.source.seed, Stream.BATCHES, number))
        chosen = self.choose(self.source.latents, self.source.checked(size), *self.arguments, **self.keywords, rng=rng)
        try:
            anchors, positives = (np.asarray(indices) for indices in chosen)
        except (TypeError, ValueError) as error:
            raise Failed(f"{self.name}: gave {type(chosen).__name__}; give anchors and positives by index") from error
        for indices in (anchors, positives):
            if indices.shape != (size,) or indices.dtype.kind not in "iu":
                raise Failed(f"{self.name}: gave {indices.dtype} {indices.shape}, of {len(self.source)} images {size}")
            if wrong := indices[(indices < 0) | (indices >= len(self.source))].tolist():
                raise Failed(f"{self.name}: gave image {wrong[0]}; there are 0 to {len(self.source) - 1}")
        indices = np.concatenate([anchors, positives]).astype(np.int64)[distributed.share(2 * size)]
        return Batch(self.source.images(indices), (PositivePairs(slice(size), slice(size, 2 * size)),))
