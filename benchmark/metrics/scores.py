"""Identifiability scores: R2 up to affine maps, MCC up to permutations; with their chance level and uncertainty.

Scores are fractions; the tables print percent. Both flatter small samples, so each comes with what it gives for latents
that have nothing to do with what was recovered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible

CONFIDENCE = 0.95
LEAST = 8
"""Samples."""


@dataclass(frozen=True)
class Score:
    """A score, that of each latent (d,), an interval by bootstrap, and the score by chance."""

    value: float
    per_latent: tuple[float, ...]
    low: float
    high: float
    chance: float


def r2(true: npt.ArrayLike, recovered: npt.ArrayLike) -> Float64s:
    """The coefficient of determination of each latent (d,), of latents (n, d) by an affine map of recovered (n, k).

    The map is fitted on the first half of the samples and tested on the rest.
    """
    true, recovered = checked(true, recovered)
    half = len(true) // 2
    error = true[half:] - affine(recovered[:half], true[:half], recovered[half:])
    return determination(error, true[half:])


def affine(x: Float64s, y: Float64s, other: Float64s) -> Float64s:
    """The least-squares affine map from x to y, applied to others."""
    middle, mean = x.mean(0), y.mean(0)
    weights = np.linalg.lstsq(x - middle, y - mean, rcond=None)[0]
    mapped: Float64s = (other - middle) @ weights + mean
    return mapped


def determination(error: Float64s, true: Float64s) -> Float64s:
    """1 - error over variance; 0 for what does not vary."""
    variance = ((true - true.mean(0)) ** 2).sum(0)
    found: Float64s = 1 - (error**2).sum(0) / np.where(varies(true), variance, np.inf)
    return np.where(varies(true), found, 0.0)


def varies(x: Float64s) -> npt.NDArray[np.bool_]:
    """Which columns differ in more than rounding."""
    different: npt.NDArray[np.bool_] = x.std(0) > 1e-12 * np.abs(x).max(0)
    return different


def correlations(true: npt.ArrayLike, recovered: npt.ArrayLike, *, ranks: bool = False) -> Float64s:
    """Absolute correlations (d, k) of latents (n, d) and recovered ones (n, k): Pearson's, or Spearman's by ranks."""
    true, recovered = checked(true, recovered)
    if ranks:
        true, recovered = rankdata(true, axis=0), rankdata(recovered, axis=0)
    found: Float64s = np.abs(standard(true).T @ standard(recovered)) / len(true)
    return found


def standard(x: Float64s) -> Float64s:
    """With mean 0 and variance 1; 0 for what does not vary."""
    found: Float64s = (x - x.mean(0)) / np.where(varies(x), x.std(0), np.inf)
    return found


def permutation(found: Float64s) -> Int64s:
    """Which recovered latent stands for each latent, so that the correlations (d, k) are the highest in all; k >= d."""
    _, best = linear_sum_assignment(found, maximize=True)
    return best.astype(np.int64)


def mcc(true: npt.ArrayLike, recovered: npt.ArrayLike, *, ranks: bool = False) -> Float64s:
    """The correlation of each latent (d,) with the recovered one that stands for it, in the best permutation."""
    found = correlations(true, recovered, ranks=ranks)
    if found.shape[1] < found.shape[0]:
        raise Impossible(
            f"MCC: {found.shape[1]} recovered latents for {found.shape[0]}: there must be as many, or more"
        )
    return np.take_along_axis(found, permutation(found)[:, None], 1)[:, 0]


def spearman(true: npt.ArrayLike, recovered: npt.ArrayLike) -> Float64s:
    """`mcc` by ranks."""
    return mcc(true, recovered, ranks=True)


METRICS: dict[str, Callable[[npt.ArrayLike, npt.ArrayLike], Float64s]] = {"r2": r2, "mcc": mcc, "spearman": spearman}


def score(
    metric: Callable[[npt.ArrayLike, npt.ArrayLike], Float64s],
    true: npt.ArrayLike,
    recovered: npt.ArrayLike,
    *,
    seed: int,
    resamples: int = 200,
) -> Score:
    """A score of recovered (n, k) against true latents (n, d).

    The interval has 95 % of the scores of samples drawn anew from the tested ones: for R2 with the map as it is, for
    MCC with the permutation as it is.
    """
    true, recovered = checked(true, recovered)
    if metric not in METRICS.values():
        raise Impossible(f"metric {metric!r}: choose from {', '.join(METRICS)} of ident.benchmark.metrics.scores")
    if resamples < 1:
        raise Impossible(f"resamples {resamples}: give a number from 1 on")
    rng = np.random.default_rng(seed)
    each = metric(true, recovered)
    again = resampled(metric, true, recovered, resamples, rng)
    low, high = np.quantile(again, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    chance = float(np.mean([metric(rng.permutation(true), recovered).mean() for _ in range(5)]))
    value = float(each.mean())
    return Score(value, tuple(map(float, each)), min(value, float(low)), max(value, float(high)), chance)


def resampled(
    metric: Callable[[npt.ArrayLike, npt.ArrayLike], Float64s],
    true: Float64s,
    recovered: Float64s,
    resamples: int,
    rng: np.random.Generator,
) -> Float64s:
    """The metric (resamples,) of samples drawn with replacement, by what is fixed once: the map, or the permutation."""
    if metric is r2:
        half = len(true) // 2
        y = true[half:] - true[half:].mean(0)
        error = true[half:] - affine(recovered[:half], true[:half], recovered[half:])
        counts = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), resamples) / len(y)
        variance = counts @ y**2 - (counts @ y) ** 2
        there = varies(true[half:]) & (variance > 0)
        each: Float64s = np.where(there, 1 - (counts @ error**2) / np.where(there, variance, 1), 0.0)
        scores: Float64s = each.mean(1)
        return scores
    ranks = metric is spearman
    if ranks:
        true, recovered = rankdata(true, axis=0), rankdata(recovered, axis=0)
    x, y = standard(true), standard(recovered)
    y = y[:, permutation(np.abs(x.T @ y))]
    counts = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), resamples) / len(y)
    covariance = counts @ (x * y) - (counts @ x) * (counts @ y)
    deviation = np.sqrt((counts @ x**2 - (counts @ x) ** 2) * (counts @ y**2 - (counts @ y) ** 2))
    each = np.abs(covariance) / np.where(deviation > 0, deviation, np.inf)
    return np.asarray(each.mean(1))


def checked(true: npt.ArrayLike, recovered: npt.ArrayLike) -> tuple[Float64s, Float64s]:
    """Both as float64 arrays of the same length."""
    x, y = doubles(true, "latents"), doubles(recovered, "recovered")
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not x.shape[1] or not y.shape[1]:
        raise Impossible(f"latents {x.shape} and recovered ones {y.shape}: give (n, d) and (n, k)")
    if len(x) < LEAST:
        raise Impossible(f"{len(x)} samples: a score needs {LEAST} or more")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise Impossible("latents or recovered ones are not finite")
    return x, y


def doubles(values: npt.ArrayLike, what: str) -> Float64s:
    """Values as a float64 array, of whatever kind they are that holds numbers."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # torch's, of tensors with gradients or on GPUs
        raise Impossible(f"{what}: cannot be read as an array of numbers ({error})") from error
