"""Images of a dataset, and their factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ident.benchmark.latents.spaces import Box
from ident.benchmark.models import encoders
from ident.benchmark.pairs.batch import Batch, PositivePairs
from ident.benchmark.sources.data import Data
from ident.benchmark.training import distributed
from ident.benchmark.training.seeds import Stream, generator_of
from ident.render.aliases import Array, Float32s, Int64s
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset
from ident.render.threads import in_order
from ident.render.worlds.factors import Factor

AHEAD = 8
"""Batches, or parts of the test set, that are decoded before the encoder asks for them."""
AT_ONCE = 256
"""Images that are encoded at a time where no gradients are wanted."""


class Images:
    """Images to train on, and images to test on; what was rendered of the first is what batches are drawn of."""

    splits = ("test", "train")
    ahead = AHEAD

    def __init__(self, *, seed: int, data: Mapping[str, Data]) -> None:
        self.seed = seed
        self.data = {split: Dataset(data[split].place) for split in self.splits}
        self.train = self.data["train"]
        self.dim = len(self.train.names)
        self.space = Box(self.dim)

    def __len__(self) -> int:
        return len(self.train)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What varies from image to image."""
        return self.train.factors

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

    def labelled(self, number: int, size: int) -> Batch:
        """The share that this process has of batch `number` of images with their factors."""
        indices = self.drawn(number, self.checked(size))[distributed.share(size)]
        return Batch(self.images(indices), factors=torch.from_numpy(self.latents[indices]))

    def paired(self, anchors: Int64s, positives: Int64s) -> Batch:
        """The share that this process has of a batch of images and a positive for each, both by index."""
        size = self.checked(len(anchors))
        indices = np.concatenate([anchors, positives])[distributed.share(2 * size)]
        return Batch(self.images(indices), (PositivePairs(slice(size), slice(size, 2 * size)),))

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

    def fit(self, encoder: nn.Sequential, *, whiten: bool) -> nn.Sequential:
        """The encoder of images whose channels have mean zero and variance one."""
        if whiten:
            raise Impossible("whiten: is for mixed latents; leave it out of the tier")
        return self.untrained(encoder)

    def untrained(self, encoder: nn.Sequential) -> nn.Sequential:
        """The encoder as it begins."""
        pixels = encoders.Pixels(*self.train.manifest.moments())
        return nn.Sequential(pixels, encoder.to(memory_format=torch.channels_last))

    def picture(self, representation: Tensor, rows: int = 6, columns: int = 6) -> bytes:
        """A PNG: in each row an image of the test set, then those whose representations (n, k) are nearest."""
        away = torch.cdist(representation[:rows], representation)
        away[torch.arange(len(away)), torch.arange(len(away))] = -1
        nearest = away.topk(min(columns, len(representation)), largest=False).indices
        images = self.data["test"].images(nearest.flatten().numpy())
        images = images.reshape(*nearest.shape, *images.shape[1:])
        file = BytesIO()
        Image.fromarray(np.concatenate(np.concatenate(images, 1), 1)).save(file, "png")
        return file.getvalue()


def as_tensor(images: Array) -> Tensor:
    """Images (n, H, W, C) as (n, C, H, W), channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2)
