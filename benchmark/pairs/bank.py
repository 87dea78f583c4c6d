"""The bank: the last representation of each image, by which batches of images that look alike are chosen.

Nothing in it knows a factor. What an encoder tells apart already is alike in a group, so that only what it does not yet
tell apart helps to find an anchor's positive there. How alike two are is what the objective's critic makes of them:
AnInfoNCE learns that latents which vary much tell little.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from ident.benchmark.training.schedule import is_number
from ident.benchmark.training.seeds import Stream, generator_of
from ident.render.errors import Impossible

Critic = Callable[[Tensor, Tensor], Tensor]
"""How alike (m, n) all representations (m, dim) are to all others (n, dim)."""

FILLED = 0.9
"""The share of images that must have a representation before there are groups."""


@dataclass(frozen=True)
class Groups:
    """How many pairs a group has, and from where to where in a training batches of groups give way to plain ones."""

    size: int
    fade: tuple[float, float] = (0.5, 0.95)

    def __post_init__(self) -> None:
        if type(self.size) is not int or self.size < 2:
            raise Impossible(f"groups {self.size!r}: give the pairs of a group, a whole number from 2 on")
        shares = self.fade if isinstance(self.fade, tuple) and len(self.fade) == 2 else ()
        if not (shares and all(map(is_number, shares)) and 0 <= shares[0] <= shares[1] <= 1):
            raise Impossible(f"fade {self.fade!r}: give two shares of a training in rising order, like [0.5, 0.95]")

    def share(self, progress: float) -> float:
        """The share of batches that are of groups, at a share of the training."""
        start, end = self.fade
        return float(progress < end) if start == end else min(1.0, max(0.0, (end - progress) / (end - start)))


class Bank(nn.Module):
    """The last representation of each image, and the anchors of the next batches, which were chosen by it.

    The anchors of batch b are chosen by the bank as it was `ahead` steps before, whenever images are decoded. Its
    buffers are all that a training needs to go on with the same batches.
    """

    points: Tensor
    seen: Tensor
    chosen: Tensor

    def __init__(
        self, groups: Groups, *, images: int, dim: int, batch_size: int, steps: int, ahead: int, seed: int
    ) -> None:
        super().__init__()
        if batch_size % groups.size:
            raise Impossible(
                f"groups of {groups.size} pairs: do not divide a batch of {batch_size}; give another number"
            )
        if groups.size > images:
            raise Impossible(f"groups of {groups.size} pairs: there are {images} images; give fewer")
        needed, there = images * (dim * 4 + 1), memory()
        if needed > there:
            raise Impossible(
                f"groups of {groups.size} pairs: a bank of {images:,} representations takes {needed / 2**30:.1f} GB of "
                f"memory, there are {there / 2**30:.1f}; leave groups out of the tier, or take fewer images"
            )
        self.groups, self.batch_size, self.steps, self.ahead, self.seed = groups, batch_size, steps, ahead, seed
        self.register_buffer("points", torch.zeros(images, dim))
        self.register_buffer("seen", torch.zeros(images, dtype=torch.bool))
        self.register_buffer("chosen", torch.full((max(1, ahead), batch_size), -1))

    def remember(self, images: Tensor, points: Tensor) -> None:
        """Keep the representations (m, dim) of images (m,); of one that is there twice, the last."""
        index = images.cpu().numpy()
        self.points.numpy()[index] = points.detach().float().cpu().numpy()  # NumPy writes in this order
        self.seen.numpy()[index] = True

    def choices(self, first: int, critic: Critic) -> Iterator[tuple[int, Tensor | None]]:
        """The batches from number `first` on, and the anchors (size,) of those that are of groups.

        To be asked for so many batches ahead as it was made for: anchors are chosen when they are asked for.
        """
        for number in count(first):
            row = self.chosen[number % len(self.chosen)]
            if number >= first + self.ahead or first == 0:
                anchors = self.choose(number, critic)
                row.copy_(torch.full_like(row, -1) if anchors is None else anchors)
            yield number, row.clone() if row[0] >= 0 else None

    def choose(self, number: int, critic: Critic) -> Tensor | None:
        """The anchors (size,) of batch `number`, group behind group; None where it shall be a plain one."""
        generator = generator_of(self.seed, Stream.GROUPS, number)
        drawn = float(torch.rand((), generator=generator))
        if drawn >= self.groups.share(number / self.steps) or float(self.seen.float().mean()) < FILLED:
            return None
        centres = self.seen.nonzero()[:, 0]
        centres = centres[torch.randperm(len(centres), generator=generator)[: self.batch_size // self.groups.size]]
        return self.alike(centres, critic).flatten()

    def alike(self, images: Tensor, critic: Critic) -> Tensor:
        """The images (m, size) that are most alike to each of some (m,), themselves included."""
        similarities = critic(self.points[images], self.points)
        similarities[:, ~self.seen] = -math.inf
        similarities[torch.arange(len(images)), images] = math.inf
        return similarities.topk(self.groups.size).indices


def memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def of_options(groups: Any, fade: Any) -> Groups | None:
    """Groups as a tier writes them; 0 is none."""
    return None if type(groups) is int and groups == 0 else Groups(groups, fade)
