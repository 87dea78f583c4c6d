"""dSprites, drawn by rule: the images of all classes of five factors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ident.benchmark.sources.by_rule import DrawnImages
from ident.benchmark.sources.source import check_size
from ident.render.aliases import Float32s, Int64s
from ident.render.worlds import dsprites

SIZES = range(8, 1025)


class DSprites(DrawnImages):
    """All classes are as likely. A test may draw the images smaller than the published ones."""

    factors = dsprites.FACTORS
    sizes: ClassVar[tuple[int, ...]] = dsprites.SIZES
    """Classes of each factor."""
    fixed: ClassVar[tuple[int, ...]] = (0,)
    """Factors without an order, which no small step changes: the shape."""

    def __init__(self, size: int = dsprites.SIDE, *, seed: int) -> None:
        check_size(size, SIZES, "dsprites")
        self.shape = (1, size, size)
        super().__init__(seed=seed)

    def draw(self, n: int, rng: np.random.Generator) -> Int64s:
        """The classes (n, 5) of n images."""
        return dsprites.classes_of(rng.integers(dsprites.COUNT, size=n))

    def factors_of(self, drawn: Int64s) -> Float32s:
        """The classes as numbers."""
        return drawn.astype(np.float32)

    def images(self, drawn: Int64s) -> Tensor:
        """White on black."""
        return torch.from_numpy(dsprites.draw(drawn, self.shape[1]))[:, None]
