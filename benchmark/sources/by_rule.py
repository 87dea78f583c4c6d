"""Images that are drawn when they are asked for: no disk, and the same for the same seed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ident.benchmark.latents.spaces import Box
from ident.benchmark.sources.source import Source
from ident.benchmark.training.seeds import Stream, stream
from ident.render.aliases import Array, Float32s

AHEAD = 4
"""Batches that are drawn before the encoder asks for them."""
AT_ONCE = 256
"""Images that are encoded at a time where no gradients are wanted."""


class DrawnImages(Source):
    """Images of factors: who inherits says which factors there are, how they are drawn, and what they look like."""

    ahead = AHEAD
    shape: tuple[int, int, int]
    furthest: ClassVar[int] = 1000
    """The most frames from one of a pair to the other, where there are sequences."""

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self.dim = len(self.factors)
        self.space = Box(self.dim)

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """What tells n images from others, an entry each: their factors, their classes, or the numbers of frames."""

    @abstractmethod
    def factors_of(self, drawn: Array) -> Float32s:
        """The factors (n, dim) of these images."""

    @abstractmethod
    def images(self, drawn: Array) -> Tensor:
        """These images (n, C, H, W) uint8."""

    def rng(self, *number: int) -> np.random.Generator:
        """Random numbers of a stream."""
        return np.random.default_rng(stream(self.seed, *number))

    def labelled(self, number: int, size: int, share: slice) -> tuple[Tensor, Tensor]:
        """A share of batch `number` of images, and their factors (n, dim)."""
        drawn = self.draw(size, self.rng(Stream.BATCHES, number))[share]
        return self.images(drawn), torch.from_numpy(self.factors_of(drawn))

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Factors (n, dim) of images that are drawn anew, and these."""
        assert split in self.splits
        drawn = self.draw(n, self.rng(Stream.SAMPLES))
        parts = np.array_split(drawn, range(AT_ONCE, n, AT_ONCE))
        return torch.from_numpy(self.factors_of(drawn)), map(self.images, parts)

    @property
    def moments(self) -> tuple[Sequence[float], Sequence[float]]:
        """Images are seen from 0 to 1, as they are."""
        return [0.0] * self.shape[0], [1.0] * self.shape[0]

    def shown(self, numbers: Tensor, n: int) -> Tensor:
        """Images (m, C, H, W) of test samples by their numbers (m,) among the first n."""
        return self.images(self.draw(n, self.rng(Stream.SAMPLES))[numbers.numpy()])
