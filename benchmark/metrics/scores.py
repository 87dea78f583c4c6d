"""Scores with their uncertainty: an interval by bootstrap, and what the metric gives for permuted factors.

Metrics flatter small samples, so that a score without these two says little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ident.benchmark.metrics.arrays import LEAST, checked
from ident.benchmark.metrics.lookup import load
from ident.benchmark.metrics.metric import CLASSIFIED, Fits, Metric, Score
from ident.render.aliases import Float64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Interval

CONFIDENCE = 0.95


class Compute(Protocol):
    """A metric that is given all that it needs beside factors (n, d) and a representation (n, k)."""

    def __call__(self, x: Float64s, y: Float64s, fits: Fits | None = None) -> Float64s:
        """The score of each factor (d,), or one number (1,)."""


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
    ((_, outcome),) = score_each((metric,), factors, representation, seed=seed, resamples=resamples, **more)
    if isinstance(outcome, Impossible):
        raise outcome
    return outcome


def score_each(
    metrics: Iterable[str | Metric],
    factors: npt.ArrayLike,
    representation: npt.ArrayLike,
    *,
    seed: int,
    resamples: int = 200,
    **more: Any,
) -> Iterator[tuple[str, Score | Impossible]]:
    """The names of metrics with the `score` by each, or why there is none. What several share is fitted once."""
    if resamples < 1:
        raise Impossible(f"resamples {resamples}: give a number from 1 on")
    x, y = checked(factors, representation)
    fits = defaultdict[object, Fits](dict)
    for metric in metrics:
        loaded = load(metric) if isinstance(metric, str) else metric
        try:
            compute = completed(loaded, x.shape[1], seed, more)
            yield loaded.name, scored(loaded, x, y, compute, fits, seed, resamples)
        except Impossible as error:
            yield loaded.name, error


def scored(
    metric: Metric, x: Float64s, y: Float64s, compute: Compute, fits: Mapping[object, Fits], seed: int, resamples: int
) -> Score:
    """The score by one metric. What is fitted of the same rows is kept by a key that says which rows they are."""
    rng = np.random.default_rng(seed)
    each = compute(x, y, fits=fits["all"])
    value = float(each.mean())
    if metric.groups:
        low, high = jackknife(compute, metric, value, x, y, fits, rng)
    else:
        of = (x, y) if metric.fit is None or metric.resample is None else (fits["all"][metric.fit],)
        drawn = (metric.resample or partial(redrawn, compute))(*of, resamples, rng)
        low, high = map(float, np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    permuted = [
        compute(rng.permutation(x), y, fits=fits["permuted", metric.groups, number]).mean()
        for number in range(metric.permutations)
    ]
    per_latent = tuple(map(float, each)) if len(each) == x.shape[1] and metric.per_factor is not False else ()
    return Score(value, per_latent, min(value, low), max(value, high), float(np.mean(permuted)))


def jackknife(
    compute: Compute,
    metric: Metric,
    value: float,
    x: Float64s,
    y: Float64s,
    fits: Mapping[object, Fits],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The interval around a value by Student's t, with the deviation that leaving out groups of rows in turn gives."""
    from scipy.special import stdtrit  # here: it takes a tenth of a second

    groups = min(metric.groups, len(x))
    values = []
    for number, part in enumerate(np.array_split(rng.permutation(len(x)), groups)):
        rest = np.delete(np.arange(len(x)), part)
        if len(rest) < LEAST:
            raise Impossible(f"{len(x)} samples: a score by {metric.name} needs {2 * LEAST} or more")
        values.append(compute(x[rest], y[rest], fits=fits["without", groups, number]).mean())
    deviation = float(np.std(values) * np.sqrt(groups - 1) * stdtrit(groups - 1, (1 + CONFIDENCE) / 2))
    low, high = metric.range
    return max(low, value - deviation), min(high, value + deviation)


def value(
    metric: str | Metric, factors: npt.ArrayLike, representation: npt.ArrayLike, *, seed: int, **more: Any
) -> float:
    """The value of `score`, without an interval and chance, which take longer."""
    metric = load(metric) if isinstance(metric, str) else metric
    x, y = checked(factors, representation)
    return float(completed(metric, x.shape[1], seed, more)(x, y).mean())


def completed(metric: Metric, dim: int, seed: int, more: dict[str, Any]) -> Compute:
    """A metric of arrays alone, which is given all else that it needs."""
    if lacks := " and ".join(metric.lacks((*more, "interventions", CLASSIFIED))):
        raise Impossible(f"metric {metric.name}: needs {lacks}; give it by name")
    if "interventions" in more:
        raise Impossible("interventions: are made of the rows, which an interval has some of; leave them out")
    more = {"kinds": (Interval(),) * dim, **more}
    if len(more["kinds"]) != dim:
        raise Impossible(f"{len(more['kinds'])} kinds of {dim} factors: give one for each")
    return lambda x, y, fits=None: metric(x, y, rng=np.random.default_rng(seed), fits=fits, **more)


def redrawn(
    compute: Compute,
    x: Float64s,
    y: Float64s,
    resamples: int,
    rng: np.random.Generator,
) -> Float64s:
    """A metric (resamples,) that is computed anew for each sample that is drawn with replacement."""
    rows = (rng.integers(len(x), size=len(x)) for _ in range(resamples))
    return np.array([compute(x[some], y[some]).mean() for some in rows])
