"""Latents of a space, as they are or mixed by an invertible network: drawn when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.latents.spaces import Space, Sphere
from ident.benchmark.sources.mixing import mixing
from ident.benchmark.sources.source import Source
from ident.benchmark.training.seeds import Stream, generator_of, stream
from ident.render.errors import Impossible
from ident.render.worlds.factors import Factor, Interval

DIM = 10
"""Dimensions of a space that gives none, as in the papers' tables."""

CPU = torch.device("cpu")

MOST = 10**9
"""Samples that can be drawn."""
MEASURED = 20_000
"""Samples that are measured before a training: what whitens observations, and how far positives are."""


class Latents(Source):
    """Latents of a marginal, which are their own observations: no encoder is trained on them."""

    encoded = False

    def __init__(self, space: str, marginal: str = "uniform", *, seed: int, device: torch.device = CPU) -> None:
        self.space = spaces.read(space, DIM)
        self.dim, self.seed, self.device = self.space.dim, seed, device
        self.factors = tuple(Factor(f"latent {number}", Interval()) for number in range(self.dim))
        self.marginal = distributions.parse(marginal)
        self.mixing: nn.Module = nn.Identity()

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


class Mixed(Latents):
    """Latents, mixed by a network that follows from the seed alone."""

    encoded = True

    def __init__(self, space: str, marginal: str = "uniform", *, seed: int, device: torch.device = CPU) -> None:
        super().__init__(space, marginal, seed=seed, device=device)
        self.mixing = mixing(self.dim, seed=stream(seed, Stream.MIXING)).to(device)


class Opposite(Mixed):
    """Mixed latents of a sphere whose test samples lie around the other pole.

    Its classified observations are of both: those that are trained on, and those that are tested on.
    """

    classes = ("trained on", "tested on")

    def __init__(self, space: str, marginal: str, *, seed: int, device: torch.device = CPU) -> None:
        super().__init__(space, marginal, seed=seed, device=device)
        if not isinstance(self.space, Sphere):
            raise Impossible(f"opposite: {self.space} has no poles; give a sphere")
        self.other_pole = 1 - 2 * (self.space.origin != 0).to(device=device, dtype=torch.float32)
        """What mirrors a sphere (d,), so that one pole becomes the other."""

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Fresh latents (n, dim) around the other pole, and their observations."""
        assert split in self.splits
        z = self.draw(n, self.generator(Stream.SAMPLES)) * self.other_pole
        return z, iter([self.observe(z)])

    def counts(self) -> tuple[int, int]:
        """As many as anybody wants."""
        return MOST, MOST

    def classified(self, fitted: int, tested: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Whether samples are (n, 1) like those that are tested on, at random; and their observations."""
        generator = self.generator(Stream.VIEWS)
        labels = torch.randint(2, (fitted + tested, 1), generator=generator, device=self.device)
        z = self.draw(len(labels), generator)
        return labels.float().cpu(), iter([self.observe(torch.where(labels > 0, z * self.other_pole, z))])
