"""Latents of a space, as they are or mixed by an invertible network: drawn when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.latents.spaces import Space
from ident.benchmark.sources.mixing import mixing
from ident.benchmark.training.seeds import Stream, generator_of, stream
from ident.render.worlds.factors import Factor, Interval

DIM = 10
"""Dimensions of a space that gives none, as in the papers' tables."""

CPU = torch.device("cpu")

MEASURED = 20_000
"""Samples that are measured before a training: what whitens observations, and how far positives are."""


class Latents:
    """Latents of a marginal, which are their own observations: no encoder is trained on them."""

    splits = ("test",)
    encoded = False
    ahead = 0
    moments = None

    def __init__(self, space: str, marginal: str = "uniform", *, seed: int, device: torch.device = CPU) -> None:
        self.space = spaces.read(space, DIM)
        self.dim, self.seed, self.device = self.space.dim, seed, device
        self.marginal = distributions.parse(marginal)
        self.mixing: nn.Module = nn.Identity()

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The coordinates of the space."""
        return tuple(Factor(f"latent {number}", Interval()) for number in range(self.dim))

    def generator(self, *number: int) -> torch.Generator:
        """Random numbers of a stream."""
        return generator_of(self.seed, *number, device=self.device)

    def draw(self, n: int, generator: torch.Generator, space: Space | None = None) -> Tensor:
        """Latents (n, dim) of the marginal, in another space if one is given."""
        return distributions.sample(self.marginal, space or self.space, n, generator=generator)

    def observe(self, z: Tensor) -> Tensor:
        """Observations (n, dim) of latents (n, dim)."""
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            observations: Tensor = self.mixing(z)
        return observations

    def labelled(self, number: int, size: int, share: slice) -> tuple[Tensor, Tensor]:
        """A share of batch `number` of observations, and their latents (n, dim)."""
        z = self.draw(size, self.generator(Stream.BATCHES, number))[share]
        return self.observe(z), z

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Fresh latents (n, dim), and their observations."""
        assert split in self.splits
        z = self.draw(n, self.generator(Stream.SAMPLES))
        return z, iter([self.observe(z)])

    def measured(self) -> Tensor:
        """Observations (MEASURED, dim)."""
        return self.observe(self.draw(MEASURED, self.generator(Stream.MEASURES)))

    def picture(self, representation: Tensor) -> None:  # noqa: ARG002
        """Latents cannot be seen."""
        return


class Mixed(Latents):
    """Latents, mixed by a network that follows from the seed alone."""

    encoded = True

    def __init__(self, space: str, marginal: str = "uniform", *, seed: int, device: torch.device = CPU) -> None:
        super().__init__(space, marginal, seed=seed, device=device)
        self.mixing = mixing(self.dim, seed=stream(seed, Stream.MIXING)).to(device)
