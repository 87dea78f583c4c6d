"""The layout of the published 3DIdent: raw_latents.npy, latents.npy, and images/000000.png, ... in a folder a split."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ident.render.exchange.layouts.trees import Tree


@dataclass(frozen=True)
class ThreeDIdent(Tree):
    """One folder of images."""

    meaning = "raw_latents.npy, latents.npy, images/000000.png"
    pattern = re.compile(r"(?P<root>(.*/)?)(raw_latents\.npy|images/(?P<image>\d{1,9})\.png)")
    last = ("raw_latents.npy", "latents.npy")
