"""Learned precisions against those of the conditional, both sorted: which output is which latent nobody can know."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s
from ident.render.errors import Impossible


def precisions(
    factors: Float64s, representation: Float64s, *, learned: npt.ArrayLike, precisions: npt.ArrayLike
) -> float:
    """The mean of |learned - true| / true, of the precisions (d,) of a loss, or (c, d) of several."""
    del factors, representation
    true, sorted_true = np.asarray(precisions, np.float64), np.sort(precisions, -1)
    values = np.asarray(learned, np.float64)
    if values.size != true.size or not (sorted_true > 0).all():
        raise Impossible(f"precisions {values.shape} of {true.shape}: give as many learned as true ones, above 0")
    return float((np.abs(np.sort(values.reshape(true.shape), -1) - sorted_true) / sorted_true).mean())


PRECISIONS = Metric(
    "precisions",
    precisions,
    needs=("learned", "precisions"),
    range=(0.0, math.inf),
    per_factor=False,
    groups=2,
    permutations=1,
)
