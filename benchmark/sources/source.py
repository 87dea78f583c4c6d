"""What a source is: observations, and the factors that they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from torch import Tensor

from ident.benchmark.latents.spaces import Space
from ident.render.errors import Impossible
from ident.render.worlds.factors import Factor


class Source(Protocol):
    """Observations and factors, the same for the same seed."""

    dim: int
    """How many factors there are."""
    space: Space
    """Where they live."""
    splits: tuple[str, ...]
    """Of what scores are taken; `test` is among them."""
    ahead: int
    """How many batches threads draw before they are asked for; 0 where drawing takes no time."""
    encoded: bool
    """Whether an encoder has something to find: observations are not the factors themselves."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What each of them is."""

    def labelled(self, number: int, size: int, share: slice) -> tuple[Tensor, Tensor]:
        """A share of batch `number` of `size` observations, and their factors (n, dim)."""

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Factors (n, dim) of a split, or of all that it has, and what they look like: some at a time."""

    @property
    def moments(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Mean and standard deviation of each channel from 0 to 1, of images."""

    def measured(self) -> Tensor:
        """Observations (n, k) by which others are whitened."""

    def picture(self, representation: Tensor) -> bytes | None:
        """A PNG of what lies near in the representation (n, k) of the first test samples, if that can be seen."""


def check_size(size: object, sizes: range, name: str) -> None:
    """Refuse what is no side of a source's images."""
    if type(size) is not int or size not in sizes:
        raise Impossible(f"{name}: size {size!r}; give a whole number of pixels from {sizes[0]} to {sizes[-1]}")
