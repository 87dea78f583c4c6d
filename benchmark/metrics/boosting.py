"""Gradient-boosted trees for all factors at once: those of scikit-learn's GradientBoosting, many times as fast.

Of a factor of forty classes it grows forty trees a round, and sorts the rows of each node anew. Here rows are sorted
once, all nodes of a depth are split in one pass over each output, and Numba compiles the loops on their first use,
which takes some seconds and no compiler of the machine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from ident.benchmark.metrics.targets import Target
from ident.render.aliases import Float64s
from ident.render.threads import cores

ROUNDS, RATE, DEPTH = 100, 0.1, 3
"""scikit-learn's defaults."""
LEAST_GAIN = 1e-12
"""The share of the variance of what is predicted that a split explains at least: others are of rounding."""
RAREST = 1e-100
"""The share of a class that no row is in."""


@dataclass(frozen=True)
class Boosted:
    """How much each output helps with each target (k, t), summing to 1; and what is predicted (m, c) of each target."""

    importances: Float64s
    predictions: list[Float64s]


def boosted(outputs: Float64s, targets: Sequence[Target], tested: Float64s, *, rng: np.random.Generator) -> Boosted:
    """Trees of outputs (n, k), fitted to the targets of these rows; they predict those of outputs (m, k)."""
    (n, k), links = outputs.shape, [link_of(target) for target in targets]
    ends = np.cumsum([0, *(link.true.shape[1] for link in links)])
    parts = [slice(start, end) for start, end in pairwise(ends)]
    true, start = np.hstack([link.true for link in links]), np.concatenate([link.start for link in links])
    raw, raw_tested = np.repeat(start[:, None], n, 1), np.repeat(start[:, None], len(tested), 1)
    gains = np.zeros((len(start), k))
    columns, columns_tested = np.ascontiguousarray(outputs.T), np.ascontiguousarray(tested.T)
    order = np.argsort(columns, 1, kind="stable")
    least, grow = LEAST_GAIN * n * true.var(0), kernel()
    with ThreadPoolExecutor(cores()) as pool:
        for _ in range(ROUNDS):
            means = [link.mean(raw[part].T) for link, part in zip(links, parts, strict=True)]
            residuals = np.ascontiguousarray((true - np.hstack(means)).T)
            curvatures = np.ascontiguousarray(
                np.hstack([link.curvature(mean) for link, mean in zip(links, means, strict=True)]).T
            )
            first = rng.permutation(k)  # of outputs that split as well the first in this order is taken

            def tree(column: int, first: Any = first, residuals: Any = residuals, curvatures: Any = curvatures) -> None:
                grow(
                    columns, order, columns_tested, first, residuals[column], curvatures[column], least[column],
                    raw[column], raw_tested[column], gains[column],
                )  # fmt: skip

            list(pool.map(tree, range(len(start))))
    of_targets = np.stack([gains[part].sum(0) for part in parts], 1)
    total = of_targets.sum(0)
    predictions = [link.predict(raw_tested[part].T) for link, part in zip(links, parts, strict=True)]
    return Boosted(of_targets / np.where(total > 0, total, 1), predictions)


@dataclass(frozen=True)
class Link:
    """How a target follows from raw predictions: those of numbers are raw."""

    true: Float64s
    """(n, c)"""

    @property
    def start(self) -> Float64s:
        """What is predicted before the first round."""
        return np.asarray(self.true.mean(0))

    def mean(self, raw: Float64s) -> Float64s:
        """What raw predictions (n, c) say of each row."""
        return raw

    def curvature(self, mean: Float64s) -> Float64s:
        """The second derivative of the loss: a leaf's step is the sum of its residuals over that of these."""
        return np.ones_like(mean)

    def predict(self, raw: Float64s) -> Float64s:
        """What is predicted of the target (m, c)."""
        return raw


class Binary(Link):
    """Two classes: the log-odds of the second, in one column."""

    @property
    def start(self) -> Float64s:
        share = np.clip(self.true.mean(0), 1e-15, 1 - 1e-15)
        return np.asarray(np.log(share / (1 - share)))

    def mean(self, raw: Float64s) -> Float64s:
        return np.asarray(1 / (1 + np.exp(-raw)))

    def curvature(self, mean: Float64s) -> Float64s:
        return mean * (1 - mean)

    def predict(self, raw: Float64s) -> Float64s:
        return np.hstack([-raw, raw])


class Classes(Link):
    """More than two classes: the logarithms of their probabilities, which are normalised."""

    @property
    def start(self) -> Float64s:
        return np.asarray(np.log(np.maximum(self.true.mean(0), RAREST)))

    def mean(self, raw: Float64s) -> Float64s:
        weights = np.exp(raw - raw.max(1, keepdims=True))
        return np.asarray(weights / weights.sum(1, keepdims=True))

    def curvature(self, mean: Float64s) -> Float64s:
        count = mean.shape[1]
        return mean * (1 - mean) * count / (count - 1)


def link_of(target: Target) -> Link:
    """The link of a target that varies."""
    if target.labels is None:
        return Link(target.columns)
    return Binary(target.columns[:, 1:]) if target.columns.shape[1] == 2 else Classes(target.columns)


@cache
def kernel() -> Callable[..., None]:
    """The compiled growth of one tree."""
    import numba  # here: it takes a second

    def grow(
        columns: Any, order: Any, tested: Any, first: Any, residuals: Any, curvatures: Any, least: Any,
        raw: Any, raw_tested: Any, gains: Any,
    ) -> None:  # fmt: skip
        """Grow a tree of outputs (k, n) on the residuals (n,), and add what its leaves say to raw predictions.

        Each node is split where that lessens the squares of its residuals most: by an output, above a value.
        """
        (k, n), leaves = columns.shape, 2**DEPTH
        node, node_tested = np.zeros(n, np.uint8), np.zeros(raw_tested.shape[0], np.uint8)
        for depth in range(DEPTH):
            nodes = 2**depth
            total, count = np.zeros(nodes), np.zeros(nodes)
            for row in range(n):
                total[node[row]] += residuals[row]
                count[node[row]] += 1
            best, output, above = np.zeros(nodes), np.full(nodes, -1), np.zeros(nodes)
            for place in range(k):
                column = columns[first[place]]
                left, left_count, last = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
                for rank in range(n):
                    row = order[first[place], rank]
                    here, value = node[row], column[row]
                    on_left, all_here = left_count[here], count[here]
                    if on_left > 0 and last[here] < value:
                        # The gain of the split, but for a factor that all splits of the node share.
                        difference = left[here] * all_here - total[here] * on_left
                        gain = difference * difference / (on_left * (all_here - on_left))
                        if gain > best[here]:
                            best[here], output[here] = gain, first[place]
                            above[here] = last[here] / 2 + value / 2
                            if above[here] >= value:  # which rounding may do
                                above[here] = last[here]
                    left[here] += residuals[row]
                    left_count[here] = on_left + 1
                    last[here] = value
            for here in range(nodes):
                gain = best[here] / max(count[here], 1)
                if gain > least:
                    gains[output[here]] += gain
                else:
                    output[here] = -1
            split(columns, node, output, above)
            split(tested, node_tested, output, above)
        numerator, denominator = np.zeros(leaves), np.zeros(leaves)
        for row in range(n):
            numerator[node[row]] += residuals[row]
            denominator[node[row]] += curvatures[row]
        for leaf in range(leaves):
            numerator[leaf] = RATE * numerator[leaf] / denominator[leaf] if denominator[leaf] > 1e-150 else 0.0
        for row in range(n):
            raw[row] += numerator[node[row]]
        for row in range(raw_tested.shape[0]):
            raw_tested[row] += numerator[node_tested[row]]

    def split(columns: Any, node: Any, output: Any, above: Any) -> None:
        """Send rows to the nodes below theirs: 2 * node, or the next of those whose output is above a value."""
        for row in range(node.shape[0]):
            here = node[row]
            node[row] = 2 * here + (output[here] >= 0 and columns[output[here], row] > above[here])

    compiled = numba.njit(nogil=True, error_model="numpy")
    split = compiled(split)
    return compiled(grow)
