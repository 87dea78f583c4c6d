"""Silhouettes in sequences: the published KITTI Masks, or walking figures in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ident.benchmark.sources.by_rule import DrawnImages
from ident.benchmark.sources.data import NOWHERE, Data
from ident.benchmark.sources.files import digest_of, place_of
from ident.benchmark.sources.motion import FRAMES, LENGTH, check_frames, smooth
from ident.benchmark.training.seeds import Stream, stream
from ident.render.aliases import Float32s, Int64s, Uint8s
from ident.render.exchange import masks
from ident.render.worlds import walkers
from ident.render.worlds.factors import Factor, Interval

SIDE = 64


class Transitions:
    """Where frames lie that have a later one in their sequence, of sequences that lie one behind the other."""

    def __init__(self, lengths: list[int]) -> None:
        ends = np.cumsum(lengths)
        self.last: Int64s = np.repeat(ends - 1, lengths)
        """The last frame (n,) of each frame's sequence."""
        self.starts: Int64s = np.flatnonzero(np.arange(len(self.last)) < self.last)
        """The frames that are not the last."""

    def draw(self, n: int, most: int, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
        """Frames (n,), and for each one that comes 1 to `most` frames later, or the last of its sequence."""
        first: Int64s = self.starts[rng.integers(len(self.starts), size=n)]
        return first, np.minimum(first + rng.integers(1, most + 1, size=n), self.last[first])


class Masks(DrawnImages):
    """Silhouettes in sequences, with y, x and area of each."""

    factors = (
        Factor("y", Interval(0, SIDE), "centre of mass, from the top", "pixels"),
        Factor("x", Interval(0, SIDE), "centre of mass, from the left", "pixels"),
        Factor("area", Interval(0, SIDE**2), "", "pixels"),
    )
    shape = (1, SIDE, SIDE)

    def __init__(self, sequences: masks.Sequences, *, seed: int) -> None:
        super().__init__(seed=seed)
        self.frames: Uint8s = np.concatenate([frames for frames, _ in sequences])
        self.latents: Float32s = np.concatenate([latents for _, latents in sequences])
        self.transitions = Transitions([len(frames) for frames, _ in sequences])

    def draw(self, n: int, rng: np.random.Generator) -> Int64s:
        """The numbers (n,) of frames that are not the last of their sequence, as in the published code.

        Test images are of those that are trained on, as there.
        """
        frames: Int64s = self.transitions.starts[rng.integers(len(self.transitions.starts), size=n)]
        return frames

    def factors_of(self, drawn: Int64s) -> Float32s:
        """The latents (n, 3) of frames."""
        return self.latents[drawn]

    def images(self, drawn: Int64s) -> Tensor:
        """The masks (n, 1, 64, 64) of frames, of 0 and 255."""
        return torch.from_numpy(self.frames[drawn] * np.uint8(255))[:, None]

    def transition(self, n: int, most: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Masks (n, 1, 64, 64), and masks of the same sequences up to `most` frames later."""
        first, later = self.transitions.draw(n, most, rng)
        return self.images(first), self.images(later)


class KittiMasks(Masks):
    """The published silhouettes of pedestrians."""

    def __init__(self, place: str = "", *, seed: int, data: Mapping[str, Data] = NOWHERE) -> None:
        super().__init__(masks.read_masks(file_of(data, place)), seed=seed)

    @staticmethod
    def digest(place: str = "", *, data: Mapping[str, Data] = NOWHERE) -> str:
        """That of the published file."""
        return digest_of([file_of(data, place)])


def file_of(data: Mapping[str, Data], place: str) -> Path:
    """The published file."""
    return place_of(data, place, "kitti-masks", masks.FILE, "walkers")


class Walkers(Masks):
    """Walking figures that are drawn by rule: a stand-in for the published silhouettes."""

    def __init__(self, frames: int = FRAMES, *, seed: int) -> None:
        super().__init__(walked(check_frames(frames)), seed=seed)


@cache
def walked(frames: int) -> masks.Sequences:
    """The sequences of figures, which several runs share."""
    return list(walking(frames))


def walking(frames: int) -> Iterator[tuple[Uint8s, Float32s]]:
    """Sequences of figures that walk to one side and come nearer or go away: the same for all seeds."""
    for number in range(frames // LENGTH):
        rng = np.random.default_rng(stream(0, Stream.MIXING, number))
        moves = smooth(rng, LENGTH, [(18, 46), (14, 50), (14, 44)])
        phase = rng.random() + np.arange(LENGTH) * rng.uniform(0.03, 0.09)
        values = np.stack([moves[:, 0] / SIDE, moves[:, 1] / SIDE, moves[:, 2] / SIDE, 2 * np.pi * phase], 1)
        drawn = np.stack([walkers.mask(value, SIDE) for value in values])
        yield drawn.view(np.uint8), latents_of(drawn)


def latents_of(covered: npt.NDArray[np.bool_]) -> Float32s:
    """The latents (T, 3) of masks (T, H, W): their centres of mass, and their areas."""
    area = covered.sum((1, 2))
    y = (covered.sum(2) * np.arange(covered.shape[1])).sum(1) / area
    x = (covered.sum(1) * np.arange(covered.shape[2])).sum(1) / area
    latents: Float32s = np.stack([y, x, area], 1).astype(np.float32)
    return latents
