"""The critic against the log density ratio: what the best one of InfoNCE is, but for a number of each anchor."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ident.benchmark.metrics.arrays import paired
from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s
from ident.render.errors import Impossible

Similarities = Callable[[Float64s], Float64s]
"""Gives a number (n, n) for each pair of points (n, d), anchors in rows."""


def critic(factors: Float64s, representation: Float64s, *, critic: Similarities, log_ratio: Similarities) -> float:
    """The root mean square of the difference, over that of the log density ratio; each anchor's mean is left out.

    0 of the best critic, 1 of one that says nothing.
    """
    x, y = paired(factors, representation)
    true, learned = log_ratio(x), critic(y)
    if true.shape != (len(x), len(x)) or learned.shape != true.shape:
        raise Impossible(f"critic {learned.shape} and log ratio {true.shape} of {len(x)} points: give all pairs")
    true, learned = (values - values.mean(1, keepdims=True) for values in (true, learned))
    size = float(np.sqrt((true**2).sum()))
    return float(np.sqrt(((learned - true) ** 2).sum())) / size if size > 0 else math.inf


CRITIC = Metric(
    "critic", critic, needs=("critic", "log_ratio"), range=(0.0, math.inf), per_factor=False, groups=5, permutations=1
)
