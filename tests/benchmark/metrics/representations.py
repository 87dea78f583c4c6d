"""Representations of discrete factors, of which it is known what they are."""

from __future__ import annotations

from itertools import product
from zlib import crc32

import numpy as np

from ident.render.aliases import Float64s
from tests.benchmark.metrics.plain import Encoder

SIZES = (3, 4, 5)
TURNED = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
HALF = np.array([[1, 1, 0], [-1, 1, 0], [0, 0, np.sqrt(2)]]) / np.sqrt(2)


def grid(times: int = 10) -> Float64s:
    """Factors (n, 3): all combinations, each as often."""
    return np.array(list(product(*map(range, SIZES))) * times, np.float64)


def scaled(factors: Float64s) -> Float64s:
    """Factors between -1 and 1."""
    return np.asarray(2 * factors / np.subtract(SIZES, 1) - 1, np.float64)


def noise(factors: Float64s, width: int) -> Float64s:
    """Normal noise (n, width), the same for the same rows of factors and another one for others."""
    return np.random.default_rng(crc32(factors.tobytes())).normal(size=(len(factors), width))


ENCODERS: dict[str, Encoder] = {
    "perfect": scaled,
    "scaled": lambda x: scaled(x) * [0.2, 5, 1],
    "negated": lambda x: -scaled(x),
    "shifted": lambda x: scaled(x) + 7,
    "permuted": lambda x: scaled(x)[:, [2, 0, 1]],
    "cubed": lambda x: scaled(x) ** 3,
    "turned by half": lambda x: scaled(x) @ HALF,
    "turned": lambda x: scaled(x) @ TURNED,
    "duplicated": lambda x: scaled(x)[:, [0, 0, 1, 1, 2, 2]],
    "one duplicated": lambda x: scaled(x)[:, [0, 1, 2, 2]],
    "constant": lambda x: np.full((len(x), 3), 0.1),
    "one lost": lambda x: scaled(x) * [1, 1, 0],
    "two of three": lambda x: scaled(x)[:, :2],
    "one of three": lambda x: scaled(x)[:, 2:],
    "more, constant": lambda x: np.hstack([scaled(x), np.zeros((len(x), 3))]),
    "more, noise": lambda x: np.hstack([scaled(x), noise(x, 3)]),
    "some noise": lambda x: scaled(x) + 0.2 * noise(x, 3),
    "much noise": lambda x: scaled(x) + noise(x, 3),
    "noise": lambda x: noise(x, 4),
    "sum": lambda x: scaled(x).sum(1, keepdims=True),
    "pairwise sums": lambda x: scaled(x) @ (1 - np.eye(3)),
    "signs": lambda x: np.sign(scaled(x) - 0.1),
}
