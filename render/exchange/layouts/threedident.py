"""The layout of the published 3DIdent: raw_latents.npy, latents.npy, and images/000000.png, ... in a folder a split."""

from __future__ import annotations

import re

from ident.render.exchange.layouts.trees import Tree

LAYOUT = Tree(
    "raw_latents.npy, latents.npy, images/000000.png",
    re.compile(r"(?P<root>(.*/)?)(raw_latents\.npy|images/(?P<image>\d{1,9})\.png)"),
    images="images",
    suffix="",
)
