"""How latents are drawn: around a point of a space, exactly, in batches, on any device.

A conditional lies around its anchor, and a marginal that is not uniform around the origin of its space. Written as in
the papers' tables; the parameters are the tables', too:

    normal(sigma)          density of each coordinate as exp(-x^2 / (2 sigma^2))
    laplace(lambda)                                     exp(-|x| / lambda)
    gennorm(p, lambda)                                  exp(-(|x| / lambda)^p)
    vmf(kappa)             on the sphere of radius 1    exp(kappa <z', z>)
    anisotropic(l1, ...)   on the sphere                exp(-(z' - z)^T diag(l1, ...) (z' - z))
    anisotropic(l1, ..., convention=code)               the same of half of it, so that l1, ... are one over variances

On a box the first three are cut off at its sides (and have all their mass inside), on a sphere the result of adding
the noise is projected to it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from ident.benchmark.latents import notation
from ident.benchmark.latents.sampling import fisher_bingham, magnitudes, mass, rand, randn, shortfalls, signs
from ident.benchmark.latents.spaces import Box, Product, Space, Sphere
from ident.render import plugins
from ident.render.errors import Impossible

SCALE = 0.05
"""The scale of a conditional that gives none, as in the paper's tables."""


class Distribution(ABC):
    """How points around others are drawn. One of a user's is a dataclass of numbers, which `parse` reads."""

    def __str__(self) -> str:
        return notation.write(f"{type(self).__module__}:{type(self).__qualname__}", astuple(self))  # type: ignore[call-overload]

    def draw(self, space: Space, around: Tensor, *, generator: torch.Generator) -> Tensor:
        """A point (n, dim) around each of the points (n, dim), which lie in the space."""
        if around.ndim != 2 or around.shape[1] != space.dim:
            raise Impossible(f"points of the shape {tuple(around.shape)} in a space of {space.dim} dimensions")
        if not space.contains(around).all():
            raise Impossible(f"{self}: a point to draw around lies outside of {space}")
        if isinstance(space, Product):
            return torch.cat([self.draw(factor, part, generator=generator) for factor, part in space.split(around)], -1)
        return self.draw_plain(space, around, generator)

    @abstractmethod
    def draw_plain(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        """The same in a space that is no product."""

    def closeness(self, space: Space, points: Tensor) -> Tensor:  # noqa: ARG002
        """The density (n, n) around each of the points at each, as a share of the highest there could be."""
        raise Impossible(f"{self} in {space}: pairs among points are for noise in a box, and for vmf on a sphere")


def sample(
    distribution: Distribution, space: Space, n: int, *, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Points (n, dim) of a marginal."""
    around = space.origin.to(device=generator.device, dtype=dtype).expand(n, -1)
    return distribution.draw(space, around, generator=generator)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Everywhere alike, whatever it is drawn around."""

    def __str__(self) -> str:
        return "uniform"

    def draw_plain(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        return space.uniform(len(around), generator=generator, dtype=around.dtype)


@dataclass(frozen=True)
class Noise(Distribution):
    """Independent noise on each coordinate, with a density as exp(-(|x| / width)^p)."""

    p: float
    width: float
    written: str

    def __str__(self) -> str:
        return self.written

    def draw_plain(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        if isinstance(space, Box):
            return self._inside(space, around, generator)
        limit = torch.full_like(around, math.inf)
        return space.project(around + signs(around, generator) * magnitudes(self.p, self.width, limit, generator))

    def closeness(self, space: Space, points: Tensor) -> Tensor:
        """But for the norm, as points near the sides have more of the noise cut off."""
        if not isinstance(space, Box):
            return super().closeness(space, points)
        return torch.exp(-((torch.cdist(points, points, p=self.p) / self.width) ** self.p))

    def _inside(self, box: Box, around: Tensor, generator: torch.Generator) -> Tensor:
        """Cut off at the sides: first the side is drawn by its mass, then how far."""
        around = box.project(around)  # rounding may have brought it to just beyond a side
        below, above = around - box.low, box.high - around
        lower, upper = mass(self.p, self.width, below), mass(self.p, self.width, above)
        up = rand(around, generator) * (lower + upper) >= lower
        far = magnitudes(self.p, self.width, torch.where(up, above, below), generator)
        return box.project(torch.where(up, around + far, around - far))  # which mends the last digit, at most


@dataclass(frozen=True)
class VMF(Distribution):
    """vmf(kappa)."""

    kappa: float

    def __post_init__(self) -> None:
        if not 0 <= self.kappa < math.inf:
            raise Impossible(f"vmf: kappa is {self.kappa:g}; give a number from 0 on")

    def __str__(self) -> str:
        return notation.write("vmf", [self.kappa])

    def closeness(self, space: Space, points: Tensor) -> Tensor:
        """Its norm is the same everywhere."""
        mean = points / on_sphere(self, space).radius
        return torch.exp(self.kappa * (mean @ mean.T - 1))

    def draw_plain(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        sphere = on_sphere(self, space)
        mean = around / sphere.radius
        short = shortfalls(self.kappa, sphere.dim, mean, generator)
        side = randn(mean, generator)
        side = torch.nn.functional.normalize(side - (side * mean).sum(-1, keepdim=True) * mean, dim=-1)
        return sphere.project((1 - short) * mean + (short * (2 - short)).sqrt() * side)


@dataclass(frozen=True)
class Anisotropic(Distribution):
    """anisotropic(l1, ..., ld), the conditional of AnInfoNCE."""

    precisions: tuple[float, ...]
    convention: str = "paper"
    """What Lambda is: one of `notation.CONVENTIONS`."""

    def __post_init__(self) -> None:
        notation.factor(self.convention)
        for i, precision in enumerate(self.precisions):
            if not 0 <= precision < math.inf:
                raise Impossible(f"{self}: number {i + 1} is {precision:g}; give numbers from 0 on")

    def __str__(self) -> str:
        named = {"convention": self.convention} if self.convention != "paper" else {}
        return notation.write("anisotropic", self.precisions, **named)

    def draw_plain(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        sphere = on_sphere(self, space)
        if len(self.precisions) != sphere.dim:
            raise Impossible(f"{self}: gives {len(self.precisions)} numbers, and the space has {sphere.dim} dimensions")
        scale = notation.factor(self.convention) * sphere.radius**2
        precisions = torch.tensor(self.precisions, device=around.device, dtype=torch.float64) * scale
        mean = around.double() / sphere.radius
        return (sphere.radius * fisher_bingham(precisions, mean, generator)).to(around.dtype)


def pairs_among(distribution: Distribution, space: Space, points: Tensor, *, generator: torch.Generator) -> Tensor:
    """Positive pairs (m, 2) among points (n, d) of the uniform marginal: all that rejection sampling accepts.

    A pair of uniform points, accepted by its density, is a draw of the pair distribution, so that n points give far
    more than n / 2 pairs where the conditional is wide. All but these two points remain draws of the marginal.
    In a box anchors near the sides have fewer positives, by what is cut off there; each is a draw of its conditional.
    """
    closeness = distribution.closeness(space, points).fill_diagonal_(0)
    return (rand(closeness, generator) < closeness).nonzero()


def normal(scale: float) -> Distribution:
    """`normal(0.05)`: the scale is sigma."""
    return Noise(2.0, math.sqrt(2) * checked_scale("normal", scale), notation.write("normal", [scale]))


def laplace(scale: float) -> Distribution:
    """`laplace(0.05)`: the scale is lambda."""
    return Noise(1.0, checked_scale("laplace", scale), notation.write("laplace", [scale]))


def gennorm(p: float, scale: float) -> Distribution:
    """`gennorm(3, 0.05)`: the power, and the scale, which is lambda."""
    if not 1 <= p <= 1000:
        raise Impossible(f"gennorm: p is {p:g}; give a number from 1 to 1000")
    return Noise(p, checked_scale("gennorm", scale), notation.write("gennorm", [p, scale]))


def vmf(kappa: float) -> Distribution:
    """`vmf(10)`."""
    return VMF(kappa)


def anisotropic(*precisions: float, convention: str = "paper") -> Distribution:
    """`anisotropic(5 x2, 25)` is `anisotropic(5, 5, 25)`; `convention=code` is exp(-D' Lambda D / 2)."""
    return Anisotropic(precisions, convention)


DISTRIBUTIONS: dict[str, Callable[..., Distribution]] = {
    "uniform": Uniform,
    "normal": normal,
    "laplace": laplace,
    "gennorm": gennorm,
    "vmf": vmf,
    "anisotropic": anisotropic,
}


def parse(text: str, scale: float | None = None, *, own: bool = False) -> Distribution:
    """A distribution as it is written; what has a scale and does not give it takes the one given here.

    With `own` it may be one of the user's, module:name(...), of a class of distributions or a function that gives one.
    That is for texts that the user has typed, not for what came with data.
    """
    factors = notation.parse(text, DISTRIBUTIONS, "distribution", {} if scale is None else {"scale": scale}, own=own)
    if len(factors) > 1:
        raise Impossible(f"distribution {text!r}: give one; a product of spaces takes it on each factor")
    if plugins.is_one(text):
        check_own(factors[0], text)
    return factors[0]


def typed(text: str) -> Distribution:
    """A conditional as a user has typed it."""
    return parse(text, SCALE, own=True)


def scale_taken(text: str) -> str:
    """What to say of a conditional that was typed without its scale; nothing, if it has one."""
    conditional, wider = typed(text), parse(text, 2 * SCALE, own=True)
    return f"{text}: no scale is given, taken is {conditional}; {wider} would be twice as wide" * (conditional != wider)


def check_own(made: object, text: str) -> None:
    """Refuse what a user's code gave if it is no distribution, or none that can be written and read again."""
    if not isinstance(made, Distribution):
        raise Impossible(f"distribution {text!r}: gives a {type(made).__name__}, which is none")
    try:
        again = notation.parse(str(made), DISTRIBUTIONS, "distribution", {}, own=True)
    except (TypeError, ValueError, Impossible) as error:
        raise Impossible(
            f"distribution {text!r}: cannot be written ({error}); make it a dataclass of numbers"
        ) from error
    if again != [made]:
        raise Impossible(f"distribution {text!r}: is not {str(made)!r} when read again; make it a dataclass of numbers")


def describe(conditional: Distribution) -> dict[str, str]:
    """What a conditional is, for recipes: as it is written, and of a user's own its code."""
    written = str(conditional)
    name = written.partition("(")[0]
    return {"conditional": written, **({"code": plugins.digest(name)} if plugins.is_one(name) else {})}


def checked_scale(name: str, scale: float) -> float:
    """A scale, if it is one."""
    if not 1e-30 <= scale <= 1e30:  # which float32 holds
        raise Impossible(f"{name}: the scale is {scale:g}; give a number above 0, from 1e-30 to 1e30")
    return scale


def on_sphere(distribution: Distribution, space: Space) -> Sphere:
    """The space, if it is a sphere."""
    if not isinstance(space, Sphere):
        raise Impossible(f"{distribution}: lives on a sphere, not on {space}; on a box take normal, laplace or gennorm")
    return space
