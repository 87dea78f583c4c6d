"""MCC: how well each factor correlates with the one output that stands for it, by Pearson's or by Spearman's ranks."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from ident.benchmark.metrics.arrays import checked, varies
from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible


def mcc(factors: npt.ArrayLike, representation: npt.ArrayLike, *, ranks: bool = False) -> Float64s:
    """The correlation of each factor (d,) with the output that stands for it, in the best permutation."""
    each = correlations(factors, representation, ranks=ranks)
    if each.shape[1] < each.shape[0]:
        raise Impossible(f"MCC: {each.shape[1]} recovered latents for {each.shape[0]}: there must be as many, or more")
    return np.take_along_axis(each, permutation(each)[:, None], 1)[:, 0]


def spearman(factors: npt.ArrayLike, representation: npt.ArrayLike) -> Float64s:
    """The MCC (d,) by Spearman's correlations, those of ranks."""
    return mcc(factors, representation, ranks=True)


def correlations(factors: npt.ArrayLike, representation: npt.ArrayLike, *, ranks: bool = False) -> Float64s:
    """Absolute correlations (d, k) of factors (n, d) and a representation (n, k): Pearson's, or Spearman's by ranks."""
    x, y = checked(factors, representation)
    if ranks:
        x, y = ranked(x), ranked(y)
    absolute: Float64s = np.abs(standard(x).T @ standard(y)) / len(x)
    return absolute


def ranked(x: Float64s) -> Float64s:
    """The rank of each value in its column; equal ones share theirs."""
    from scipy.stats import rankdata  # here: it takes half a second

    ranks: Float64s = rankdata(x, axis=0)
    return ranks


def standard(x: Float64s) -> Float64s:
    """With mean 0 and variance 1; 0 for what does not vary."""
    scaled: Float64s = (x - x.mean(0)) / np.where(varies(x), x.std(0), np.inf)
    return scaled


def permutation(correlations: Float64s) -> Int64s:
    """Which output stands for each factor, so that the correlations (d, k) are the highest in all; k >= d."""
    from scipy.optimize import linear_sum_assignment  # here: it takes half a second

    _, best = linear_sum_assignment(correlations, maximize=True)
    return best.astype(np.int64)


def resample(
    factors: Float64s, representation: Float64s, resamples: int, rng: np.random.Generator, *, ranks: bool = False
) -> Float64s:
    """MCC (resamples,) of samples drawn with replacement, with the permutation as it is."""
    if ranks:
        factors, representation = ranked(factors), ranked(representation)
    x, y = standard(factors), standard(representation)
    y = y[:, permutation(np.abs(x.T @ y))]
    counts = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), resamples) / len(y)
    covariance = counts @ (x * y) - (counts @ x) * (counts @ y)
    deviation = np.sqrt((counts @ x**2 - (counts @ x) ** 2) * (counts @ y**2 - (counts @ y) ** 2))
    each = np.abs(covariance) / np.where(deviation > 0, deviation, np.inf)
    return np.asarray(each.mean(1))


MCC = Metric("mcc", mcc, per_factor=True, resample=resample, everywhere=True, on_the_way=True)
SPEARMAN = Metric("spearman", spearman, per_factor=True, resample=partial(resample, ranks=True), everywhere=True)
