"""Explicitness, the E of DCI-ES: how simple a probe does as well as the best (Eastwood et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ident.benchmark.metrics.arrays import standardised, train_test
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.targets import targets
from ident.render.aliases import Float64s, Int64s
from ident.render.worlds.factors import Kind

CAPACITIES = (0, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Random Fourier features beside the outputs; the first probe is linear. On the curve they are equally far."""
RIDGE = 1e-3
LEAST = 0.05
"""The share of the variance of a factor below which the best probe tells nothing of it, nor does explicitness."""


def explicitness(
    factors: Float64s, representation: Float64s, *, kinds: Sequence[Kind], rng: np.random.Generator
) -> Float64s:
    """Of each factor (d,): 1 where a linear probe is the best, 0 where the loss falls evenly with the capacity."""
    train, test = train_test(len(factors), rng)
    every = targets(factors, kinds, recurring=False)
    columns = np.hstack([target.columns for target in every])
    features = with_fourier(representation, train, rng)
    mean, mean_true = features[train].mean(0), columns[train].mean(0)
    x, y = features[train] - mean, columns[train] - mean_true
    gram, moments = x.T @ x, x.T @ y
    losses = np.ones((len(CAPACITIES), len(every)))
    for row, capacity in enumerate(CAPACITIES):
        size = representation.shape[1] + capacity
        ridge = RIDGE * len(train) * np.eye(size)
        predicted = (features[test, :size] - mean[:size]) @ np.linalg.solve(gram[:size, :size] + ridge, moments[:size])
        error = (columns[test] - mean_true - predicted) ** 2
        start = 0
        for number, target in enumerate(every):
            part = slice(start, start := start + target.columns.shape[1])
            variance = (columns[test, part] - mean_true[part]) ** 2
            losses[row, number] = error[:, part].sum() / variance.sum() if target.rows(test).varies else 1.0
    return np.array([of_curve(np.minimum(curve, 1.0)) for curve in losses.T])


def of_curve(losses: Float64s) -> float:
    """1 - the area between a loss-capacity curve and its least loss, up to where it has that, over the triangle's.

    The triangle is that of a loss which falls evenly from 1, of knowing nothing, over all capacities.
    """
    best = int(losses.argmin())
    if losses[best] > 1 - LEAST:
        return 0.0
    above = losses[: best + 1] - losses[best]
    area = float(above[1:].sum() + above[:-1].sum()) / 2
    return 1 - area / float((1 - losses[best]) * (len(losses) - 1) / 2)


def with_fourier(representation: Float64s, train: Int64s, rng: np.random.Generator) -> Float64s:
    """Standardised outputs (n, k), and random Fourier features of these beside them."""
    from scipy.spatial.distance import cdist  # here: it takes a tenth of a second

    outputs = standardised(representation, train)
    some = outputs[train[:500]]
    away = np.median(cdist(some, some, "sqeuclidean"))
    directions = rng.normal(size=(outputs.shape[1], CAPACITIES[-1])) / np.sqrt(away if away > 0 else 1)
    return np.hstack([outputs, np.cos(outputs @ directions + rng.uniform(0, 2 * np.pi, CAPACITIES[-1]))])


EXPLICITNESS = Metric(
    "dci-explicitness",
    explicitness,
    needs=("kinds", "rng"),
    range=(-1.0, 1.0),
    per_factor=True,
    groups=5,
    permutations=2,
)
