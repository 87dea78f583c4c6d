"""Natural Sprites: polygons on the published tracks of objects in videos, or on random motion in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ident.benchmark.sources.by_rule import DrawnImages
from ident.benchmark.sources.data import NOWHERE, Data
from ident.benchmark.sources.files import digest_of, place_of
from ident.benchmark.sources.motion import FRAMES, LENGTH, check_frames, smooth
from ident.benchmark.training.seeds import Stream, stream
from ident.render.aliases import Float32s, Float64s
from ident.render.errors import Impossible
from ident.render.exchange import tracks
from ident.render.worlds import natural_sprites
from ident.render.worlds.factors import Category, Factor

SIDE = 64
DROPPED = 0.1
"""The share of the largest areas, of both frames of all pairs, that is left out with the pairs that have them."""
CHANNELS = 3
"""Of images, all equal: white on black in colours, as the authors train on. Errors of reconstruction sum over them."""
BINS = 32, 32, 6
"""In which x, y and the area are sorted, where they are to be discrete."""
HOW = ("continuous", "discrete")


class Sprites(DrawnImages):
    """Polygons that move as tracked objects did: x, y and scale of these, orientation and shape drawn anew."""

    shape = (CHANNELS, SIDE, SIDE)
    furthest = 1
    """Pairs are of frames that follow each other."""

    def __init__(self, table: tracks.Tracks, how: str, *, seed: int) -> None:
        if how not in HOW:
            raise Impossible(f"natural sprites {how!r}: choose from {', '.join(HOW)}")
        pairs = np.concatenate([np.stack([track[:-1], track[1:]], 1) for track in table])  # n, 2, (y, x, area)
        largest = np.quantile(pairs[:, :, 2], 1 - DROPPED)
        kept = (pairs[:, :, 2] <= largest).all(1)
        if not kept.any():
            raise Impossible(f"natural sprites: all of {len(pairs)} pairs have a largest area; give more tracks")
        pairs = pairs[kept][:, :, [1, 0, 2]]
        if how == "discrete":
            pairs = binned(pairs)
        places = np.stack([pairs[..., 0] / SIDE, pairs[..., 1] / SIDE, np.sqrt(pairs[..., 2]) / SIDE], 2)
        self.pairs: Float32s = places.astype(np.float32)
        """x, y and scale (n, 2, 3) of an object in two frames that follow each other."""
        self.levels = [np.unique(self.pairs[..., column]) for column in range(3)] if how == "discrete" else []
        """The values that x, y and scale of discrete sprites have."""
        self.factors = (
            *(
                of_classes(factor, len(level))
                for factor, level in zip(natural_sprites.FACTORS, self.levels, strict=False)
            ),
            *natural_sprites.FACTORS[len(self.levels) :],
        )
        super().__init__(seed=seed)

    def draw(self, n: int, rng: np.random.Generator) -> Float32s:
        """Factors of the first frames of pairs; of discrete ones all classes are as likely."""
        if self.levels:
            sizes = [len(factor.kind.names) for factor in self.factors if isinstance(factor.kind, Category)]
            return rng.integers(sizes, size=(n, self.dim)).astype(np.float32)
        return self.with_rest(self.pairs[rng.integers(len(self.pairs), size=n), 0], rng)

    def with_rest(self, places: Float32s, rng: np.random.Generator) -> Float32s:
        """Factors (n, 5) of places (n, 3), with an orientation and a shape that nothing decides."""
        rest = rng.integers([natural_sprites.ANGLES, len(natural_sprites.SHAPES)], size=(len(places), 2))
        return np.concatenate([places, rest.astype(np.float32)], 1)

    def transition(self, n: int, most: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Images (n, 3, 64, 64), and those of the next frames, of the same orientation and shape."""
        assert most <= self.furthest
        chosen = self.pairs[rng.integers(len(self.pairs), size=n)]
        first = self.with_rest(chosen[:, 0], rng)
        later = np.concatenate([chosen[:, 1], first[:, 3:]], 1)
        return self.images_of(first), self.images_of(later)

    def factors_of(self, drawn: Float32s) -> Float32s:
        """They are what is drawn."""
        return drawn

    def images(self, drawn: Float32s) -> Tensor:
        """The images of factors (n, 5), of which discrete ones are classes."""
        values = drawn.copy()
        for column, level in enumerate(self.levels):
            values[:, column] = level[drawn[:, column].astype(np.int64)]
        return self.images_of(values)

    def images_of(self, values: Float32s) -> Tensor:
        """The images (n, 3, 64, 64) of values of the world's factors (n, 5)."""
        images = [natural_sprites.picture(value, SIDE)[:, :, 0] for value in values.astype(np.float64)]
        return torch.from_numpy(np.stack(images))[:, None].repeat(1, CHANNELS, 1, 1)


class NaturalSprites(Sprites):
    """On the published tracks."""

    def __init__(
        self, how: str = "continuous", place: str = "", *, seed: int, data: Mapping[str, Data] = NOWHERE
    ) -> None:
        super().__init__(tracks.read_tracks(file_of(data, place)), how, seed=seed)

    @staticmethod
    def digest(how: str = "", place: str = "", *, data: Mapping[str, Data] = NOWHERE) -> str:  # noqa: ARG004
        """That of the published file."""
        return digest_of([file_of(data, place)])


def file_of(data: Mapping[str, Data], place: str) -> Path:
    """The published file."""
    return place_of(data, place, "natural-sprites", tracks.FILE, "smooth-tracks")


class SmoothTracks(Sprites):
    """On random motion: a stand-in for the published tracks."""

    def __init__(self, how: str = "continuous", frames: int = FRAMES, *, seed: int) -> None:
        super().__init__(list(drifting(check_frames(frames))), how, seed=seed)


def drifting(frames: int) -> Iterator[Float64s]:
    """Tracks (T, 3) of y, x and area in random motion: the same for all seeds."""
    for number in range(frames // LENGTH):
        rng = np.random.default_rng(stream(0, Stream.MIXING, number))
        moves = smooth(rng, LENGTH, [(10, 54), (10, 54), (4, 26)])
        yield np.stack([moves[:, 0], moves[:, 1], moves[:, 2] ** 2], 1)


def binned(pairs: Float64s) -> Float64s:
    """Pairs (n, 2, 3) of x, y and area, each as the centre of its bin of equal width."""
    sorted_in = np.empty_like(pairs)
    for column, count in enumerate(BINS):
        values = pairs[..., column]
        edges = np.histogram_bin_edges(values, count)
        centres = (edges[:-1] + edges[1:]) / 2
        sorted_in[..., column] = centres[np.clip(np.digitize(values, edges[1:-1]), 0, count - 1)]
    return sorted_in


def of_classes(factor: Factor, count: int) -> Factor:
    """A factor with so many classes in place of an interval."""
    return Factor(factor.name, Category(tuple(map(str, range(count)))), factor.meaning)
