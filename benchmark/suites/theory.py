"""What theory says of rows whose densities are known: what is kept, what is learned, what the best critic is.

For metrics that say how far a training is from it, and for plots. A row is matched where the model can be the data's
conditional; what is said of another row is what it would have to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ident.benchmark.latents import notation
from ident.benchmark.suites.rows import DIM, Row
from ident.render.aliases import Float64s

MOST_POINTS, MOST_NUMBERS = 100_000, 2**22
"""That a mass is measured by."""

LogDensity = Callable[[Float64s, Float64s], Float64s]
"""Of points (m, d) and others (n, d): the logarithm of the density (m, n) at the others around the points, but for a
number of each point."""

WITH_CRITIC = ("infonce", "decoupled", "align-uniform", "aninfonce", "tricl")
"""Objectives of one similarity that their optimum determines."""


def facts(row: Row) -> dict[str, Any]:
    """What metrics can be given of a row, by the names of their needs; of images nothing."""
    if row.dim is None or not row.conditionals or not all("(" in text for text in row.conditionals):
        return {}  # what gives no scale has that of its tier
    known: dict[str, Any] = {}
    if (kept := power(row)) is not None:
        known["power"] = kept
    if (same := blocks(row)) and len(same) > 1:
        known["blocks"] = same
    if precisions := optimum_of(row):
        known["precisions"] = np.reshape(precisions, (-1, row.dim))
    if (ratio := log_ratio(row)) is not None:
        known["log_ratio"] = ratio
    return known


def power(row: Row) -> float | None:
    """The p of the distances that are kept: 2 on a sphere, elsewhere that of the noise (theorems 2 and 5)."""
    space = row.latent_space.partition("(")[0]
    if "*" in row.latent_space:
        return None
    if space == "sphere":
        return 2.0
    shapes = [noise(text) for text in row.conditionals]
    return shapes[0][0] if shapes and shapes[0] and len(shapes) == 1 else None


def blocks(row: Row) -> list[list[int]]:
    """The latents that may be turned into each other: those of equal precisions; each by itself where p is not 2."""
    dim, each = row.dim or 0, [precisions(text) for text in row.conditionals]
    if all(each):
        alike = dict[tuple[float, ...], list[int]]()
        for number, values in enumerate(zip(*each, strict=True)):
            alike.setdefault(values, []).append(number)
        return list(alike.values())
    kept = power(row)
    return [[number] for number in range(dim)] if kept not in (None, 2.0) else [list(range(dim))]


def log_ratio(row: Row) -> Callable[[Float64s], Float64s] | None:
    """Of latents (n, d): log p(z'|z) - log p(z') of all pairs (n, n), but for a number of each anchor z.

    That is the best critic of InfoNCE (Rusak et al., 2024, theorem C.1), where both are known. Negatives that are all
    hard have their conditional in place of the marginal.
    """
    if len(row.conditionals) != 1 or has_mixed_negatives(row):
        return None
    space, dim = row.latent_space, row.dim or DIM
    near = log_density(space, row.conditionals[0], dim)
    if dict(row.objective.keywords).get("against") == "positive":
        # log p(z|z') - log p(z) = log p(z'|z) - log p(z') of any marginal, where the norm is the same everywhere.
        even = row.conditionals[0].startswith("vmf") if space.startswith("sphere") else space.startswith("unbounded")
        return (lambda x: near(x, x)) if near is not None and even else None
    far = log_density(space, row.hard or row.marginal, dim)
    if near is None or far is None:
        return None
    middle = origin(space, dim)

    def ratio(x: Float64s) -> Float64s:
        difference: Float64s = near(x, x) - far(x if row.hard else np.broadcast_to(middle, x.shape), x)
        return difference

    return ratio


def log_density(space: str, text: str, dim: int) -> LogDensity | None:
    """The log density of a conditional or, around the origin, a marginal in a space; None of one without a formula."""
    name, place = text.partition("(")[0], space.partition("(")[0]
    if "*" in space:
        return None
    if name == "uniform":
        return lambda a, b: np.zeros((len(a), len(b)))
    if place == "sphere" and name == "vmf":
        kappa = number_of(text) / radius(space, dim) ** 2
        return lambda a, b: kappa * (a @ b.T)
    if place == "sphere" and name == "anisotropic":
        scale = np.sqrt(precisions(text))
        return lambda a, b: -powers(scale * a, scale * b, 2.0)
    if place in ("box", "unbounded") and (shape := noise(text)):
        p, width = shape
        return lambda a, b: -powers(a / width, b / width, p)
    return None


def powers(a: Float64s, b: Float64s, p: float) -> Float64s:
    """The sums (m, n) of |a - b|^p over the latents of points (m, d) and (n, d)."""
    sums = np.zeros((len(a), len(b)))
    for x, y in zip(a.T, b.T, strict=True):
        sums += np.abs(x[:, None] - y) ** p
    return sums


def origin(space: str, dim: int) -> Float64s:
    """The point (dim,) around which marginals lie that are not uniform."""
    name = space.partition("(")[0]
    if name == "sphere":
        pole: Float64s = radius(space, dim) * np.eye(1, dim)[0]
        return pole
    if name == "box":
        ((_, low, high),) = notation.parse(space, notation.GEOMETRIES, "space", {"dim": dim})
        return np.full(dim, (low + high) / 2)
    return np.zeros(dim)


def optimum_of(row: Row) -> list[float]:
    """The Lambda that a row's loss should learn, in its convention; of a loss without one nothing."""
    if row.objective.name not in ("aninfonce", "ensemble") or has_mixed_negatives(row):
        return []
    conditionals = row.conditionals if row.objective.name == "ensemble" else row.conditionals[:1]
    if len(row.conditionals) != len(conditionals):
        return []  # one Lambda for conditionals that differ
    convention = str(dict(row.objective.keywords).get("convention", "paper"))
    each = optimum(conditionals, row.hard, convention)
    return each if all(value > 0 for value in each) else []


def has_mixed_negatives(row: Row) -> bool:
    """Whether an anchor has hard negatives and others."""
    return bool(row.hard) and not dict(row.pairs.keywords).get("only_hard")


def optimum(conditionals: Sequence[str], hard: str = "", convention: str = "paper") -> list[float]:
    """The Lambda that a loss should learn: that of positives less that of hard negatives (corollary B.1)."""
    less = precisions(hard) if hard else ()
    return [
        (precision - (less[number] if less else 0.0)) / notation.factor(convention)
        for conditional in conditionals
        for number, precision in enumerate(precisions(conditional))
    ]


def precisions(conditional: str) -> tuple[float, ...]:
    """Those of a conditional that is anisotropic, as equation 2 has them; of another none."""
    if not conditional.startswith("anisotropic"):
        return ()
    (numbers,) = notation.parse(conditional, {"anisotropic": anisotropic}, "conditional", {})
    return numbers


def anisotropic(*numbers: float, convention: str = "paper") -> tuple[float, ...]:
    """The precisions of a conditional of some convention as equation 2 has them."""
    return tuple(notation.factor(convention) * number for number in numbers)


def convention(row: Row) -> str:
    """Which Lambda a row's figure has: that of its conditionals and of what is learned, by name."""
    texts = [*row.conditionals, row.hard]
    of_data = ["code" if "convention=code" in "".join(text.split()) else "paper" for text in texts if precisions(text)]
    learned = str(dict(row.objective.keywords).get("convention", "paper"))
    named = [*of_data, *([learned] if row.objective.name in ("aninfonce", "ensemble") else [])]
    return " and ".join(dict.fromkeys(named)) if of_data else ""


def concentration(text: str) -> float | None:
    """The kappa of a von Mises-Fisher distribution, or one over the variance of a normal one."""
    name, bracket, _ = text.partition("(")
    if not bracket:
        return None
    return number_of(text) if name == "vmf" else 1 / number_of(text) ** 2 if name == "normal" else None


def mass_moved(latent_space: str, marginal: str, dim: int) -> float:
    """The share of its mass that would have to be moved to make a marginal uniform: 1/2 int |p - uniform|.

    Of von Mises-Fisher marginals on a sphere of radius 1, and of noise around the middle of a box; of all else, also of
    products of spaces, 0.
    """
    space, name = latent_space.partition("(")[0], marginal.partition("(")[0]
    if "*" in latent_space or (space, name) not in {("sphere", "vmf"), *(("box", noise) for noise in NOISES)}:
        return 0.0
    rng, count = np.random.default_rng(0), min(MOST_POINTS, MOST_NUMBERS // dim)
    if space == "sphere":
        points = rng.normal(size=(count, dim))
        logarithm = number_of(marginal) * points[:, 0] / np.linalg.norm(points, axis=1)
    else:
        ((_, low, high),) = notation.parse(latent_space, notation.GEOMETRIES, "space", {"dim": dim})
        ((power, width),) = notation.parse(marginal, NOISES, "marginal", {})
        away = (high - low) * np.abs(rng.random((count, dim)) - 0.5)
        logarithm = -((away / width) ** power).sum(1)
    density = np.exp(logarithm - logarithm.max())
    return float(np.maximum(1 - density / density.mean(), 0).mean())


def noise(text: str) -> tuple[float, float] | None:
    """The power and the width of noise; None of what is none."""
    if text.partition("(")[0] not in NOISES:
        return None
    (shape,) = notation.parse(text, NOISES, "noise", {})
    return shape


def number_of(text: str) -> float:
    """The one number of vmf(kappa) or normal(scale)."""
    one: dict[str, Callable[..., float]] = {"vmf": lambda kappa: kappa, "normal": lambda scale: scale}
    (number,) = notation.parse(text, one, "distribution", {})
    return number


def radius(space: str, dim: int) -> float:
    """The radius of a sphere."""
    ((_, length),) = notation.parse(space, notation.GEOMETRIES, "space", {"dim": dim})
    return float(length)


NOISES: Mapping[str, Callable[..., tuple[float, float]]] = {
    "normal": lambda scale: (2.0, math.sqrt(2) * scale),
    "laplace": lambda scale: (1.0, scale),
    "gennorm": lambda p, scale: (p, scale),
}
"""The power and the width of each, whose density is exp(-(|x| / width)^power)."""
