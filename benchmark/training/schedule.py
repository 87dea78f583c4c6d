"""How long and by what a model is trained: a specification, which needs no PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ident.render.errors import Impossible

OPTIMIZERS = ("adam", "muon")
PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Training:
    """How long and by what a model is trained.

    The learning rate rises over `warm_up` steps, stays to the share `constant` of all steps, then falls linearly to 0.
    `muon` moves matrices and the kernels of convolutions by Muon, and all else by Adam.
    """

    steps: int
    batch_size: int
    learning_rate: float
    optimizer: str = "adam"
    warm_up: int = 0
    constant: float = 1.0
    precision: str = "float32"
    looks: int = 20

    def __post_init__(self) -> None:
        for name, allowed in (("optimizer", OPTIMIZERS), ("precision", PRECISIONS)):
            if getattr(self, name) not in allowed:
                raise Impossible(f"{name} {getattr(self, name)!r}: choose from {', '.join(allowed)}")
        for name, least in (("steps", 1), ("batch_size", 2), ("warm_up", 0), ("looks", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise Impossible(f"{name} {getattr(self, name)!r}: give a whole number from {least} on")
        if not (is_number(self.learning_rate) and 0 < self.learning_rate < math.inf):
            raise Impossible(f"learning_rate {self.learning_rate!r}: give a number above 0")
        if not (is_number(self.constant) and 0 <= self.constant <= 1):
            raise Impossible(f"constant {self.constant!r}: give a share of the steps, from 0 to 1")

    def rate(self, step: int) -> float:
        """The share of the learning rate that step number `step` takes."""
        rising = (step + 1) / self.warm_up if step < self.warm_up else 1.0
        falling = (self.steps - step) / max(1.0, self.steps * (1 - self.constant))
        return min(1.0, rising, falling)


def is_number(value: object) -> bool:
    """Whether a value is a number; True is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
