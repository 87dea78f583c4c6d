"""The layout of Causal3DIdent: raw_latents_0.npy, latents_0.npy, images_0/00000.png, ... one set an object class.

Our scene has one object, the teapot: it is written as class 0.
"""

from __future__ import annotations

import re

from ident.render.exchange.layouts.trees import Tree

LAYOUT = Tree(
    "raw_latents_0.npy, latents_0.npy, images_0/00000.png",
    re.compile(
        r"(?P<root>(.*/)?)(raw_latents_(?P<part_of_latents>\d)\.npy|images_(?P<part_of_image>\d)/(?P<image>\d{1,9})\.png)"
    ),
    images="images_0",
    suffix="_0",
)
