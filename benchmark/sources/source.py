"""What a source is: observations, and the factors that they show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from torch import Tensor, nn

from ident.benchmark.latents.spaces import Space
from ident.benchmark.pairs.batch import Batch
from ident.render.worlds.factors import Factor


class Source(Protocol):
    """Observations and factors, the same for the same seed."""

    dim: int
    """How many factors there are."""
    space: Space
    """Where they live."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What each of them is."""

    splits: tuple[str, ...]
    """Of what scores are taken; `test` is among them."""

    ahead: int
    """How many batches threads draw before they are asked for; 0 where drawing takes no time."""

    def labelled(self, number: int, size: int) -> Batch:
        """Batch `number` of observations with their factors."""

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Factors (n, dim) of a split, or of all that it has, and what they look like: some at a time."""

    def fit(self, encoder: nn.Sequential, *, whiten: bool) -> nn.Sequential:
        """An encoder with what its input takes before it: normalised as this source's observations need."""

    def untrained(self, encoder: nn.Sequential) -> nn.Sequential:
        """What the scores without any training are of: the encoder as it begins, or the observations themselves."""

    def picture(self, representation: Tensor) -> bytes | None:
        """A PNG of what lies near in the representation (n, k) of the first test samples, if that can be seen."""
