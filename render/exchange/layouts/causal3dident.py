"""The layout of Causal3DIdent: raw_latents_0.npy, latents_0.npy, images_0/00000.png, ... one part an object class.

The class of an image is its part, and becomes a factor of its own behind the ten latents. Images of a dataset without
classes show the teapot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO

import numpy as np

from ident.render.aliases import Float32s, Int64s
from ident.render.errors import Failed
from ident.render.exchange.layouts.files import read_latents
from ident.render.exchange.layouts.trees import Tree
from ident.render.store.files import npy
from ident.render.worlds import Category, Factor, World, WorldFacts
from ident.render.worlds.threedident import FACTORS, WORLD

CLASSES = ("teapot", "hare", "dragon", "cow", "armadillo", "horse", "head")
CLASS = Factor("class", Category(CLASSES), meaning="which object there is")
FACTS = World("causal3dident", (*FACTORS, CLASS)).facts


@dataclass(frozen=True)
class Causal3DIdent(Tree):
    """A folder of images an object class."""

    world: WorldFacts = FACTS

    meaning = "raw_latents_0.npy, latents_0.npy, images_0/00000.png"
    pattern = re.compile(
        r"(?P<root>(.*/)?)(raw_latents_(?P<part_of_latents>\d)\.npy|images_(?P<part_of_image>\d)/(?P<image>\d{1,9})\.png)"
    )
    contiguous = False  # a small set may lack a class

    @property
    def last(self) -> tuple[str, ...]:  # type: ignore[override]
        """The latents of all classes."""
        return tuple(name for part in range(len(CLASSES)) for name in self.latents_of(part))

    @property
    def column(self) -> int | None:
        """Which of the factors the class is, if one is."""
        return next((i for i, factor in enumerate(self.factors) if factor.kind == CLASS.kind), None)

    def suffix(self, part: int) -> str:
        """The number of the class."""
        return f"_{part}"

    def parts(self, raw: Float32s) -> Int64s:
        """The class of each image."""
        return super().parts(raw) if self.column is None else raw[:, self.column].astype(np.int64)

    def arrays(self, raw: Float32s) -> tuple[bytes, bytes]:
        """The files of a class's raw latents (n, 10), and of its scene values: which class it is, their names say."""
        if self.column is None:
            return super().arrays(raw)
        return npy(np.delete(raw, self.column, axis=1)), npy(np.delete(self.scene_values(raw), self.column, axis=1))

    def part_of(self, groups: dict[str, str | None], what: str) -> int:
        """The class of a file, which its name says."""
        part = int(groups["part_of_latents"] or groups["part_of_image"] or 0)
        if part >= len(CLASSES):
            raise Failed(f"{what}: class {part}, where there are 0 to {len(CLASSES) - 1}: {', '.join(CLASSES)}")
        return part

    def latents_in(self, part: int, file: IO[bytes], what: str) -> Float32s:
        """The raw latents (n, 11) of a class, of its file (n, 10)."""
        raw = read_latents(file, what, WORLD.factors)
        return np.column_stack([raw, np.full(len(raw), part, np.float32)])
