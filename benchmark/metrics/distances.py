"""Distances kept: how much the ratios of recovered distances to true ones differ from pair to pair.

What propositions 1 and 4 of Zimmermann et al. (2021) say is kept but for one scale: dot products on a sphere, and so
Euclidean distances; elsewhere the distances of the conditional's power.
"""

from __future__ import annotations

import math

import numpy as np

from ident.benchmark.metrics.arrays import paired
from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s, Int64s


def distances(factors: Float64s, representation: Float64s, *, power: float) -> float:
    """The standard deviation over the mean of the ratios of all pairs; 0 where one scale has all."""
    x, y = paired(factors, representation)
    first, second = np.triu_indices(len(x), 1)
    true, recovered = (lengths(points, first, second, power) for points in (x, y))
    ratios = recovered[true > 0] / true[true > 0]
    if not len(ratios) or not ratios.mean() > 0:
        return 1.0
    return float(ratios.std() / ratios.mean())


def lengths(points: Float64s, first: Int64s, second: Int64s, power: float) -> Float64s:
    """The L^p distances (m,) of pairs of points (n, d), by the numbers (m,) of both."""
    sums = np.zeros(len(first))
    for column in points.T:
        sums += np.abs(column[first] - column[second]) ** power
    return sums ** (1 / power)


DISTANCES = Metric(
    "distances", distances, needs=("power",), range=(0.0, math.inf), per_factor=False, groups=5, permutations=1
)
