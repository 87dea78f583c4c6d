"""What a source is: observations, and the factors that they show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from ident.benchmark.latents.spaces import Space
from ident.benchmark.sources.sheets import neighbours, sheet
from ident.render.errors import Impossible
from ident.render.worlds.factors import Factor


class Source(ABC):
    """Observations and factors, the same for the same seed: all that a training may ask of them."""

    seed: int
    dim: int
    """How many factors there are."""
    space: Space
    """Where they live."""
    factors: tuple[Factor, ...]
    """What each of them is."""
    shape: tuple[int, ...] | None = None
    """Channels, height and width of observations that are images."""
    splits: tuple[str, ...] = ("test",)
    """The samples that scores are taken of, by name; `test` is among them."""
    ahead: int = 0
    """How many batches threads draw before they are asked for; 0 where drawing takes no time."""
    encoded: bool = True
    """Whether an encoder has something to find: observations are not the factors themselves."""

    @property
    def pictures(self) -> Any:
        """What has classified observations, and images that views are made of, if there are such: most have them."""
        return self

    @abstractmethod
    def labelled(self, number: int, size: int, share: slice) -> tuple[Tensor, Tensor]:
        """A share of batch `number` of `size` observations, and their factors (n, dim)."""

    @abstractmethod
    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Factors (n, dim) of a split, or of all that it has, and what they look like: some at a time."""

    @property
    def moments(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Mean and standard deviation of each channel from 0 to 1, of images."""
        return None

    def measured(self) -> Tensor:
        """Observations (n, k) by which others are whitened."""
        raise Impossible("whiten: is for mixed latents; leave it out of the tier")

    def shown(self, numbers: Tensor, n: int) -> Tensor | None:  # noqa: ARG002
        """Images (m, C, H, W) of test samples by their numbers (m,) among the first n, if they can be seen."""
        return None

    def picture(self, representation: Tensor, rows: int = 6, columns: int = 6) -> bytes | None:
        """A PNG: in each row one of the first test samples, then those whose representations (n, k) are nearest."""
        nearest = neighbours(representation, rows, columns)
        images = self.shown(nearest.flatten(), len(representation))
        return None if images is None else sheet(images.unflatten(0, nearest.shape))


def check_size(size: object, sizes: range, name: str) -> None:
    """Refuse what is no side of a source's images."""
    if type(size) is not int or size not in sizes:
        raise Impossible(f"{name}: size {size!r}; give a whole number of pixels from {sizes[0]} to {sizes[-1]}")
