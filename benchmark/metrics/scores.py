"""Scores with their uncertainty: an interval by bootstrap, and what the metric gives for permuted factors.

Metrics flatter small samples, so that a score without these two says little.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.benchmark.metrics.arrays import checked
from ident.benchmark.metrics.lookup import load
from ident.benchmark.metrics.metric import Metric, Score
from ident.render.aliases import Float64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Interval

CONFIDENCE = 0.95


def score(
    metric: str | Metric,
    factors: npt.ArrayLike,
    representation: npt.ArrayLike,
    *,
    seed: int,
    resamples: int = 200,
    **more: Any,
) -> Score:
    """The score of a representation (n, k) of factors (n, d), and more that the metric needs.

    `kinds` are those of the factors, intervals unless others are given. The interval has 95 % of the scores of samples
    drawn anew from these.
    """
    if resamples < 1:
        raise Impossible(f"resamples {resamples}: give a number from 1 on")
    metric = load(metric) if isinstance(metric, str) else metric
    x, y = checked(factors, representation)
    compute = completed(metric, x.shape[1], seed, more)
    rng = np.random.default_rng(seed)
    each = compute(x, y)
    drawn = (metric.resample or partial(redrawn, compute))(x, y, resamples, rng)
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    chance = float(np.mean([compute(rng.permutation(x), y).mean() for _ in range(metric.permutations)]))
    value = float(each.mean())
    per_latent = tuple(map(float, each)) if len(each) == x.shape[1] and metric.per_factor is not False else ()
    return Score(value, per_latent, min(value, float(low)), max(value, float(high)), chance)


def value(
    metric: str | Metric, factors: npt.ArrayLike, representation: npt.ArrayLike, *, seed: int, **more: Any
) -> float:
    """The value of `score`, without an interval and chance, which take longer."""
    metric = load(metric) if isinstance(metric, str) else metric
    x, y = checked(factors, representation)
    return float(completed(metric, x.shape[1], seed, more)(x, y).mean())


def completed(metric: Metric, dim: int, seed: int, more: dict[str, Any]) -> Callable[[Float64s, Float64s], Float64s]:
    """A metric of arrays alone, which is given all else that it needs."""
    if lacks := " and ".join(metric.lacks(more)):
        raise Impossible(f"metric {metric.name}: needs {lacks}; give it by name")
    more = {"kinds": (Interval(),) * dim, **more}
    if len(more["kinds"]) != dim:
        raise Impossible(f"{len(more['kinds'])} kinds of {dim} factors: give one for each")
    return lambda x, y: metric(x, y, rng=np.random.default_rng(seed), **more)


def redrawn(
    compute: Callable[[Float64s, Float64s], Float64s],
    x: Float64s,
    y: Float64s,
    resamples: int,
    rng: np.random.Generator,
) -> Float64s:
    """A metric (resamples,) that is computed anew for each sample that is drawn with replacement."""
    rows = (rng.integers(len(x), size=len(x)) for _ in range(resamples))
    return np.array([compute(x[some], y[some]).mean() for some in rows])
