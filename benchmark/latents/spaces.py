"""Where latents live: a sphere, a box, all of R^d, and products of these."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ident.benchmark.latents import notation
from ident.render.errors import Impossible


class Space(ABC):
    """A space of latents, given by `dim` coordinates."""

    dim: int

    @property
    @abstractmethod
    def origin(self) -> Tensor:
        """The point (dim,) around which marginals lie that are not uniform."""

    @abstractmethod
    def contains(self, z: Tensor) -> Tensor:
        """Which of the points (..., dim) lie in it, but for rounding."""

    @abstractmethod
    def project(self, z: Tensor) -> Tensor:
        """The nearest points of it to points (..., dim)."""

    @abstractmethod
    def uniform(self, n: int, *, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Points (n, dim) drawn uniformly."""


@dataclass(frozen=True)
class Unbounded(Space):
    """R^d."""

    dim: int

    def __str__(self) -> str:
        return notation.write("unbounded", [self.dim])

    @property
    def origin(self) -> Tensor:
        """Zero."""
        return torch.zeros(self.dim)

    def contains(self, z: Tensor) -> Tensor:
        """All that are finite."""
        return z.isfinite().all(-1)

    def project(self, z: Tensor) -> Tensor:
        """The points themselves."""
        return z

    def uniform(self, n: int, *, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:  # noqa: ARG002
        """There is no such distribution."""
        raise Impossible("uniform: there is no uniform distribution on an unbounded space; take normal or laplace")


@dataclass(frozen=True)
class Box(Space):
    """[low, high]^d."""

    dim: int
    low: float = -1.0
    high: float = 1.0

    def __str__(self) -> str:
        return notation.write("box", [self.dim, self.low, self.high])

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise Impossible(f"box from {self.low} to {self.high}: give a lower and then an upper bound")

    @property
    def origin(self) -> Tensor:
        """The middle."""
        return torch.full((self.dim,), (self.low + self.high) / 2)

    def contains(self, z: Tensor) -> Tensor:
        """Those between the bounds."""
        slack = 8 * torch.finfo(z.dtype).eps * max(abs(self.low), abs(self.high))
        return ((z >= self.low - slack) & (z <= self.high + slack)).all(-1)

    def project(self, z: Tensor) -> Tensor:
        """Clamped to the bounds."""
        return z.clamp(self.low, self.high)

    def uniform(self, n: int, *, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Each coordinate for itself."""
        u = torch.rand(n, self.dim, generator=generator, device=generator.device, dtype=dtype)
        return (self.low + (self.high - self.low) * u).clamp_max(self.high)


@dataclass(frozen=True)
class Sphere(Space):
    """The points of R^d at a distance from zero: a sphere of d - 1 dimensions."""

    dim: int
    radius: float = 1.0

    def __str__(self) -> str:
        return notation.write("sphere", [self.dim, self.radius])

    def __post_init__(self) -> None:
        if self.dim < 2:
            raise Impossible(f"sphere in {self.dim} dimensions: it takes 2 or more")
        if not 0 < self.radius < math.inf:
            raise Impossible(f"sphere of radius {self.radius}: give a number above 0")

    @property
    def origin(self) -> Tensor:
        """The end of the first axis."""
        return self.radius * torch.eye(1, self.dim)[0]

    def contains(self, z: Tensor) -> Tensor:
        """Those whose length is the radius."""
        length: Tensor = torch.linalg.vector_norm(z, dim=-1)
        return (length / self.radius - 1).abs() <= 1e-4

    def project(self, z: Tensor) -> Tensor:
        """The points, as long as the radius."""
        length: Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True).clamp_min(torch.finfo(z.dtype).tiny)
        return z / length * self.radius

    def uniform(self, n: int, *, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Directions of a normal distribution."""
        return self.project(torch.randn(n, self.dim, generator=generator, device=generator.device, dtype=dtype))


@dataclass(frozen=True)
class Product(Space):
    """The product of spaces: their coordinates one behind another."""

    factors: tuple[Space, ...]

    def __str__(self) -> str:
        return " * ".join(map(str, self.factors))

    @property
    def dim(self) -> int:  # type: ignore[override]
        """All coordinates."""
        return sum(factor.dim for factor in self.factors)

    @property
    def origin(self) -> Tensor:
        """The origins of the factors."""
        return torch.cat([factor.origin for factor in self.factors])

    def split(self, z: Tensor) -> Iterator[tuple[Space, Tensor]]:
        """The factors and their coordinates."""
        return zip(self.factors, torch.split(z, [factor.dim for factor in self.factors], -1), strict=True)

    def contains(self, z: Tensor) -> Tensor:
        """Those that lie in it by each factor."""
        return torch.stack([factor.contains(part) for factor, part in self.split(z)]).all(0)

    def project(self, z: Tensor) -> Tensor:
        """Each factor for itself."""
        return torch.cat([factor.project(part) for factor, part in self.split(z)], -1)

    def uniform(self, n: int, *, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Each factor for itself."""
        return torch.cat([factor.uniform(n, generator=generator, dtype=dtype) for factor in self.factors], -1)


def box(dim: float, low: float = -1.0, high: float = 1.0) -> Space:
    """`box(10)`, `box(10, 0, 1)`."""
    return Box(notation.whole(dim), low, high)


def sphere(dim: float, radius: float = 1.0) -> Space:
    """`sphere(10)`, `sphere(10, 2)`."""
    return Sphere(notation.whole(dim), radius)


def unbounded(dim: float) -> Space:
    """`unbounded(10)`."""
    return Unbounded(notation.whole(dim))


SPACES: dict[str, Callable[..., Space]] = {"sphere": sphere, "box": box, "unbounded": unbounded}


def read(text: str, dim: int) -> Space:
    """A space as it is written: `box`, `sphere(10, 2)`, `box(3) * sphere(8)`; what gives no dimensions has `dim`."""
    factors = notation.parse(text, SPACES, "space", {"dim": dim})
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def parse(text: str, dim: int) -> Space:
    """A space of so many dimensions in all."""
    space = read(text, dim)
    if space.dim != dim:
        raise Impossible(f"space {text!r}: has {space.dim} dimensions, and the latents have {dim}")
    return space
