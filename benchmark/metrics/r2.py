"""R2: how much of each factor an affine map of the representation explains."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ident.benchmark.metrics.arrays import checked, varies
from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s


def r2(factors: npt.ArrayLike, representation: npt.ArrayLike) -> Float64s:
    """The coefficient of determination of each factor (d,), of factors (n, d) by an affine map of (n, k).

    The map is fitted on the first half of the samples and tested on the rest.
    """
    x, y = checked(factors, representation)
    half = len(x) // 2
    error = x[half:] - affine(y[:half], x[:half], y[half:])
    return determination(error, x[half:])


def affine(x: Float64s, y: Float64s, other: Float64s) -> Float64s:
    """The least-squares affine map from x to y, applied to others; of many the one of the smallest weights."""
    middle, mean = x.mean(0), y.mean(0)
    if x.shape[1] > len(x):  # by products of samples, of which there are fewer
        rows = x - middle
        wide: Float64s = (other - middle) @ rows.T @ np.linalg.lstsq(rows @ rows.T, y - mean, rcond=None)[0] + mean
        return wide
    weights = np.linalg.lstsq(x - middle, y - mean, rcond=None)[0]
    mapped: Float64s = (other - middle) @ weights + mean
    return mapped


def determination(error: Float64s, true: Float64s) -> Float64s:
    """1 - error over variance; 0 for what does not vary."""
    variance = ((true - true.mean(0)) ** 2).sum(0)
    explained: Float64s = 1 - (error**2).sum(0) / np.where(varies(true), variance, np.inf)
    return np.where(varies(true), explained, 0.0)


def resample(factors: Float64s, representation: Float64s, resamples: int, rng: np.random.Generator) -> Float64s:
    """R2 (resamples,) of samples drawn with replacement from the tested half, with the map as it is."""
    half = len(factors) // 2
    y = factors[half:] - factors[half:].mean(0)
    error = factors[half:] - affine(representation[:half], factors[:half], representation[half:])
    counts = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), resamples) / len(y)
    variance = counts @ y**2 - (counts @ y) ** 2
    defined = varies(factors[half:]) & (variance > 0)
    each: Float64s = np.where(defined, 1 - (counts @ error**2) / np.where(defined, variance, 1), 0.0)
    scores: Float64s = each.mean(1)
    return scores


R2 = Metric(
    "r2", r2, range=(-math.inf, 1.0), per_factor=True, resample=resample, floor=0.0, everywhere=True, on_the_way=True
)
