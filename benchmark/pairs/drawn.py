"""Pairs of latents that are drawn when they are asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ident.benchmark.latents import distributions
from ident.benchmark.latents.distributions import SCALE, Distribution, Uniform
from ident.benchmark.latents.spaces import Box, Space
from ident.benchmark.pairs import curriculum
from ident.benchmark.pairs.bank import Bank, of_options
from ident.benchmark.pairs.batch import Batch, Comparison, Pairs, PairsAmong, PositivePairs
from ident.benchmark.pairs.curriculum import Curriculum
from ident.benchmark.sources import mixed
from ident.benchmark.training.schedule import is_number
from ident.benchmark.training.seeds import Stream, in_turn
from ident.render.errors import Impossible

POOL = 2**15
"""Anchors that the groups of a training are chosen among."""


@runtime_checkable
class Drawable(Protocol):
    """A source whose latents are drawn, ours or a user's."""

    seed: int
    ahead: int
    space: Space
    marginal: Distribution
    encoded: bool

    def generator(self, *number: int) -> torch.Generator:
        """Random numbers of a stream."""

    def draw(self, n: int, generator: torch.Generator, space: Space | None = None) -> Tensor:
        """Latents (n, dim) of the marginal, in another space if one is given."""

    def observe(self, z: Tensor) -> Tensor:
        """Observations of latents (n, dim)."""


class Drawn(Pairs):
    """Anchors of the marginal, and around each a positive of each conditional: an ensemble has several.

    `hard` is a conditional of hard negatives, `hard_count` how many each anchor gets, `hard_from` the share of the
    training after which it gets them; with `only_hard` they are all its negatives. With `both` each positive is an
    anchor in its turn, and all other anchors and positives are negatives of either. Regions are for a box whose
    marginal is uniform, and so the same in each of its parts; latents that nothing mixes need no curriculum.

    With `groups` of so many pairs, anchors are of a pool that is drawn once, their positives are drawn each time, and
    batches are of anchors that the objective finds alike, each group compared within itself: see `bank`. They give way
    to plain batches over the share `fade` of the training. `dim` is that of the representations.
    """

    def __init__(
        self,
        source: Drawable,
        *conditionals: str,
        hard: str = "",
        hard_count: int = 0,
        hard_from: float = 0.0,
        only_hard: bool = False,
        both: bool = False,
        steps: int = 1,
        batch_size: int = 0,
        spread: float = 0.0,
        region: float = 1.0,
        parts: int = 1,
        lasts: float = 0.5,
        scale: float = SCALE,
        groups: int = 0,
        fade: tuple[float, float] = (0.5, 0.95),
        dim: int = 0,
    ) -> None:
        check_drawn(source, "drawn")
        if not conditionals:
            raise Impossible("drawn: give a conditional, like drawn(laplace(0.05))")
        if bool(hard) != (type(hard_count) is int and hard_count > 0):
            raise Impossible(f"hard {hard!r} and hard_count {hard_count!r}: give both, or neither")
        if not hard and (only_hard or hard_from):
            raise Impossible("only_hard and hard_from: are for hard negatives; give hard and hard_count, too")
        if not (is_number(hard_from) and 0 <= hard_from < 1):
            raise Impossible(f"hard_from {hard_from!r}: give a share of the training, from 0 to below 1")
        if both and hard:
            raise Impossible("both: has no hard negatives of positives; leave out hard, or both")
        if type(steps) is not int or steps < 1:
            raise Impossible(f"drawn: steps {steps!r}; give a whole number from 1 on, or leave them out")
        self.source, self.steps, self.hard_count = source, steps, hard_count
        self.hard_from, self.only_hard, self.both = hard_from, bool(only_hard), bool(both)
        self.conditionals = [distributions.parse(text, scale) for text in conditionals]
        self.hard = distributions.parse(hard, scale) if hard else None
        self.curriculum = Curriculum(spread, region, parts, lasts)
        if not source.encoded:
            self.curriculum = Curriculum()
        elif not (isinstance(source.space, Box) and isinstance(source.marginal, Uniform)):
            self.curriculum = Curriculum(spread, lasts=lasts)
        if 2 * self.curriculum.parts > batch_size > 0:
            raise Impossible(f"parts {self.curriculum.parts} of a batch_size of {batch_size}: each needs two")
        if source.encoded and (specification := of_options(groups, fade)):
            if hard or self.curriculum.region < 1 or self.curriculum.parts > 1:
                raise Impossible("groups: have no regions, parts or hard negatives; leave out those, or groups")
            sizes = {"images": POOL, "dim": dim, "batch_size": batch_size, "steps": steps}
            self.bank = Bank(specification, **sizes, ahead=source.ahead, seed=source.seed)

    @cached_property
    def pool(self) -> Tensor:
        """The latents (POOL, d) of the anchors that groups are chosen among."""
        return self.source.draw(POOL, self.source.generator(Stream.GROUPS))

    @cached_property
    def moved(self) -> float:
        """How far positives are from their anchors."""
        generator = self.source.generator(Stream.MEASURES)
        z = self.source.draw(mixed.MEASURED, generator)
        return curriculum.moved(z, self.conditionals[0].draw(self.source.space, z, generator=generator))

    def next_of_pool(self, number: int, size: int) -> Tensor:
        """The anchors (size,) of batch `number` that is not of groups: all come once before any comes again."""
        return torch.from_numpy(in_turn(POOL, number, size, self.source.seed, Stream.GROUPS, POOL))

    def batch(self, number: int, size: int, anchors: Tensor | None = None) -> Batch:
        """Batch `number`: observations of anchors, of the positives of each conditional, of hard negatives.

        The anchors are these of the pool, group behind group, if some were chosen.
        """
        generator = self.source.generator(Stream.BATCHES, number)
        kept, anchor = anchors, None
        with torch.no_grad():
            if self.bank is not None:
                each = size if anchors is None else self.bank.groups.size
                if kept is None:
                    kept = self.next_of_pool(number, size)
                anchor = self.pool[kept].unflatten(0, (-1, each))
            z = self.latents(number / self.steps, size, generator, anchor)
            count, parts, each, dim = z.shape
            points = z.reshape(-1, dim)
            if hard := self.hard is not None and number >= self.hard_from * self.steps:
                assert self.hard is not None
                around = z[0].flatten(0, 1).repeat_interleave(self.hard_count, 0)
                points = torch.cat([points, self.hard.draw(self.source.space, around, generator=generator)])
        comparisons = list[Comparison]()
        for conditional in range(count - 1):
            for part in range(parts):
                anchor, positive = part * each, ((1 + conditional) * parts + part) * each
                first = count * parts * each + anchor * self.hard_count
                comparisons.append(
                    PositivePairs(
                        slice(anchor, anchor + each),
                        slice(positive, positive + each),
                        conditional,
                        slice(first, first + each * self.hard_count) if hard else None,
                        only_hard=hard and self.only_hard,
                        both=self.both,
                        weight=1 / parts,
                    )
                )
        return Batch(self.source.observe(points), tuple(comparisons), images=kept)

    def latents(self, progress: float, size: int, generator: torch.Generator, anchor: Tensor | None = None) -> Tensor:
        """Anchors and a positive of each conditional (1 + conditionals, parts, size of a part, d).

        The anchors are these (parts, size of a part, d), if some are given.
        """
        plan, space, corners = self.curriculum, self.source.space, torch.zeros(1, device=generator.device)
        share, walk = plan.share(progress), 1
        if plan.spread and progress < plan.lasts:
            walk = plan.walk(progress, self.moved)
        if share < 1:
            assert isinstance(space, Box)
            corners = curriculum.corners(space, share, plan.parts, generator)[:, None]
            space = curriculum.part(space, share)
        if anchor is None:
            anchor = self.source.draw(size - size % plan.parts, generator, space).unflatten(0, (plan.parts, -1))
        points = [anchor]
        for conditional in self.conditionals:
            positive = anchor.flatten(0, 1)
            for _ in range(walk):
                positive = conditional.draw(space, positive, generator=generator)
            points.append(positive.view_as(anchor))
        latents: Tensor = torch.stack(points) + corners
        return latents


def check_drawn(source: object, name: str) -> None:
    """Refuse a source whose latents are not drawn."""
    if not isinstance(source, Drawable):
        raise Impossible(f"{name}: draws latents; give a row whose source does so, like mixed(sphere, uniform)")


class Among(Pairs):
    """All pairs of a batch that rejection sampling by the conditional accepts, of a uniform marginal."""

    def __init__(self, source: Drawable, conditional: str, *, scale: float = SCALE) -> None:
        check_drawn(source, "among")
        if not isinstance(source.marginal, Uniform):
            raise Impossible("among: accepts pairs as the conditional has them of a uniform marginal alone; take drawn")
        self.source, self.conditional = source, distributions.parse(conditional, scale)

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number`."""
        generator = self.source.generator(Stream.BATCHES, number)
        with torch.no_grad():
            z = self.source.draw(size, generator)
            pairs = distributions.pairs_among(self.conditional, self.source.space, z, generator=generator)
        return Batch(self.source.observe(z), (PairsAmong(slice(None), pairs),))
