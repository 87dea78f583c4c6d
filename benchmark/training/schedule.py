"""How long and by what a model is trained: a specification, which needs no PyTorch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from ident.render.errors import Impossible

OPTIMIZERS = ("adam", "muon", "lars")
DECAYS = ("linear", "cosine")
PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Training:
    """How long and by what a model is trained.

    The learning rate rises over `warm_up` steps, stays to the share `constant` of all steps, then falls linearly to 0;
    or, with `cosine`, it falls from the warm-up on along half a wave. `muon` moves matrices and kernels of convolutions
    by Muon, and all else by Adam; `lars` moves them by LARS with this `weight_decay`, and all else by momentum alone.
    """

    steps: int
    batch_size: int
    learning_rate: float
    optimizer: str = "adam"
    warm_up: int = 0
    constant: float = 1.0
    precision: str = "float32"
    looks: int = 20
    decay: str = "linear"
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name, allowed in (("optimizer", OPTIMIZERS), ("precision", PRECISIONS), ("decay", DECAYS)):
            if getattr(self, name) not in allowed:
                raise Impossible(f"{name} {getattr(self, name)!r}: choose from {', '.join(allowed)}")
        for name, least in (("steps", 1), ("batch_size", 2), ("warm_up", 0), ("looks", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise Impossible(f"{name} {getattr(self, name)!r}: give a whole number from {least} on")
        if not (is_number(self.learning_rate) and 0 < self.learning_rate < math.inf):
            raise Impossible(f"learning_rate {self.learning_rate!r}: give a number above 0")
        if not (is_number(self.constant) and 0 <= self.constant <= 1):
            raise Impossible(f"constant {self.constant!r}: give a share of the steps, from 0 to 1")
        if self.decay != "linear" and self.constant != 1:
            raise Impossible(f"constant {self.constant!r}: is of a linear decay, this is {self.decay}; leave it out")
        if not (is_number(self.weight_decay) and 0 <= self.weight_decay < math.inf):
            raise Impossible(f"weight_decay {self.weight_decay!r}: give a number from 0 on")
        if self.weight_decay and self.optimizer != "lars":
            raise Impossible(f"weight_decay {self.weight_decay!r}: is of lars, this is {self.optimizer}; leave it out")

    def described(self) -> dict[str, Any]:
        """All of it as data; what came later only where it is used, so that older results stay those of their runs."""
        later = {item.name: item.default for item in fields(self) if item.name in ("decay", "weight_decay")}
        return {name: value for name, value in asdict(self).items() if later.get(name) != value}

    def rate(self, step: int) -> float:
        """The share of the learning rate that step number `step` takes."""
        rising = (step + 1) / self.warm_up if step < self.warm_up else 1.0
        if self.decay == "cosine":
            far = max(0, step - self.warm_up) / max(1, self.steps - self.warm_up)
            return min(rising, (1 + math.cos(math.pi * far)) / 2)
        falling = (self.steps - step) / max(1.0, self.steps * (1 - self.constant))
        return min(1.0, rising, falling)


def is_number(value: object) -> bool:
    """Whether a value is a number; True is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
