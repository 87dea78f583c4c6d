"""How the pairs of a training get from wide positives to the row's own, among ever closer negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ident.benchmark.latents.spaces import Box
from ident.benchmark.training.schedule import is_number
from ident.render.errors import Impossible


@dataclass(frozen=True)
class Curriculum:
    """Regions of a box and widths of positives, over a training. This one leaves all as it is."""

    spread: float = 0.0
    """How far positives are from their anchors at the start in each latent, in its standard deviations, or further."""
    region: float = 1.0
    """The share of the sides of a box that batches shrink to. They stay there."""
    parts: int = 1
    """Regions that a batch has, each with negatives of its own."""
    lasts: float = 0.5
    """The share of a training until positives are the row's own, and regions as small as they get."""

    def __post_init__(self) -> None:
        if not (is_number(self.region) and 0 < self.region <= 1):
            raise Impossible(f"region {self.region!r}: give a share of the sides, above 0 and up to 1")
        if type(self.parts) is not int or self.parts < 1:
            raise Impossible(f"parts {self.parts!r}: give a whole number from 1 on")
        if not (is_number(self.spread) and 0 <= self.spread <= 1):
            raise Impossible(f"spread {self.spread!r}: give a number from 0 to 1")
        check_lasts(self.lasts)

    def share(self, progress: float) -> float:
        """The share of the box's sides that a region has, at a share of the training."""
        return float(self.region ** self.done(progress))

    def walk(self, progress: float, moved: float) -> int:
        """How many steps of the conditional, which moves latents so far, lead from an anchor to its positive."""
        longest: float = max(1.0, self.spread / moved) ** 2
        steps: float = longest ** (1 - self.done(progress))
        return round(steps)

    def done(self, progress: float) -> float:
        """The share of the curriculum that is done at a share of the training."""
        return min(1.0, progress / self.lasts)


def check_lasts(lasts: Any) -> None:
    """Refuse what is no share of a training."""
    if not (is_number(lasts) and 0 < lasts <= 1):
        raise Impossible(f"lasts {lasts!r}: give a share of the training, above 0 and up to 1")


def moved(anchor: Tensor, positive: Tensor) -> float:
    """How far positives (n, d) are from their anchors (n, d), in standard deviations: the latent that moves least."""
    return float(((positive - anchor).square().mean(0) / anchor.var(0)).sqrt().min())


def part(box: Box, share: float) -> Box:
    """A box with a share of the sides of another, at its low corner."""
    return Box(box.dim, box.low, box.low + share * (box.high - box.low))


def corners(box: Box, share: float, count: int, generator: torch.Generator) -> Tensor:
    """Where parts of a box are (count, d), from its low corner."""
    drawn = torch.rand((count, box.dim), generator=generator, device=generator.device)
    # As often beyond the sides as would be, they stand at them.
    return (box.high - box.low) * (drawn - share / 2).clamp(0, 1 - share)
