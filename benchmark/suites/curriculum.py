"""How the pairs of a training get from easy ones to the row's own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ident.benchmark.spaces import Box
from ident.render.errors import Impossible

LASTS = 0.5
"""The share of a training that a curriculum takes; in the rest, pairs are the row's own."""


@dataclass(frozen=True)
class Curriculum:
    """Wide positives first, then narrow ones among close negatives. This one leaves all as it is."""

    side: float = 1.0
    """Of the model's box at the start, from which it is learned."""
    spread: float = 0.0
    """How far positives are from their anchors at the start, in standard deviations of the latents, or further."""
    region: float = 1.0
    """The share of the sides of a box that batches shrink to. They stay there."""
    parts: int = 1
    """Regions that a batch has, each with negatives of its own."""

    def __post_init__(self) -> None:
        if not 0 < self.region <= 1:
            raise Impossible(f"region {self.region!r}: give a share of the sides, above 0 and up to 1")
        if not (isinstance(self.parts, int) and self.parts >= 1):
            raise Impossible(f"parts {self.parts!r}: give a whole number from 1 on")
        if not 0 < self.side < float("inf"):
            raise Impossible(f"side {self.side!r}: give a number above 0")
        if not 0 <= self.spread <= 1:
            raise Impossible(f"spread {self.spread!r}: give a number from 0 to 1")

    def share(self, progress: float) -> float:
        """Of the box's sides, at a share of the training."""
        return float(self.region ** done(progress))

    def walk(self, progress: float, moved: float) -> int:
        """How many steps of the conditional, which moves latents so far, lead from an anchor to its positive."""
        longest: float = max(1.0, self.spread / moved) ** 2
        steps: float = longest ** (1 - done(progress))
        return round(steps)


def done(progress: float) -> float:
    """The share of a curriculum that is done at a share of the training."""
    return min(1.0, progress / LASTS)


def moved(anchor: Tensor, positive: Tensor) -> float:
    """How far positives (n, d) are from their anchors (n, d), in standard deviations of these."""
    return float((positive - anchor).square().mean().sqrt() / anchor.var(0).mean().sqrt())


def part(box: Box, share: float) -> Box:
    """A box with a share of the sides of another, at its low corner."""
    return Box(box.dim, box.low, box.low + share * (box.high - box.low))


def corners(box: Box, share: float, count: int, generator: torch.Generator) -> Tensor:
    """Where parts of a box are (count, d), from its low corner."""
    drawn = torch.rand((count, box.dim), generator=generator, device=generator.device)
    # As often beyond the sides as would be, they stand at them.
    return (box.high - box.low) * (drawn - share / 2).clamp(0, 1 - share)
