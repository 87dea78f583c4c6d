"""The layout of Causal3DIdent: raw_latents_0.npy, latents_0.npy, images_0/00000.png, ... one set an object class.

Our scene has one object, the teapot: it is written as class 0.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

MEANING = "Causal3DIdent: raw_latents_0.npy, latents_0.npy, images_0/00000.png, a set a class"
PATTERN = re.compile(
    r"(?P<root>(.*/)?)(raw_latents_(?P<part_of_latents>\d)\.npy|images_(?P<part_of_image>\d)/(?P<image>\d+)\.png)"
)


def image(folder: Path, index: int, n: int) -> Path:
    """Where image `index` of n is: as many digits as the largest index has."""
    return folder / "images_0" / f"{index:0{max(1, math.ceil(math.log10(n)))}d}.png"


def latents(folder: Path) -> tuple[Path, Path]:
    """Where the raw latents and the scene values are."""
    return folder / "raw_latents_0.npy", folder / "latents_0.npy"
