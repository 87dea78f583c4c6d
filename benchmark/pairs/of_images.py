"""Pairs of a dataset's images: by their factors, or two augmentations of one."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from ident.benchmark.latents import distributions
from ident.benchmark.latents.distributions import SCALE
from ident.benchmark.latents.spaces import Box
from ident.benchmark.pairs.augmentations import Augmentations
from ident.benchmark.pairs.batch import Batch, Comparison, PairsAmong, PositivePairs
from ident.benchmark.pairs.curriculum import check_lasts
from ident.benchmark.pairs.samplers import RECALL, RenderedSampler, Sampler, open_sampler
from ident.benchmark.sources.dataset import Images, as_tensor
from ident.benchmark.training import distributed
from ident.benchmark.training.seeds import Stream, generator_of, stream
from ident.render.errors import Impossible

OTHERS = 0.1
"""What pairs near in a group of factors count that is not the first."""


class Around:
    """Anchors and a positive around each: rendered for it where the dataset has such, else its nearest neighbour's.

    `first` has groups of factors by name. At first positives are near their anchors in the factors of one group alone,
    and compared by outputs of its own, as many as it has factors: all factors that images show at a glance tell a
    positive from most negatives, and nothing else would be looked for. With `both` each positive is an anchor, too.
    """

    how: ClassVar[str] = "auto"

    def __init__(
        self,
        source: Images,
        conditional: str,
        *,
        steps: int,
        scale: float = SCALE,
        both: bool = False,
        first: tuple[tuple[str, ...], ...] = (),
        lasts: float = 0.5,
    ) -> None:
        check_lasts(lasts)
        check_groups(first, source.train.names)
        if type(both) is not bool:
            raise Impossible(f"both {both!r}: give true or false")
        self.source, self.steps, self.both, self.first, self.lasts = source, steps, both, first, lasts
        self.conditional = distributions.parse(conditional, scale)

    @cached_property
    def sampler(self) -> Sampler:
        """What draws the pairs; of nearest neighbours by an index, which takes a while to build."""
        seed, written = stream(self.source.seed, Stream.BATCHES), str(self.conditional)
        data = self.source.train
        sampler = open_sampler(data, written, space="box", seed=seed, pairs=self.how, say=lambda _: None)
        sampler.tune(RECALL, say=lambda _: None)
        return sampler

    def alone(self, number: int) -> float:
        """The share of pairs that are near in a group alone: all for two fifths of the way, then ever fewer."""
        done = min(1.0, number / self.steps / self.lasts)
        return min(1.0, (1 - done) / 0.6) if self.first else 0.0

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number`: images of which some are near each other, then anchors, then their positives.

        The first come with all pairs among them that are near in each of the groups. There is no single pair behind
        them, which would have no negatives.
        """
        data = self.source.train
        alone = round(self.source.checked(size) * self.alone(number))
        alone = size if size - alone == 1 else alone
        among = self.source.drawn(number, 2 * alone)
        pairs = self.sampler.draw(number, size - alone)
        rendered = isinstance(self.sampler, RenderedSampler)
        share = distributed.share(2 * size)
        indices = np.concatenate([among, pairs.anchor, *([] if rendered else [pairs.positive])])[share]
        images = data.images(indices)
        if rendered:
            mine = slice(*(max(0, at - 2 * alone - len(pairs)) for at in (share.start, share.stop)))
            images = np.concatenate([images, data.positives(pairs.anchor[mine])])
        weight, comparisons = 2 * alone / (2 * size), list[Comparison]()
        if len(pairs):
            anchor, positive = slice(2 * alone, alone + size), slice(alone + size, 2 * size)
            comparisons.append(PositivePairs(anchor, positive, both=self.both, weight=1 - weight))
        if alone:
            comparisons += self.near(number, data.latents[among], weight)
        return Batch(as_tensor(images), tuple(comparisons))

    def near(self, number: int, factors: np.ndarray, weight: float) -> list[Comparison]:  # type: ignore[type-arg]
        """The pairs among images of these factors (n, d) that are near in the factors of each group."""
        generator = generator_of(self.source.seed, Stream.GROUPS, number)
        comparisons, start = list[Comparison](), 0
        for place, group in enumerate(self.first):
            columns = [self.source.train.names.index(name) for name in group]
            points = torch.from_numpy(factors[:, columns])
            pairs = distributions.pairs_among(self.conditional, Box(len(group)), points, generator=generator)
            outputs = slice(start, start + len(group))
            counts = weight * (OTHERS if place else 1.0)
            comparisons.append(PairsAmong(slice(len(factors)), pairs, outputs, counts))
            start = outputs.stop
        return comparisons


class Rendered(Around):
    """Anchors and the positives that were rendered for them."""

    how = "rendered"


class Nearest(Around):
    """Anchors and the images nearest to draws of the conditional around them."""

    how = "nearest"


class Augmented:
    """Two augmentations of one image are a positive pair."""

    def __init__(self, source: Images, *, both: bool = False) -> None:
        self.source, self.both = source, both

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number`, of images that are not augmented yet."""
        indices = self.source.drawn(number, self.source.checked(size))
        share = distributed.share(2 * size)
        images = (
            self.source.images(indices[np.arange(share.start, share.stop) % size])
            if distributed.world() > 1
            else (self.source.images(indices).repeat(2, 1, 1, 1))
        )
        pairs = PositivePairs(slice(size), slice(size, 2 * size), both=self.both)
        return Batch(images, (pairs,), number=number)

    def prepare(self, batch: Batch) -> Batch:
        """The batch on its device with its images augmented, by draws that belong to it and to this process."""
        images = batch.observations
        numbers = Stream.AUGMENTATIONS, batch.number, distributed.rank()
        generator = generator_of(self.source.seed, *numbers, device=images.device)
        return replace(batch, observations=255 * Augmentations().draw(images.float() / 255, generator=generator))


def check_groups(groups: object, names: tuple[str, ...]) -> None:
    """Refuse what are no groups of factors, each in one of them at most."""
    if not (isinstance(groups, tuple) and all(isinstance(group, tuple) and group for group in groups)):
        raise Impossible(f"first {groups!r}: give groups of factors, a list of lists")
    named = [name for group in groups for name in group]
    if not set(named) <= set(names) or len(set(named)) < len(named):
        raise Impossible(f"first {groups!r}: give each factor once at most, of {', '.join(names)}")
