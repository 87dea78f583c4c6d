"""How latents are drawn: around a point of a space, exactly, in batches, on any device.

A conditional lies around its anchor, and a marginal that is not uniform around the origin of its space. Written as in
the papers' tables; the parameters are the tables', too:

    normal(sigma)          density of each coordinate as exp(-x^2 / (2 sigma^2))
    laplace(lambda)                                     exp(-|x| / lambda)
    gennorm(p, lambda)                                  exp(-(|x| / lambda)^p)
    vmf(kappa)             on the sphere of radius 1    exp(kappa <z', z>)
    anisotropic(l1, ...)   on the sphere                exp(-(z' - z)^T diag(l1, ...) (z' - z))

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

from ident.benchmark import notation, plugins
from ident.benchmark.spaces import Box, Product, Space, Sphere
from ident.render.errors import Impossible

ROUNDS = 2_000  # of drawing again what was not accepted; noise and vmf need some ten


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
        return self._draw(space, around, generator)

    @abstractmethod
    def _draw(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
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

    def _draw(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        return space.uniform(len(around), generator=generator, dtype=around.dtype)


@dataclass(frozen=True)
class Noise(Distribution):
    """Independent noise on each coordinate, with a density as exp(-(|x| / width)^p)."""

    p: float
    width: float
    written: str

    def __str__(self) -> str:
        return self.written

    def _draw(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
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

    def _draw(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        sphere = on_sphere(self, space)
        mean = around / sphere.radius
        short = shortfalls(self.kappa, sphere.dim, mean, generator)
        side = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        side = torch.nn.functional.normalize(side - (side * mean).sum(-1, keepdim=True) * mean, dim=-1)
        return sphere.project((1 - short) * mean + (short * (2 - short)).sqrt() * side)


@dataclass(frozen=True)
class Anisotropic(Distribution):
    """anisotropic(l1, ..., ld), the conditional of AnInfoNCE."""

    precisions: tuple[float, ...]

    def __post_init__(self) -> None:
        for i, precision in enumerate(self.precisions):
            if not 0 <= precision < math.inf:
                raise Impossible(f"{self}: number {i + 1} is {precision:g}; give numbers from 0 on")

    def __str__(self) -> str:
        return notation.write("anisotropic", self.precisions)

    def _draw(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        sphere = on_sphere(self, space)
        if len(self.precisions) != sphere.dim:
            raise Impossible(f"{self}: gives {len(self.precisions)} numbers, and the space has {sphere.dim} dimensions")
        precisions = torch.tensor(self.precisions, device=around.device, dtype=torch.float64) * sphere.radius**2
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
    return Noise(2.0, math.sqrt(2) * positive("normal", scale), notation.write("normal", [scale]))


def laplace(scale: float) -> Distribution:
    """`laplace(0.05)`: the scale is lambda."""
    return Noise(1.0, positive("laplace", scale), notation.write("laplace", [scale]))


def gennorm(p: float, scale: float) -> Distribution:
    """`gennorm(3, 0.05)`: the power, and the scale, which is lambda."""
    if not 1 <= p <= 1000:
        raise Impossible(f"gennorm: p is {p:g}; give a number from 1 to 1000")
    return Noise(p, positive("gennorm", scale), notation.write("gennorm", [p, scale]))


def vmf(kappa: float) -> Distribution:
    """`vmf(10)`."""
    return VMF(kappa)


def anisotropic(*precisions: float) -> Distribution:
    """`anisotropic(5, 5, 25)`."""
    return Anisotropic(precisions)


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
    found = notation.parse(text, DISTRIBUTIONS, "distribution", {} if scale is None else {"scale": scale}, own=own)
    if len(found) > 1:
        raise Impossible(f"distribution {text!r}: give one; a product of spaces takes it on each factor")
    if plugins.is_one(text):
        check_own(found[0], text)
    return found[0]


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


def positive(name: str, scale: float) -> float:
    """A scale, if it is one."""
    if not 1e-30 <= scale <= 1e30:  # which float32 holds
        raise Impossible(f"{name}: the scale is {scale:g}; give a number above 0, from 1e-30 to 1e30")
    return scale


def on_sphere(distribution: Distribution, space: Space) -> Sphere:
    """The space, if it is a sphere."""
    if not isinstance(space, Sphere):
        raise Impossible(f"{distribution}: lives on a sphere, not on {space}; on a box take normal, laplace or gennorm")
    return space


def rand(like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform in [0, 1)."""
    return torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Minus or plus one."""
    return torch.where(rand(like, generator) < 0.5, -1.0, 1.0).to(like.dtype)


def mass(p: float, width: float, limit: Tensor) -> Tensor:
    """The share of exp(-(x / width)^p) on [0, inf) that lies below a limit."""
    x = limit / width
    if p == 1:
        return -torch.expm1(-x)
    if p == 2:
        return torch.erf(x)
    below: Tensor = torch.special.gammainc(torch.full_like(x, 1 / p), x**p)
    # Where x^p is small, or nothing by rounding, the first terms of the series are as good.
    return torch.where(x**p < 1e-4, x * (1 - x**p / (p + 1)) / math.gamma(1 + 1 / p), below)


def magnitudes(p: float, width: float, limit: Tensor, generator: torch.Generator) -> Tensor:
    """Draws of the density as exp(-(x / width)^p) on [0, limit]."""
    if p == 1:
        return -width * torch.log1p(-rand(limit, generator) * mass(p, width, limit))
    if p == 2:
        return width * torch.erfinv(rand(limit, generator) * mass(p, width, limit))

    def propose(limit: Tensor) -> tuple[Tensor, Tensor]:
        # A gamma draw lies below a limit of `width` or more with a probability of 0.63 or more; below a smaller limit
        # the density falls to 0.37 of its height, at most.
        gamma = torch._standard_gamma(torch.full_like(limit, 1 + 1 / p), generator=generator) ** (1 / p)
        gamma = gamma * rand(limit, generator)  # the same as the root of a gamma draw of 1 / p, which may round to 0
        even = limit / width * rand(limit, generator)
        far = limit < width
        x = torch.where(far, even, gamma)
        accepted = torch.where(far, rand(limit, generator) < torch.exp(-(even**p)), gamma * width <= limit)
        return x * width, accepted

    return accepted_of(propose, limit.reshape(-1)).reshape(limit.shape)


def accepted_of(propose: Callable[[Tensor], tuple[Tensor, Tensor]], given: Tensor) -> Tensor:
    """The first proposal for each of the given that is accepted."""
    made, accepted = propose(given)
    for _ in range(ROUNDS):
        left = (~accepted).nonzero()[:, 0]
        if not len(left):
            return made
        again, accepted[left] = propose(given[left])
        made[left] = again
    raise Impossible(f"{len(left)} draws were not accepted {ROUNDS} times: the parameters differ by too many decades")


def shortfalls(kappa: float, dim: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """1 - <z', z> (n, 1) of a von Mises-Fisher distribution, by Wood's method (1994).

    A beta draw is bent to an envelope that accepts two thirds or more. What is small here is kept small in the
    formulas, so that nothing is lost to rounding where kappa is large.
    """
    half = (dim - 1) / 2
    b = half / (kappa + math.hypot(kappa, half))
    height = 2 * b / (1 + b)  # 1 - x0 of Wood's x0, where the envelope touches

    def propose(like: Tensor) -> tuple[Tensor, Tensor]:
        one, two = (torch._standard_gamma(torch.full_like(like, half), generator=generator) for _ in range(2))
        beta = one / (one + two)
        short = 2 * b * beta / (1 - (1 - b) * beta)
        # log density over envelope: kappa (x - x0) + 2 half log((1 - x0 x) / (1 - x0^2))
        ratio = ((1 - height) * short + height) / (height * (2 - height))
        return short, kappa * (height - short) + 2 * half * torch.log(ratio) >= torch.log(rand(like, generator))

    return accepted_of(propose, like.new_empty(len(like)).double()).to(like.dtype)[:, None]


def fisher_bingham(precisions: Tensor, mean: Tensor, generator: torch.Generator) -> Tensor:
    """Draws (n, d) on the unit sphere of the density as exp(-(x - mean)^T diag(precisions) (x - mean)), exactly.

    On the sphere this is exp(2 <l, x> - x^T L x) with l = L mean: a Fisher-Bingham distribution. The pair of x and -x
    has the weight cosh(2 <l, x>), of which the logarithm is concave in <l, x>^2: a tangent bounds it, so that the pair
    lies under a Bingham distribution, and that under the directions of a normal distribution (Kent, Ganeiber and
    Mardia, 2018). Its inverse covariance is diagonal but for one direction, so that no matrix is ever built. With equal
    precisions about 0.86 / sqrt(d) of the proposals are accepted where they are large, and more where they are small;
    with precisions that differ by a factor of 10,000, one in fifty.
    """
    pull = precisions * mean
    strength = 2 * pull.norm(dim=-1, keepdim=True)
    toward = torch.nn.functional.normalize(pull, dim=-1)
    touch = typical_cosine(precisions, pull, toward)
    bend = strength * torch.tanh(strength * touch) / (2 * touch)
    least = least_eigenvalue(precisions, toward, bend)
    b = envelope(precisions - least, toward, bend)
    given = torch.cat([toward, strength, touch, bend, least, b], -1)
    dim = len(precisions)

    def propose(given: Tensor) -> tuple[Tensor, Tensor]:
        toward, (strength, touch, bend, least, b) = given[:, :dim], torch.split(given[:, dim:], 1, -1)
        spread = precisions - least
        # Inverse covariance D - s s^T, so covariance D^-1 + D^-1 s s^T D^-1 / (1 - s^T D^-1 s).
        diagonal = 1 + 2 * spread / b
        side = (2 * bend / b).sqrt() * toward / diagonal
        rest = 1 - (side**2 * diagonal).sum(-1, keepdim=True)
        noise, along = randn(given[:, :dim], generator), randn(given[:, :1], generator)
        x = torch.nn.functional.normalize(noise / diagonal.sqrt() + side * along / rest.sqrt(), dim=-1)
        cosine = (x * toward).sum(-1, keepdim=True)
        height = (spread * x**2).sum(-1, keepdim=True) - bend * cosine**2
        under_bingham = log_cosh(strength * cosine) - log_cosh(strength * touch) - bend * (cosine**2 - touch**2)
        peak = (dim - b) / 2 - dim / 2 * torch.log(dim / b)
        under_directions = dim / 2 * torch.log1p(2 * height / b) - height + peak
        accepted = rand(height, generator).log() <= under_bingham + under_directions
        forward = rand(height, generator) < torch.sigmoid(2 * strength * cosine)
        return torch.where(forward, x, -x), accepted[:, 0]

    return accepted_of(propose, given)


def randn(like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal."""
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def log_cosh(x: Tensor) -> Tensor:
    """log(cosh(x))."""
    return x.abs() + torch.log1p(torch.exp(-2 * x.abs())) - math.log(2)


def typical_cosine(precisions: Tensor, pull: Tensor, toward: Tensor) -> Tensor:
    """About the root (n, 1) of the mean of <toward, x>^2; any number above 0 is right, a good one is fast.

    By a normal distribution in place of the sphere: with precisions raised by as much as makes its mean square 1.
    """
    low, high = -precisions.min() + 0 * pull[:, :1], len(precisions) + 2 * pull.norm(dim=-1, keepdim=True)
    for _ in range(20):
        middle = (low + high) / 2
        raised = precisions + middle
        is_below = ((pull / raised) ** 2 + 1 / (2 * raised)).sum(-1, keepdim=True) > 1
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    raised = precisions + high
    mean, variance = (toward * pull / raised).sum(-1, keepdim=True), (toward**2 / (2 * raised)).sum(-1, keepdim=True)
    cosine: Tensor = (mean**2 + variance).sqrt().clamp(1e-6, 1)
    return cosine


def least_eigenvalue(precisions: Tensor, toward: Tensor, bend: Tensor) -> Tensor:
    """A number (n, 1) just below the least eigenvalue of diag(precisions) - bend toward toward^T, by bisection."""
    low, high = precisions.min() - bend, precisions.min().expand_as(bend)
    for _ in range(45):
        middle = (low + high) / 2
        is_below = (bend * toward**2 / (precisions - middle)).sum(-1, keepdim=True) < 1
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    return low


def envelope(spread: Tensor, toward: Tensor, bend: Tensor) -> Tensor:
    """The b (n, 1) of the tightest envelope, where the trace of (b + 2 B)^-1 is 1, by bisection; any b is right."""
    low, high = torch.zeros_like(bend), torch.full_like(bend, spread.shape[-1])
    for _ in range(15):
        b = (low + high) / 2
        inverse = 1 / (b + 2 * spread)
        rest = 1 - 2 * bend * (toward**2 * inverse).sum(-1, keepdim=True)
        trace = inverse.sum(-1, keepdim=True) + 2 * bend * (toward**2 * inverse**2).sum(-1, keepdim=True) / rest
        is_below = (trace > 1) | (rest <= 0)
        low, high = torch.where(is_below, b, low), torch.where(is_below, high, b)
    return high
