"""Orthogonality of the fitted map: how far the affine map from factors to the representation is from turning them."""

from __future__ import annotations

import math

import numpy as np

from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s


def linear(factors: Float64s, representation: Float64s) -> Float64s:
    """The matrix (k, d) of the least-squares affine map from factors (n, d) to a representation (n, k)."""
    x, y = factors - factors.mean(0), representation - representation.mean(0)
    matrix: Float64s = np.linalg.lstsq(x, y, rcond=None)[0].T
    return matrix


def orthogonality(factors: Float64s, representation: Float64s, *, power: float) -> float:
    """The length of what A'A, scaled to a mean diagonal of 1, has otherwise than the identity, over that of this.

    0 of any rotation, reflection and permutation, but for one scale.
    """
    del power  # whose distances are kept by such maps alone, whatever it is
    matrix = linear(factors, representation)
    gram = matrix.T @ matrix
    scale = np.trace(gram) / len(gram)
    if not scale > 0:
        return 1.0
    return float(np.linalg.norm(gram / scale - np.eye(len(gram))) / math.sqrt(len(gram)))


ORTHOGONALITY = Metric(
    "orthogonality", orthogonality, needs=("power",), range=(0.0, math.inf), per_factor=False, groups=5, permutations=1
)
