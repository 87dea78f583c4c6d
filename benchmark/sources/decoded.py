"""Latents that the decoder of a VAE shows, which was trained on handwritten digits; and these digits themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ident.benchmark.latents.spaces import Sphere
from ident.benchmark.sources.data import NOWHERE, Data
from ident.benchmark.sources.files import digest_of, folder_of
from ident.benchmark.sources.mixed import CPU, Latents
from ident.benchmark.sources.pictures import Pictures
from ident.benchmark.training.seeds import Stream, generator_of
from ident.render.aliases import Int64s
from ident.render.errors import Impossible
from ident.render.exchange import digits

AT_ONCE = 500
"""Images that are encoded at a time where no gradients are wanted."""
MOMENTS = (0.1307,), (0.3081,)
"""Mean and standard deviation of the pixels of the published digits to train on, from 0 to 1."""
MOST_LATENTS = 64
CLASSES, SHAPE = tuple(map(str, range(digits.CLASSES))), (1, digits.SIDE, digits.SIDE)

Decoders = Callable[[Path, int], nn.Module]
"""Gives the decoder from latents (n, dim) to logits of images, of a VAE of the digits in a folder."""


class Digits(Pictures):
    """Handwritten digits, in memory: the first of them where some are chosen."""

    at_once = AT_ONCE
    moments = MOMENTS

    def __init__(self, folder: Path, *, seed: int) -> None:
        super().__init__(CLASSES, SHAPE, seed=seed)
        self.stored = cache(partial(digits.read_digits, folder))

    def labels(self, split: str) -> Int64s:
        """The classes (n,) of a split."""
        return self.stored(split).labels.astype(np.int64)

    def images(self, indices: Int64s, split: str = "train") -> Tensor:
        """Digits (n, 1, 28, 28) uint8 of a split."""
        return torch.from_numpy(self.stored(split).images[indices])[:, None]

    def some(self, split: str, n: int) -> Int64s:  # noqa: ARG002
        """The indices (n,) of the first digits: they lie in no order."""
        return np.arange(n)

    def drawn(self, number: int, n: int) -> Int64s:
        """The indices of n digits, drawn for batch `number`."""
        generator = generator_of(self.seed, Stream.BATCHES, number)
        return torch.randint(len(self), (n,), generator=generator).numpy()


class Decoded(Latents):
    """Latents of a sphere, as images: brought to the length that normal latents have, and decoded.

    Beside them it has the digits that the decoder was trained on, and others, as its `pictures`.
    """

    encoded = True
    shape = SHAPE
    moments = MOMENTS

    def __init__(
        self,
        space: str = "sphere",
        marginal: str = "uniform",
        *,
        seed: int,
        decoders: Decoders,
        device: torch.device = CPU,
        data: Mapping[str, Data] = NOWHERE,
    ) -> None:
        super().__init__(space, marginal, seed=seed, device=device)
        if not isinstance(self.space, Sphere) or self.space.radius != 1 or self.dim > MOST_LATENTS:
            raise Impossible(
                f"decoded: latents of {self.space}; give a sphere of radius 1 in 2 to {MOST_LATENTS} dimensions"
            )
        self.folder, self.decoders = folder_of(data, "", "mnist"), decoders
        self.digits = Digits(self.folder, seed=seed)
        for split in ("train", "test"):
            self.digits.labels(split)  # damaged files are refused before a training

    @property
    def pictures(self) -> Digits:
        """The digits that the decoder was trained on, and others."""
        return self.digits

    @staticmethod
    def digest(*_: object, data: Mapping[str, Data] = NOWHERE, **__: object) -> str:
        """That of the files of the digits."""
        return digest_of(digits.paths(folder_of(data, "", "mnist")))

    @cached_property
    def decoder(self) -> nn.Module:
        """From latents (n, dim), about normal, to logits of images (n, 1, 28, 28)."""
        return self.decoders(self.folder, self.dim).to(self.device)

    def observe(self, z: Tensor) -> Tensor:
        """Images (n, 1, 28, 28) from 0 to 255 of latents (n, dim)."""
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            images: Tensor = 255 * torch.sigmoid(self.decoder(math.sqrt(self.dim) * z))
        return images

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Fresh latents (n, dim), and their images."""
        assert split in self.splits
        z = self.draw(n, self.generator(Stream.SAMPLES))
        return z, map(self.observe, z.split(AT_ONCE))

    def shown(self, numbers: Tensor, n: int) -> Tensor:
        """Images (m, 1, 28, 28) of test samples by their numbers (m,) among the first n."""
        return self.observe(self.draw(n, self.generator(Stream.SAMPLES))[numbers])
