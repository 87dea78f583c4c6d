"""Latents that the decoder of a VAE shows, which was trained on handwritten digits; and these digits themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ident.benchmark.latents.spaces import Sphere
from ident.benchmark.sources.data import NOWHERE, Data
from ident.benchmark.sources.files import digest_of, folder_of
from ident.benchmark.sources.mixed import CPU, Latents
from ident.benchmark.sources.sheets import SHOWN, neighbours, sheet
from ident.benchmark.training.seeds import Stream, generator_of
from ident.render.aliases import Int64s, Uint8s
from ident.render.errors import Impossible
from ident.render.exchange import digits

AT_ONCE = 500
"""Images that are encoded at a time where no gradients are wanted."""
MOMENTS = (0.1307,), (0.3081,)
"""Of the pixels of the published digits to train on, from 0 to 1."""
MOST_LATENTS = 64
CLASSES = tuple(map(str, range(digits.CLASSES)))

Decoders = Callable[[Path, int], nn.Module]
"""Gives the decoder from latents (n, dim) to logits of images, of a VAE of the digits in a folder."""


class Decoded(Latents):
    """Latents of a sphere, as images: brought to the length that normal latents have, and decoded.

    Beside them it has the digits that the decoder was trained on, and their classes.
    """

    encoded = True
    shape = (1, digits.SIDE, digits.SIDE)
    moments = MOMENTS
    classes = CLASSES

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
        digits.paths(self.folder)

    @staticmethod
    def digest(*_: object, data: Mapping[str, Data] = NOWHERE, **__: object) -> str:
        """That of the files of the digits."""
        return digest_of(digits.paths(folder_of(data, "", "mnist")))

    @cached_property
    def decoder(self) -> nn.Module:
        """From latents (n, dim), about normal, to logits of images (n, 1, 28, 28)."""
        return self.decoders(self.folder, self.dim).to(self.device)

    @cached_property
    def known(self) -> digits.Digits:
        """Those that the decoder was trained on."""
        return digits.read_digits(self.folder, "train")

    @cached_property
    def unseen(self) -> digits.Digits:
        """Others."""
        return digits.read_digits(self.folder, "test")

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

    def __len__(self) -> int:
        return len(self.known.labels)

    def checked(self, size: int) -> int:
        """A batch size, if there are as many digits."""
        if size > len(self):
            raise Impossible(f"{self.folder}: {len(self)} digits to train on, a batch has {size}")
        return size

    def drawn(self, number: int, n: int) -> Int64s:
        """The indices of n digits, drawn for batch `number`."""
        generator = generator_of(self.seed, Stream.BATCHES, number)
        return torch.randint(len(self), (n,), generator=generator).numpy()

    def images(self, indices: Int64s) -> Tensor:
        """Digits (n, 1, 28, 28) uint8 to train on."""
        return torch.from_numpy(self.known.images[indices])[:, None]

    def counts(self) -> tuple[int, int]:
        """How many digits the decoder was trained on, and how many it has not seen."""
        return len(self.known.labels), len(self.unseen.labels)

    def classified(self, fitted: int, tested: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Classes (n, 1) of so many digits that the decoder was trained on and then of so many others; and these."""
        labels = np.concatenate([self.known.labels[:fitted], self.unseen.labels[:tested]]).astype(np.float32)
        images = self.known.images[:fitted], self.unseen.images[:tested]
        return torch.from_numpy(labels)[:, None], (part for some in images for part in in_parts(some))

    def picture(self, representation: Tensor) -> bytes:
        """A PNG: in each row the image of one of the first test samples, then those nearest in the representation."""
        rows, columns = SHOWN
        nearest = neighbours(representation, rows, columns)
        z = self.draw(len(representation), self.generator(Stream.SAMPLES))
        return sheet(self.observe(z[nearest.flatten()]).unflatten(0, nearest.shape))


def in_parts(images: Uint8s) -> Iterator[Tensor]:
    """Images (n, 28, 28) as tensors (m, 1, 28, 28), some at a time."""
    for start in range(0, len(images), AT_ONCE):
        yield torch.from_numpy(images[start : start + AT_ONCE].copy())[:, None]
