"""Factors and representations as arrays: checked, and which of their columns vary."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Kind

LEAST = 8
"""Samples that a score is taken of."""

MOST, TRAIN = 15_000, 2 / 3
"""Rows at most that are fitted on and tested on, and the share that is fitted on."""

PAIRED = 500
"""Samples at most of which all pairs are taken."""

BINS = 20
"""Bins of equal width, in which the information metrics count what is continuous."""

RECURS, MOST_CLASSES = 4, 256
"""A factor is discrete if it is a category, or if its values are at most so many and recur so often on average."""


def checked(factors: npt.ArrayLike, representation: npt.ArrayLike) -> tuple[Float64s, Float64s]:
    """Factors (n, d) and a representation (n, k) as float64 arrays of the same length."""
    x, y = doubles(factors, "latents"), doubles(representation, "recovered")
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not x.shape[1] or not y.shape[1]:
        raise Impossible(f"latents {x.shape} and recovered ones {y.shape}: give (n, d) and (n, k)")
    if len(x) < LEAST:
        raise Impossible(f"{len(x)} samples: a score needs {LEAST} or more")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise Impossible("latents or recovered ones are not finite")
    return x, y


def paired(factors: Float64s, representation: Float64s) -> tuple[Float64s, Float64s]:
    """The first samples, as many as all pairs of which can be looked at."""
    return factors[:PAIRED], representation[:PAIRED]


def doubles(values: npt.ArrayLike, what: str) -> Float64s:
    """Values as a float64 array, of whatever kind they are that holds numbers."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # torch's, of tensors with gradients or on GPUs
        raise Impossible(f"{what}: cannot be read as an array of numbers ({error})") from error


def train_test(n: int, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Rows of n to fit on and others to test on, without replacement: 10,000 and 5,000 where there are as many."""
    rows = rng.permutation(n)[:MOST]
    train, test = np.split(rows, [round(TRAIN * len(rows))])
    return train, test


def standardised(values: Float64s, train: Int64s | slice) -> Float64s:
    """Values (n, k) whose rows to train on have a mean of zero and a deviation of one."""
    deviation = values[train].std(0)
    return np.asarray((values - values[train].mean(0)) / np.where(deviation > 0, deviation, 1), np.float64)


def varies(x: Float64s) -> npt.NDArray[np.bool_]:
    """Which columns differ in more than rounding."""
    different: npt.NDArray[np.bool_] = x.std(0) > 1e-12 * np.abs(x).max(0)
    return different


def classes(factor: Float64s, kind: Kind) -> Int64s | None:
    """The class (n,) of each row by a factor (n,), from 0 on; None of a factor that is continuous."""
    values, labels = np.unique(factor, return_inverse=True)
    few = len(values) <= MOST_CLASSES and len(values) * RECURS <= len(factor)
    return labels.astype(np.int64) if isinstance(kind, Category) or few else None


def binned(values: Float64s) -> Int64s:
    """The number of the bin (n,) of each value (n,), of BINS between the least and the largest."""
    if not varies(values[:, None])[0]:
        return np.zeros(len(values), np.int64)
    edges = np.histogram_bin_edges(values, BINS)
    return np.digitize(values, edges[1:-1]).astype(np.int64)
