"""How alike two representations are: the logarithm of a model's conditional but for its norm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ident.benchmark.latents import notation
from ident.render.errors import Impossible


class Similarity(ABC):
    """How alike two representations are."""

    @abstractmethod
    def rows(self, a: Tensor, b: Tensor) -> Tensor:
        """Similarities (...) of points (..., d) and (..., d)."""

    @abstractmethod
    def all(self, a: Tensor, b: Tensor) -> Tensor:
        """Similarities (m, n) of all points (m, d) with all points (n, d)."""

    @abstractmethod
    def back(self, a: Tensor, b: Tensor, s: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients (m, d) and (n, d) of the sum of scale (m, 1) * w (m, n) * s, where s is what `all` gives."""


@dataclass(frozen=True)
class Dot(Similarity):
    """The dot product (Zimmermann et al., 2021, eq. 1): a von Mises-Fisher conditional, on a sphere."""

    def rows(self, a: Tensor, b: Tensor) -> Tensor:
        """Row by row."""
        return (a * b).sum(-1)

    def all(self, a: Tensor, b: Tensor) -> Tensor:
        """All with all, by one matrix product."""
        return a @ b.T

    def back(self, a: Tensor, b: Tensor, s: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """The gradients, by a matrix product each."""
        return scale * (w @ b), w.T @ (scale * a)


@dataclass(frozen=True)
class Distance(Similarity):
    """Minus the L^p distance, or its p-th power (Zimmermann et al., 2021, eq. 6): a conditional as exp(-|x|^p)."""

    p: float
    power: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.p < math.inf:
            raise Impossible(f"distance: p is {self.p:g}; give a number from 1 on")

    def rows(self, a: Tensor, b: Tensor) -> Tensor:
        """Row by row."""
        return self._rooted(-(a - b).abs().pow(self.p).sum(-1))

    def _rooted(self, s: Tensor) -> Tensor:
        """The similarity of minus the sum of powers. The root of zero has no slope: it gets one of zero."""
        if self.power or self.p == 1:
            return s
        there = s < 0
        return torch.where(there, -torch.where(there, -s, 1.0).pow(1 / self.p), 0.0)

    def all(self, a: Tensor, b: Tensor) -> Tensor:
        """One matrix product for p = 2, of -|a - b|^2; else latent by latent."""
        if self.p == 2:
            a, b = around_middle(a, b)
            left = torch.cat([2 * a, -(a**2).sum(-1, keepdim=True), -torch.ones_like(a[:, :1])], -1)
            s = left @ torch.cat([b, torch.ones_like(b[:, :1]), (b**2).sum(-1, keepdim=True)], -1).T
        else:
            s = a.new_zeros(len(a), len(b))
            difference, powered = torch.empty_like(s), torch.empty_like(s)
            for x, y in zip(a.T, b.T.contiguous(), strict=True):
                torch.sub(x[:, None], y, out=difference)
                s -= absolute_power(difference, self.p, powered)
        return self._rooted(s)

    def back(self, a: Tensor, b: Tensor, s: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients: matrix products for p = 2, else latent by latent by the derivative of the power."""
        rooted = not self.power and self.p != 1
        if self.p == 2:
            w = torch.where(s < 0, w / torch.where(s < 0, -2 * s, 1.0), 0.0) if rooted else w
            a, b = around_middle(a, b)
            sums = w @ torch.cat([b, torch.ones_like(b[:, :1])], -1)
            scaled = w.T @ torch.cat([scale * a, scale], -1)
            return 2 * scale * (sums[:, :-1] - sums[:, -1:] * a), 2 * (scaled[:, :-1] - scaled[:, -1:] * b)
        grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
        difference, powered = torch.empty_like(w), torch.empty_like(w)
        ones, factor = torch.ones_like(b[:, 0]), 1.0 if rooted else self.p
        for k, (x, y) in enumerate(zip(a.T, b.T.contiguous(), strict=True)):
            torch.sub(x[:, None], y, out=difference)
            if rooted:  # |x|^(p-1) over the distance's: never above 1
                difference = torch.where(s < 0, difference / torch.where(s < 0, -s, 1.0), 0.0)
            slope = signed_power(difference, self.p - 1, powered).mul_(w)
            grad_a[:, k] = -factor * scale[:, 0] * torch.mv(slope, ones)
            grad_b[:, k] = factor * torch.mv(slope.T, scale[:, 0])
        return grad_a, grad_b


def around_middle(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both around the mean of the second: differences stay, and products lose little of them to rounding."""
    middle = b.mean(0)
    return a - middle, b - middle


def absolute_power(x: Tensor, p: float, out: Tensor) -> Tensor:
    """|x|^p, in `out`; x may be overwritten."""
    torch.abs(x, out=out)
    if p == 3:
        return out.mul_(x.mul_(x))
    return out if p == 1 else out.pow_(p)


def signed_power(x: Tensor, p: float, out: Tensor) -> Tensor:
    """|x|^p with the sign of x, in `out`; x may be overwritten."""
    if p == 0:
        return torch.sign(x, out=out)
    torch.abs(x, out=out)
    return out.mul_(x) if p == 2 else out.pow_(p).mul_(x.sign_())


def vmf() -> Similarity:
    """`vmf`: the dot product, for representations on a sphere."""
    return Dot()


def normal() -> Similarity:
    """`normal`: the squared Euclidean distance."""
    return Distance(2.0)


def laplace() -> Similarity:
    """`laplace`: the sum of absolute differences."""
    return Distance(1.0)


def gennorm(p: float) -> Similarity:
    """`gennorm(3)`: the sum of their p-th powers."""
    return Distance(p)


SIMILARITIES: dict[str, Callable[..., Similarity]] = {
    "vmf": vmf,
    "normal": normal,
    "laplace": laplace,
    "gennorm": gennorm,
}


def named(similarity: Similarity | str) -> Similarity:
    """A similarity, or that of a model's conditional as the tables write it."""
    if isinstance(similarity, Similarity):
        return similarity
    if isinstance(similarity, str):
        return parse(similarity)
    raise Impossible(
        f"similarity {similarity!r}: give one of ident.benchmark.losses.similarities, or a text like gennorm(3)"
    )


def parse(text: str) -> Similarity:
    """The similarity of a model as the tables write its conditional: `vmf`, `normal`, `laplace`, `gennorm(3)`."""
    terms = notation.parse(text, SIMILARITIES, "model", {})
    if len(terms) > 1:
        raise Impossible(f"model {text!r}: give one")
    return terms[0]
