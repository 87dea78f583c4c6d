"""Images of a dataset, and their factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ident.benchmark.latents.spaces import Box
from ident.benchmark.sources.data import Data
from ident.benchmark.sources.source import Source
from ident.benchmark.training.seeds import Stream, generator_of
from ident.render.aliases import Array, Float32s, Int64s
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset
from ident.render.threads import in_order

AHEAD = 8
"""Batches, or parts of the test set, that are decoded before the encoder asks for them."""
AT_ONCE = 256
"""Images that are encoded at a time where no gradients are wanted."""


class Images(Source):
    """Images to train on, and images to test on; what was rendered of the first is what batches are drawn of."""

    splits = ("test", "train")
    ahead = AHEAD

    def __init__(self, *, seed: int, data: Mapping[str, Data]) -> None:
        self.seed = seed
        self.data = {split: Dataset(data[split].place) for split in self.splits}
        self.train = self.data["train"]
        self.factors = self.train.factors
        self.dim = len(self.factors)
        self.space = Box(self.dim)
        height, width, channels = self.train.shape
        self.shape = (channels, height, width)

    def __len__(self) -> int:
        return len(self.train)

    @property
    def latents(self) -> Float32s:
        """The raw factors (n, dim) of all images to train on."""
        return self.train.latents

    def images(self, indices: Int64s) -> Tensor:
        """Images (n, C, H, W) uint8 to train on."""
        return as_tensor(self.train.images(indices))

    def drawn(self, number: int, n: int) -> Int64s:
        """The indices of n images, drawn for batch `number`."""
        generator = generator_of(self.seed, Stream.BATCHES, number)
        return torch.randint(len(self), (n,), generator=generator).numpy()

    def labelled(self, number: int, size: int, share: slice) -> tuple[Tensor, Tensor]:
        """A share of batch `number` of images, and their factors (n, dim)."""
        indices = self.drawn(number, self.checked(size))[share]
        return self.images(indices), torch.from_numpy(self.latents[indices])

    def checked(self, size: int) -> int:
        """A batch size, if there are as many images."""
        if size > len(self):
            raise Impossible(f"{self.train.storage}: {len(self)} images, a batch has {size}")
        return size

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Factors (n, dim) of the first images of a split, and these."""
        data = self.data[split]
        indices = np.arange(min(n, len(data)))
        parts = np.array_split(indices, range(AT_ONCE, len(indices), AT_ONCE))
        decoded = in_order(lambda part: as_tensor(data.images(part)), parts, ahead=AHEAD)
        return torch.from_numpy(data.latents[indices]), (images for _, images in decoded)

    @property
    def moments(self) -> tuple[Sequence[float], Sequence[float]]:
        """Mean and standard deviation of each channel from 0 to 1."""
        return self.train.manifest.moments()

    def shown(self, numbers: Tensor, n: int) -> Tensor:  # noqa: ARG002
        """Images (m, C, H, W) of the test set by their numbers (m,)."""
        return as_tensor(self.data["test"].images(numbers.numpy()))


def as_tensor(images: Array) -> Tensor:
    """Images (n, H, W, C) as (n, C, H, W), channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2)
