"""Interventions on factors by the rows that share a value: pairs and batches in which one factor is held.

Where the rows are draws of independent factors this is what drawing anew gives: the others vary as they do in all rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ident.benchmark.metrics.arrays import classes, varies
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Kind


class Interventions:
    """Which rows share the value of each of the discrete factors (n, d) that vary."""

    def __init__(self, factors: Float64s, kinds: Sequence[Kind]) -> None:
        self.held = np.flatnonzero(varies(factors))
        """The factors that can be held: those that vary (h,)."""
        if len(self.held) < 2:
            raise Impossible(f"interventions: {len(self.held)} factors vary; to tell which is held takes two or more")
        self.groups: list[tuple[Int64s, Int64s, Int64s, Int64s]] = []
        for number in self.held:
            labels = classes(factors[:, number], kinds[number])
            if labels is None or np.bincount(labels).max() < 2:
                raise Impossible(
                    f"interventions: factor {number} has {len(np.unique(factors[:, number]))} values in {len(factors)} "
                    "rows; to share them, values must recur: give discrete factors, or more rows"
                )
            order, sizes = np.argsort(labels, kind="stable"), np.bincount(labels)
            first = (np.cumsum(sizes) - sizes)[labels]
            place = np.empty(len(labels), np.int64)
            place[order] = np.arange(len(labels))
            self.groups.append((order, first, sizes[labels], place - first))

    def batches(self, held: Int64s, size: int, rng: np.random.Generator) -> Int64s:
        """Rows (m, size) of which each batch shares the value of one factor, by its number (m,) in `held`."""
        rows = np.empty((len(held), size), np.int64)
        for number, (order, first, sizes, _) in enumerate(self.groups):
            which = np.flatnonzero(held == number)
            anchor = rng.integers(len(order), size=(len(which), 1))
            rows[which] = order[first[anchor] + (sizes[anchor] * rng.random((len(which), size))).astype(np.int64)]
        return rows

    def pairs(self, held: Int64s, size: int, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
        """Two rows (m, size) each: all pairs of a batch share the value of one factor, by its number (m,) in `held`.

        No row is paired with itself: a draw anew is another one.
        """
        left, right = (np.empty((len(held), size), np.int64) for _ in range(2))
        for number, (order, first, sizes, place) in enumerate(self.groups):
            which = np.flatnonzero(held == number)
            shared = np.flatnonzero(sizes > 1)
            anchor = shared[rng.integers(len(shared), size=(len(which), size))]
            away = 1 + ((sizes[anchor] - 1) * rng.random(anchor.shape)).astype(np.int64)
            left[which] = anchor
            right[which] = order[first[anchor] + (place[anchor] + away) % sizes[anchor]]
        return left, right
