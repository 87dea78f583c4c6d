"""Pictures with classes, whose factors nobody knows: CIFAR10, and folders of classes with image files in them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ident.benchmark.latents.spaces import Box
from ident.benchmark.sources.data import NOWHERE, Data
from ident.benchmark.sources.dataset import as_tensor
from ident.benchmark.sources.files import digest_of, folder_of
from ident.benchmark.sources.source import Source, check_size
from ident.benchmark.training.seeds import Stream, in_turn
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.exchange import cifar10, folders
from ident.render.threads import in_order
from ident.render.worlds.factors import Category, Factor

AHEAD = 4
"""Batches, or parts of what is scored, that are read before the encoder asks for them."""
AT_ONCE = 256
"""Pictures that are encoded at a time where no gradients are wanted."""
MEASURED = 10_000
"""Pictures of which mean and standard deviation are taken."""
SIZES = range(16, 1025)


class Pictures(Source):
    """Pictures to train on and others to test on, each of a class. Their factors are not known but for the class."""

    ahead = AHEAD
    at_once = AT_ONCE

    def __init__(self, classes: tuple[str, ...], shape: tuple[int, int, int], *, seed: int) -> None:
        self.seed, self.classes, self.shape = seed, classes, shape
        self.factors = (Factor("class", Category(classes)),)
        self.dim = 1
        self.space = Box(1)

    @abstractmethod
    def labels(self, split: str) -> Int64s:
        """The classes (n,) of a split, `train` or `test`."""

    @abstractmethod
    def images(self, indices: Int64s, split: str = "train") -> Tensor:
        """Images (n, C, H, W) uint8 of a split."""

    def __len__(self) -> int:
        return len(self.labels("train"))

    def drawn(self, number: int, n: int) -> Int64s:
        """The indices of n images for batch `number`: all come once, in an order of its own, before any comes again."""
        return in_turn(len(self), number, n, self.seed, Stream.BATCHES)

    def checked(self, size: int) -> int:
        """A batch size, if there are as many images."""
        if size > len(self):
            raise Impossible(f"{len(self)} pictures, a batch has {size}; give fewer")
        return size

    def labelled(self, number: int, size: int, share: slice) -> tuple[Tensor, Tensor]:
        """A share of batch `number` of images, and their classes (n, 1)."""
        indices = self.drawn(number, self.checked(size))[share]
        return self.images(indices), column(self.labels("train")[indices])

    def counts(self) -> tuple[int, int]:
        """How many pictures there are to train on, and others."""
        return len(self.labels("train")), len(self.labels("test"))

    def classified(self, fitted: int, tested: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Classes (n, 1) of so many pictures to train on and then of so many others; and these, some at a time."""
        chosen = {split: self.some(split, n) for split, n in (("train", fitted), ("test", tested))}
        labels = np.concatenate([self.labels(split)[indices] for split, indices in chosen.items()])
        parts = [
            (split, part)
            for split, indices in chosen.items()
            for part in np.array_split(indices, range(self.at_once, len(indices), self.at_once))
            if len(part)
        ]
        read = in_order(lambda part: self.images(part[1], part[0]), parts, ahead=AHEAD)
        return column(labels), (images for _, images in read)

    def some(self, split: str, n: int) -> Int64s:
        """The indices (n,) of pictures that lie evenly among all of a split: where these are sorted, of all classes."""
        return np.arange(n) * len(self.labels(split)) // max(1, n)

    def samples(self, split: str, n: int) -> tuple[Tensor, Iterator[Tensor]]:
        """Classes (n, 1) of test pictures, and these."""
        assert split in self.splits
        return self.classified(0, min(n, len(self.labels(split))))

    @cached_property
    def moments(self) -> tuple[Sequence[float], Sequence[float]]:
        """Mean and standard deviation of each channel from 0 to 1."""
        chosen = self.some("train", min(MEASURED, len(self)))
        counts = np.zeros((3, 256))
        for part in np.array_split(chosen, range(AT_ONCE, len(chosen), AT_ONCE)):
            channels = self.images(part).numpy().swapaxes(0, 1)
            counts += [np.bincount(channel.reshape(-1), minlength=256) for channel in channels]
        shares: Float64s = counts / counts.sum(1, keepdims=True)
        values = np.arange(256) / 255
        mean = shares @ values
        deviation = np.sqrt(shares @ values**2 - mean**2)
        return mean.tolist(), np.where(deviation > 0, deviation, 1.0).tolist()

    def shown(self, numbers: Tensor, n: int) -> Tensor:
        """Test pictures (m, C, H, W) by their numbers (m,) among n of them."""
        return self.images(self.some("test", n)[numbers.numpy()], "test")


class CIFAR10(Pictures):
    """CIFAR10, in memory."""

    def __init__(self, *, seed: int, data: Mapping[str, Data] = NOWHERE) -> None:
        self.stored = read_cifar10(folder_of(data, "", "cifar10"), self.digest(data=data))
        super().__init__(cifar10.CLASSES, (3, cifar10.SIDE, cifar10.SIDE), seed=seed)

    def labels(self, split: str) -> Int64s:
        """The classes (n,) of a split."""
        return self.stored[split][1]

    def images(self, indices: Int64s, split: str = "train") -> Tensor:
        """Images (n, 3, 32, 32) uint8 of a split."""
        return as_tensor(np.ascontiguousarray(self.stored[split][0][indices]))

    @staticmethod
    def digest(*, data: Mapping[str, Data] = NOWHERE) -> str:
        """That of its files."""
        return digest_of(cifar10.find(folder_of(data, "", "cifar10")))


class ImageFolder(Pictures):
    """A folder of classes with image files in them, read when they are asked for and brought to one size."""

    def __init__(self, size: int = 224, *, seed: int, data: Mapping[str, Data] = NOWHERE) -> None:
        check_size(size, SIZES, "image-folder")
        self.size = size
        self.folder = folder_in(data)
        super().__init__(self.folder.classes, (3, size, size), seed=seed)

    def labels(self, split: str) -> Int64s:
        """The classes (n,) of a split."""
        return self.folder.splits[split].labels

    def images(self, indices: Int64s, split: str = "train") -> Tensor:
        """Images (n, 3, size, size) uint8 of a split."""
        paths = self.folder.splits[split].paths
        return as_tensor(np.stack([folders.decode(paths[index], self.size) for index in indices]))

    @staticmethod
    def digest(*_: object, data: Mapping[str, Data] = NOWHERE, **__: object) -> str:
        """That of the names and sizes of its files."""
        return folder_in(data).digest


def folder_in(data: Mapping[str, Data]) -> folders.Folder:
    """The folder of classes at a place."""
    root = folder_of(data, "", "imagenet")
    return read_folder(root, root.absolute())


@lru_cache(maxsize=1)
def read_folder(root: Path, absolute: Path) -> folders.Folder:  # noqa: ARG001  # which tells working directories apart
    """A folder of classes: it is listed once for all runs and their digests, as it may have millions of images."""
    return folders.read_folder(root)


@lru_cache(maxsize=1)
def read_cifar10(place: Path, digest: str) -> Mapping[str, cifar10.Labelled]:  # noqa: ARG001  # which tells files from others
    """The images and classes of each split, which several runs share."""
    return cifar10.read_cifar10(cifar10.find(place))


def column(labels: Int64s) -> Tensor:
    """Classes (n,) as factors (n, 1)."""
    return torch.from_numpy(labels.astype(np.float32))[:, None]
