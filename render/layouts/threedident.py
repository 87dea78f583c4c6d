"""The layout of the published 3DIdent: raw_latents.npy, latents.npy, and images/000000.png, ... in a folder a split."""

from __future__ import annotations

import math
import re
from pathlib import Path

MEANING = "the published 3DIdent: raw_latents.npy, latents.npy, images/000000.png"
PATTERN = re.compile(r"(?P<root>(.*/)?)(raw_latents\.npy|images/(?P<image>\d+)\.png)")


def image(folder: Path, index: int, n: int) -> Path:
    """Where image `index` of n is: as many digits as the largest index has."""
    return folder / "images" / f"{index:0{max(1, math.ceil(math.log10(n)))}d}.png"


def latents(folder: Path) -> tuple[Path, Path]:
    """Where the raw latents and the scene values are."""
    return folder / "raw_latents.npy", folder / "latents.npy"
