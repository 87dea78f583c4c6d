"""A batch: observations, and what of them is compared with what, or the factors that they show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from ident.benchmark.pairs.augmentations import Augmentations
from ident.benchmark.pairs.bank import Bank

T = TypeVar("T")


@dataclass(frozen=True)
class PositivePairs:
    """Anchors and a positive for each, as rows of the representations of all observations."""

    anchor: slice
    positive: slice
    conditional: int = 0
    """Which of the row's conditionals the positives follow."""
    hard: slice | None = None
    """As many hard negatives for each anchor, one anchor's behind another's."""
    only_hard: bool = False
    """Whether these are all its negatives: else the other anchors are, too."""
    both: bool = False
    """Whether each positive is an anchor in its turn, too, and told from all others as anchors are."""
    weight: float = 1.0


@dataclass(frozen=True)
class PairsAmong:
    """Points of which some are each other's positives, as rows of the representations of all observations."""

    points: slice
    pairs: Tensor
    """(m, 2), counted within the points."""
    weight: float = 1.0


Comparison = PositivePairs | PairsAmong


@dataclass(frozen=True)
class Batch:
    """Observations (n, ...), of which this process has its share; comparisons count the rows of all processes."""

    observations: Tensor
    comparisons: tuple[Comparison, ...] = ()
    factors: Tensor | None = None
    number: int = 0
    """Of which batch it is, for what is drawn on the way: a training sets it."""
    images: Tensor | None = None
    """The numbers of the images that the first observations of all processes show, if a bank keeps them."""

    def to(self, device: torch.device) -> Batch:
        """The batch with its tensors on a device."""
        return moved(self, device)


def moved(value: T, device: torch.device) -> T:
    """A value whose tensors, in tuples and dataclasses too, are on a device."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(moved(one, device) for one in value)  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in fields(value)]
        return replace(value, **{name: moved(getattr(value, name), device) for name in names})
    return value


class Pairs(ABC):
    """What a method is trained on: all that a training may ask of it."""

    bank: Bank | None = None
    """What remembers representations, and chooses the anchors of some batches by them."""
    augmentations: Augmentations | None = None
    """What makes views of images."""

    @abstractmethod
    def batch(self, number: int, size: int) -> Batch:
        """Batch `number` of `size` anchors: the same whenever it is drawn."""

    def ready(self) -> None:  # noqa: B027 (most have nothing to do)
        """Make what takes a while, before threads draw batches."""

    def prepare(self, batch: Batch) -> Batch:
        """The batch on its device with all that was not done to it before."""
        return batch
