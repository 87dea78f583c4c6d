"""Factors as what a probe predicts: classes, or columns of numbers, by what each factor is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ident.benchmark.metrics.arrays import MOST_CLASSES, classes, varies
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Circle, Kind


@dataclass(frozen=True)
class Target:
    """What is predicted of a factor."""

    columns: Float64s
    """Of a class (n, c), 1 where a row is in it; else the values (n, 1), or the sine and cosine (n, 2) of an angle."""
    labels: Int64s | None
    """The class (n,) of each row; None of numbers."""

    def rows(self, rows: Int64s) -> Target:
        """The target of some rows."""
        return Target(self.columns[rows], None if self.labels is None else self.labels[rows])

    @property
    def varies(self) -> bool:
        """Whether there is anything to predict."""
        return bool(varies(self.columns).any())

    def score(self, predicted: Float64s) -> float:
        """The accuracy of predictions (n, c) of classes, or how much of the variance of numbers they explain.

        Nothing is explained of what does not vary.
        """
        if not self.varies:
            return 0.0
        if self.labels is not None:
            return float(np.mean(predicted.argmax(1) == self.labels))
        error = ((self.columns - predicted) ** 2).sum()
        return float(1 - error / ((self.columns - self.columns.mean(0)) ** 2).sum())


def targets(factors: Float64s, kinds: Sequence[Kind], *, recurring: bool = True) -> list[Target]:
    """What is predicted of factors (n, d): classes of categories and, if wanted, of others whose values recur."""
    return [
        target(column, kind, recurring=recurring, number=number)
        for number, (column, kind) in enumerate(zip(factors.T, kinds, strict=True))
    ]


def target(factor: Float64s, kind: Kind, *, recurring: bool, number: int) -> Target:
    """What is predicted of a factor (n,)."""
    labels = classes(factor, kind) if recurring or isinstance(kind, Category) else None
    if labels is not None:
        count = int(labels.max()) + 1
        if count > MOST_CLASSES:
            raise Impossible(f"factor {number}: {count} categories; at most {MOST_CLASSES} can be predicted")
        return Target(np.eye(count)[labels], labels)
    if isinstance(kind, Circle):
        return Target(on_circle(factor, kind), None)
    return Target(factor[:, None], None)


def on_circle(factor: Float64s, kind: Circle) -> Float64s:
    """The sine and the cosine (n, 2) of an angle (n,), which go once around between its bounds."""
    angle = 2 * np.pi * (factor - kind.low) / (kind.high - kind.low)
    return np.stack([np.sin(angle), np.cos(angle)], 1)
