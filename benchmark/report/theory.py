"""What theory says of rows, for plots: precisions that a loss should learn, and how far a marginal is from uniform."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ident.benchmark.latents import notation

MOST_POINTS, MOST_NUMBERS = 100_000, 2**22
"""That a mass is measured by."""


def optimum(conditionals: Sequence[str], hard: str = "") -> list[float]:
    """The Lambda that a loss should learn: that of positives less that of hard negatives (corollary B.1)."""
    less = precisions(hard) if hard else ()
    return [
        precision - (less[number] if less else 0.0)
        for conditional in conditionals
        for number, precision in enumerate(precisions(conditional))
    ]


def precisions(conditional: str) -> tuple[float, ...]:
    """Those of a conditional that is anisotropic; of another none."""
    if not conditional.startswith("anisotropic"):
        return ()
    (numbers,) = notation.parse(conditional, {"anisotropic": numbers_of}, "conditional", {})
    return numbers


def numbers_of(*numbers: float) -> tuple[float, ...]:
    """The numbers that a distribution is written with."""
    return numbers


def mass_moved(latent_space: str, marginal: str, dim: int) -> float:
    """The share of its mass that would have to be moved to make a marginal uniform: 1/2 int |p - uniform|.

    Of von Mises-Fisher marginals on a sphere of radius 1, and of noise around the middle of a box; else 0.
    """
    space, name = latent_space.partition("(")[0], marginal.partition("(")[0]
    if (space, name) not in {("sphere", "vmf"), *(("box", noise) for noise in NOISES)}:
        return 0.0
    rng, count = np.random.default_rng(0), min(MOST_POINTS, MOST_NUMBERS // dim)
    if space == "sphere":
        (kappa,) = notation.parse(marginal, {"vmf": lambda kappa: kappa}, "marginal", {})
        points = rng.normal(size=(count, dim))
        logarithm = kappa * points[:, 0] / np.linalg.norm(points, axis=1)
    else:
        ((_, side),) = notation.parse(latent_space, {"box": box}, "space", {"dim": dim})
        ((power, width),) = notation.parse(marginal, NOISES, "marginal", {})
        away = side * np.abs(rng.random((count, dim)) - 0.5)
        logarithm = -((away / width) ** power).sum(1)
    density = np.exp(logarithm - logarithm.max())
    return float(np.maximum(1 - density / density.mean(), 0).mean())


def box(dim: float, low: float = -1.0, high: float = 1.0) -> tuple[float, float]:
    """The dimensions of a box, and its side."""
    return dim, high - low


NOISES: dict[str, Callable[..., tuple[float, float]]] = {
    "normal": lambda scale: (2.0, math.sqrt(2) * scale),
    "laplace": lambda scale: (1.0, scale),
    "gennorm": lambda p, scale: (p, scale),
}
"""The power and the width of each, whose density is exp(-(|x| / width)^power)."""
