"""Exact positives: each image gets one of its own, drawn from a conditional around it and rendered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.training.seeds import stream
from ident.render.aliases import Float32s
from ident.render.worlds.threedident import WORLD

OWN = 1  # of streams: those of pairs have one number only


@dataclass(frozen=True)
class DrawnPositives:
    """Positives around raw latents in the box: that of image i depends on its latents, the seed and i alone."""

    conditional: str
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditional", str(distributions.typed(self.conditional)))
        self(0, np.zeros((1, len(WORLD.factors)), np.float32))  # which says what is wrong with them

    def __call__(self, start: int, raw: Float32s) -> Float32s:
        """The raw latents (n, d) of the positives of images start to start + n."""
        conditional, box = distributions.typed(self.conditional), spaces.Box(raw.shape[1])
        around = torch.from_numpy(raw.astype(np.float64))
        drawn = [
            conditional.draw(box, row[None], generator=torch.Generator().manual_seed(stream(self.seed, OWN, start + i)))
            for i, row in enumerate(around)
        ]
        return torch.cat(drawn).numpy().astype(np.float32)

    def describe(self) -> dict[str, Any]:
        """All that decides them."""
        return {**distributions.describe(distributions.typed(self.conditional)), "seed": self.seed}
