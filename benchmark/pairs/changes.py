"""Pairs of images by how their factors change: a few at random (UNI), all a little (LAP), or as in recordings."""

from __future__ import annotations

import math
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ident.benchmark.pairs.batch import Batch, Pairs, PositivePairs
from ident.benchmark.training import distributed
from ident.benchmark.training.seeds import Stream
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible


@runtime_checkable
class Discrete(Protocol):
    """A source whose factors have classes."""

    sizes: ClassVar[tuple[int, ...]]
    fixed: ClassVar[tuple[int, ...]]

    def rng(self, *number: int) -> np.random.Generator:
        """Random numbers of a stream."""

    def draw(self, n: int, rng: np.random.Generator) -> Int64s:
        """The classes (n, d) of n images."""

    def images(self, drawn: Int64s) -> Tensor:
        """Their images (n, C, H, W) uint8."""


@runtime_checkable
class Recorded(Protocol):
    """A source with sequences."""

    furthest: ClassVar[int]
    """The most frames from one of a pair to the other."""

    def rng(self, *number: int) -> np.random.Generator:
        """Random numbers of a stream."""

    def transition(self, n: int, most: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Images (n, C, H, W), and those of up to `most` frames later."""


def batch_of(images: Tensor, size: int) -> Batch:
    """A batch of anchors and positives (2 * size, C, H, W), of which this process has its share."""
    own = images[distributed.share(2 * size)]
    return Batch(own, (PositivePairs(slice(size), slice(size, 2 * size)),))


class Changes(Pairs):
    """Pairs of images whose classes differ as `changed` says."""

    def __init__(self, source: object) -> None:
        if not isinstance(source, Discrete):
            raise Impossible(f"{self.name}: is of factors that have classes; give a row whose source is dsprites")
        self.source = source

    name = ""

    def changed(self, classes: Int64s, rng: np.random.Generator) -> Int64s:
        """The classes (n, d) of the positives of anchors (n, d)."""
        raise NotImplementedError

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number` of `size` anchors and their positives."""
        rng = self.source.rng(Stream.BATCHES, number)
        anchors = self.source.draw(size, rng)
        classes = np.concatenate([anchors, self.changed(anchors, rng)])
        return batch_of(self.source.images(classes), size)


class UniformChange(Changes):
    """UNI: of d factors some, 1 to d - 1, are drawn anew, and none keeps its class."""

    name = "uniform-change"

    def changed(self, classes: Int64s, rng: np.random.Generator) -> Int64s:
        """Other classes, all as likely, of as many factors as a uniform draw says."""
        n, dim = classes.shape
        sizes = np.array(self.source.sizes)
        count = rng.integers(1, dim, size=n)
        order = rng.random((n, dim)).argsort(1).argsort(1)
        others = (classes + rng.integers(1, sizes, size=(n, dim))) % sizes
        return np.where(order < count[:, None], others, classes)


class LaplaceChange(Changes):
    """LAP: each factor moves by a Laplace of the difference of classes, whose scale is the log of their number.

    The shape, which has no order, stays; at least one factor changes.
    """

    name = "laplace-change"

    def __init__(self, source: object) -> None:
        super().__init__(source)
        self.cumulative = [laplace_table(size) for size in self.source.sizes]

    def changed(self, classes: Int64s, rng: np.random.Generator) -> Int64s:
        """Classes that are drawn again where none has changed."""
        positives = classes.copy()
        left = np.arange(len(classes))
        free = [column for column in range(classes.shape[1]) if column not in self.source.fixed]
        while len(left):
            for column in free:
                shares = self.cumulative[column][classes[left, column]]
                positives[left, column] = (rng.random(len(left))[:, None] >= shares).sum(1)
            left = left[(positives[left] == classes[left]).all(1)]
        return positives


def laplace_table(size: int) -> Float64s:
    """For each class, the cumulative probabilities (size, size - 1) of the classes that may follow."""
    away = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    density = np.exp(-away / math.log(size))
    shares: Float64s = (density / density.sum(1, keepdims=True)).cumsum(1)[:, :-1]
    return shares


class Temporal(Pairs):
    """Frames of a sequence, and frames that come 1 to `most` later, or the last one."""

    def __init__(self, source: object, most: int = 1) -> None:
        if not isinstance(source, Recorded):
            raise Impossible("temporal: is of sequences; give a row whose source has some, like kitti-masks")
        if type(most) is not int or not 1 <= most <= source.furthest:
            raise Impossible(f"temporal: {most!r} frames; give a whole number from 1 to {source.furthest}")
        self.source, self.most = source, most

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number` of `size` anchors and their positives."""
        pairs = self.source.transition(size, self.most, self.source.rng(Stream.BATCHES, number))
        return batch_of(torch.cat(pairs), size)


class Tracks(Temporal):
    """What one object looked like in two frames that follow each other."""

    def __init__(self, source: object) -> None:
        super().__init__(source, 1)
