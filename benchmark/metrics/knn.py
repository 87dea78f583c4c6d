"""The accuracy of classes by the nearest neighbours in a representation, which nothing is trained for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.benchmark.metrics.classifier import classes_of, resample, split
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.registry import NEIGHBOURS
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Kind

LARGEST = 2**24
"""Distances that are held at a time."""


def told(factors: Float64s, representation: Float64s, *, k: int, kinds: Sequence[Kind]) -> Float64s:
    """For each tested row (m,) the share of its categories that most of its k nearest rows have, of the first rows."""
    categories = classes_of(factors, kinds, f"knn({k})")
    fitted, _ = split(len(factors))
    if fitted < k:
        raise Impossible(f"knn({k}): {fitted} rows vote; give more samples")
    nearest = neighbours(representation[:fitted], representation[fitted:], k)
    hits = list[npt.NDArray[np.bool_]]()
    for column in categories.T:
        labels = np.unique(column, return_inverse=True)[1].astype(np.int64)
        hits.append(elected(labels[nearest], int(labels.max()) + 1) == labels[fitted:])
    return np.asarray(np.mean(hits, 0), np.float64)


def neighbours(points: Float64s, others: Float64s, k: int) -> Int64s:
    """The k points (n, d) that are nearest to each of some others (m, d), as indices (m, k)."""
    squares, nearest = (points**2).sum(1), np.empty((len(others), k), np.int64)
    step = max(1, LARGEST // len(points))
    for start in range(0, len(others), step):
        part = slice(start, start + step)
        away = squares - 2 * others[part] @ points.T  # and the square of the other, which is the same for all points
        nearest[part] = np.argpartition(away, k - 1, axis=1)[:, :k]
    return nearest


def elected(votes: Int64s, classes: int) -> Int64s:
    """The class (m,) with the most of the votes (m, k), and of several such the first."""
    counts = np.zeros((len(votes), classes), np.int64)
    np.add.at(counts, (np.arange(len(votes))[:, None], votes), 1)
    winners: Int64s = counts.argmax(1)
    return winners


def knn(k: int) -> Metric:
    """The accuracy by k neighbours."""
    how: dict[str, Any] = {"needs": ("kinds",), "per_factor": False, "resample": resample, "permutations": 1}
    return Metric(f"knn({k})", np.mean, fit=partial(told, k=k), views="", **how)


KNN1, KNN5, KNN20, KNN200 = map(knn, NEIGHBOURS)
