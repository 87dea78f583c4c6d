"""Exact draws of the densities that `distributions` are made of: by inverting, or by rejection."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ident.render.errors import Impossible

ROUNDS = 2_000  # of drawing again what was not accepted; noise and vmf need some ten


def rand(like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform in [0, 1)."""
    return torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def randn(like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal."""
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


def gamma_draws(shape: float, like: Tensor, generator: torch.Generator) -> Tensor:
    """Draws of a gamma distribution. What torch.distributions has above this call takes no generator."""
    return torch._standard_gamma(torch.full_like(like, shape), generator=generator)


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
        gamma = gamma_draws(1 + 1 / p, limit, generator) ** (1 / p)
        gamma = gamma * rand(limit, generator)  # the same as the root of a gamma draw of 1 / p, which may round to 0
        even = limit / width * rand(limit, generator)
        far = limit < width
        x = torch.where(far, even, gamma)
        accepted = torch.where(far, rand(limit, generator) < torch.exp(-(even**p)), gamma * width <= limit)
        return x * width, accepted

    return accepted_of(propose, limit.reshape(-1)).reshape(limit.shape)


def accepted_of(propose: Callable[[Tensor], tuple[Tensor, Tensor]], parameters: Tensor) -> Tensor:
    """The first draw that is accepted, for each row of parameters."""
    draws, accepted = propose(parameters)
    for _ in range(ROUNDS):
        left = (~accepted).nonzero()[:, 0]
        if not len(left):
            return draws
        draws[left], accepted[left] = propose(parameters[left])
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
        one, two = (gamma_draws(half, like, generator) for _ in range(2))
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
    parameters = torch.cat([toward, strength, touch, bend, least, b], -1)
    dim = len(precisions)

    def propose(parameters: Tensor) -> tuple[Tensor, Tensor]:
        toward, (strength, touch, bend, least, b) = parameters[:, :dim], torch.split(parameters[:, dim:], 1, -1)
        spread = precisions - least
        # Inverse covariance D - s s^T, so covariance D^-1 + D^-1 s s^T D^-1 / (1 - s^T D^-1 s).
        diagonal = 1 + 2 * spread / b
        side = (2 * bend / b).sqrt() * toward / diagonal
        rest = 1 - (side**2 * diagonal).sum(-1, keepdim=True)
        noise, along = randn(parameters[:, :dim], generator), randn(parameters[:, :1], generator)
        x = torch.nn.functional.normalize(noise / diagonal.sqrt() + side * along / rest.sqrt(), dim=-1)
        cosine = (x * toward).sum(-1, keepdim=True)
        height = (spread * x**2).sum(-1, keepdim=True) - bend * cosine**2
        under_bingham = log_cosh(strength * cosine) - log_cosh(strength * touch) - bend * (cosine**2 - touch**2)
        peak = (dim - b) / 2 - dim / 2 * torch.log(dim / b)
        under_directions = dim / 2 * torch.log1p(2 * height / b) - height + peak
        accepted = rand(height, generator).log() <= under_bingham + under_directions
        forward = rand(height, generator) < torch.sigmoid(2 * strength * cosine)
        return torch.where(forward, x, -x), accepted[:, 0]

    return accepted_of(propose, parameters)


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
