"""Positive pairs of rendered latents: an anchor, a wished-for positive, and the rendered latent nearest to that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.latents.distributions import Distribution
from ident.benchmark.latents.spaces import Box, Space
from ident.benchmark.pairs.neighbours import Neighbours, open_index
from ident.benchmark.training.seeds import stream
from ident.render.aliases import Float32s, Int64s
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset
from ident.render.worlds.factors import Interval

BATCH = 4096
SAMPLE, SAMPLE_BATCH = 10_000, 2**40
"""Pairs on which the recall is measured, and the number of their batch: further than anybody draws."""


RECALL = 0.999
"""The recall that the search for positives is tuned to."""


@dataclass(frozen=True)
class DrawnPairs:
    """Pairs (m,): the numbers of anchors and positives, their latents (m, d), what was wished for, how far that was."""

    anchor: Int64s
    positive: Int64s
    anchor_latents: Float32s
    positive_latents: Float32s
    wished: Float32s
    distance: Float32s
    anchor_was_nearest: np.ndarray  # type: ignore[type-arg]

    def __len__(self) -> int:
        return len(self.anchor)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, in memory as in a file."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    @property
    def rendered(self) -> bool:
        """Whether the positives were rendered for their anchors: by its latents, no image is its own neighbour."""
        return np.array_equal(self.anchor, self.positive)


def batches(sampler: NearestSampler | RenderedSampler, n: int) -> Iterator[DrawnPairs]:
    """The first n pairs, a batch at a time."""
    for batch, start in enumerate(range(0, n, BATCH)):
        yield sampler.draw(batch, min(BATCH, n - start))


def joined(many: list[DrawnPairs]) -> DrawnPairs:
    """Pairs one behind another."""
    return DrawnPairs(*(np.concatenate([getattr(pairs, field.name) for pairs in many]) for field in fields(DrawnPairs)))


@dataclass(frozen=True)
class NearestSampler:
    """Anchors and the images nearest to draws around them: batch b of a seed is always the same, whoever draws it."""

    neighbours: Neighbours
    space: Space
    conditional: Distribution
    seed: int
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        points = torch.from_numpy(self.neighbours.latents)
        if points.shape[1] != self.space.dim:
            raise Impossible(f"{self.space}: the latents have {points.shape[1]} dimensions")
        outside = (~self.space.contains(points)).nonzero()
        if len(outside):
            raise Impossible(f"the latents of image {int(outside[0])} lie outside of {self.space}")

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the pairs."""
        of = sha256(self.neighbours.latents.tobytes()).hexdigest()
        described = {**distributions.describe(self.conditional), "space": str(self.space), "seed": self.seed}
        return {**described, "latents": self.names, "sha256 of latents": of}

    def wish(self, batch: int, n: int, anchors: Int64s | None = None) -> tuple[Int64s, Float32s]:
        """Anchors (n,), drawn or these, and what is wished for as their positives (n, d)."""
        generator = torch.Generator().manual_seed(stream(self.seed, batch))
        anchors = anchors_of(len(self.neighbours.latents), n, generator) if anchors is None else anchors
        around = torch.from_numpy(self.neighbours.latents[anchors])
        return anchors, self.conditional.draw(self.space, around, generator=generator).numpy()

    def tune(self, recall: float, say: Callable[[str], object] = print) -> float:
        """Let the search look just so far that it has this recall on a sample; gives what it has."""
        anchors, wished = self.wish(SAMPLE_BATCH, SAMPLE)
        return self.neighbours.tune(wished, anchors, recall, say)

    def draw(self, batch: int, n: int, anchors: Int64s | None = None) -> DrawnPairs:
        """Batch number `batch` of n pairs, of anchors that are drawn, or of these."""
        anchors, wished = self.wish(batch, n, anchors)
        nearest = self.neighbours.nearest(wished, anchors)
        around, at = self.neighbours.latents[anchors], self.neighbours.latents[nearest.index]
        return DrawnPairs(anchors, nearest.index, around, at, wished, nearest.distance, nearest.anchor_was_nearest)


@dataclass(frozen=True)
class RenderedSampler:
    """Pairs of images and the positives that were rendered for them."""

    raw: Float32s
    positives: Float32s
    conditional: Distribution
    seed: int
    names: tuple[str, ...]

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the pairs."""
        of = sha256(self.raw.tobytes() + self.positives.tobytes()).hexdigest()
        described = {**distributions.describe(self.conditional), "pairs": "rendered", "seed": self.seed}
        return {**described, "latents": self.names, "sha256 of latents": of}

    def tune(self, _: float, say: Callable[[str], object] = print) -> float:  # noqa: ARG002
        """There is no search: each positive is the right one."""
        return 1.0

    def draw(self, batch: int, n: int, anchors: Int64s | None = None) -> DrawnPairs:
        """Batch number `batch` of n pairs; `wished` has draws of their own, to compare with."""
        generator = torch.Generator().manual_seed(stream(self.seed, batch))
        anchors = anchors_of(len(self.raw), n, generator) if anchors is None else anchors
        around, at = self.raw[anchors], self.positives[anchors]
        wished = self.conditional.draw(Box(len(self.names)), torch.from_numpy(around), generator=generator).numpy()
        return DrawnPairs(anchors, anchors, around, at, wished, np.zeros(n, np.float32), np.zeros(n, bool))


Sampler = NearestSampler | RenderedSampler


def anchors_of(images: int, n: int, generator: torch.Generator) -> Int64s:
    """Anchors (n,) drawn from so many images."""
    drawn: Int64s = torch.randint(images, (n,), generator=generator).numpy()
    return drawn


def open_sampler(
    data: Dataset,
    conditional: str | None,
    *,
    space: str,
    seed: int,
    subset: tuple[str, ...] | None = None,
    kind: str = "auto",
    pairs: str = "auto",
    say: Callable[[str], object] = print,
) -> Sampler:
    """What draws pairs of a dataset's images: rendered ones where it has such, or nearest neighbours.

    Neighbours are found by all latents or by the named ones, and their index is kept in the user's cache.
    """
    rendered = data.manifest.positives
    if pairs == "auto":
        pairs = "nearest" if rendered is None or subset is not None or space != "box" else "rendered"
        if pairs == "rendered" and rendered is not None and conditional is not None:
            pairs = "rendered" if str(distributions.typed(conditional)) == rendered["conditional"] else "nearest"
    if pairs == "rendered":
        return _rendered(data, conditional, space, seed, subset)
    if conditional is None:
        raise Impossible("conditional: give one, like laplace(0.05)")
    names = data.names if subset is None else subset
    points = points_of(data, names)
    lives, drawn = spaces.parse(space, len(names)), distributions.typed(conditional)
    return NearestSampler(open_index(points, kind, say), lives, drawn, seed, names)


def points_of(data: Dataset, names: tuple[str, ...]) -> Float32s:
    """Factors (n, len(names)) by name, each interval as [-1, 1]: there a conditional has the same width for all."""
    if not names or not set(names) <= set(data.names) or len(set(names)) < len(names):
        raise Impossible(f"latents {', '.join(names)!r}: name some, each once, of {', '.join(data.names)}")
    columns = [data.names.index(name) for name in names]
    kinds = [data.factors[column].kind for column in columns]
    if bent := [name for name, kind in zip(names, kinds, strict=True) if not isinstance(kind, Interval)]:
        straight = [factor.name for factor in data.factors if isinstance(factor.kind, Interval)]
        raise Impossible(f"latents {', '.join(bent)}: are no intervals; name some of {', '.join(straight)}")
    low, high = (np.array([getattr(kind, end) for kind in kinds], np.float32) for end in ("low", "high"))
    return np.ascontiguousarray((data.latents[:, columns] - (low + high) / 2) / ((high - low) / 2))


def _rendered(
    data: Dataset, conditional: str | None, space: str, seed: int, subset: tuple[str, ...] | None
) -> RenderedSampler:
    drawn = check_positives(data, conditional)
    if subset is not None or space != "box":
        raise Impossible("rendered positives follow all factors in the box; leave out --latents and --space")
    return RenderedSampler(data.latents.copy(), data.positive_latents.copy(), drawn, seed, data.names)


def check_positives(data: Dataset, conditional: str | None) -> Distribution:
    """The conditional of the rendered positives; refused where there are none, or of another than is asked for."""
    rendered = data.manifest.positives
    if rendered is None:
        raise Impossible(f"{data.storage}: was rendered without positives; take --pairs nearest, or render some")
    drawn = distributions.parse(rendered["conditional"]) if conditional is None else distributions.typed(conditional)
    if str(drawn) != rendered["conditional"]:
        follow = rendered["conditional"]
        raise Impossible(f"{data.storage}: its positives follow {follow}, not {conditional}; take --pairs nearest")
    return drawn
