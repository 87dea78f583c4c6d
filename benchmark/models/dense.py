"""Fully connected networks: of mixed latents, and of small images, from pixels to latents and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from torch import nn

from ident.render.errors import Impossible

HIDDEN = (10, 50, 50, 50, 50, 10)
"""How many times as wide as the latents the hidden layers are (Zimmermann et al., 2021, A.3)."""
WIDTH = 512
"""Of the hidden layers that see or give images."""
LARGEST = 64 * 64 * 3
"""Numbers of an image: the weights of a layer are as many times WIDTH."""


def mlp(dim: int) -> nn.Sequential:
    """From observations (n, dim) to (n, dim)."""
    return nn.Sequential(*layers(dim, *(times * dim for times in HIDDEN), dim))


def dense(dim: int, shape: tuple[int, ...]) -> nn.Sequential:
    """From images (n, *shape) to (n, dim) (Rusak et al., 2024, F)."""
    size = size_of(shape, "encoder dense")
    return nn.Sequential(nn.Flatten(), *layers(size, WIDTH, WIDTH, dim))


def decoder(dim: int, shape: tuple[int, ...], what: str) -> nn.Sequential:
    """From latents (n, dim) to logits of images (n, *shape), for something of this name."""
    size = size_of(shape, what)
    return nn.Sequential(*layers(dim, WIDTH, WIDTH, size), nn.Unflatten(1, shape))


def size_of(shape: tuple[int, ...], what: str) -> int:
    """How many numbers an image has, if these are not too many."""
    size = math.prod(shape)
    if not 1 <= size <= LARGEST:
        raise Impossible(f"{what}: images {' x '.join(map(str, shape))} have {size} numbers; it takes up to {LARGEST}")
    return size


def layers(*widths: int, activation: Callable[[], nn.Module] = nn.LeakyReLU) -> list[nn.Module]:
    """Linear layers between these widths, and an activation between each two of them."""
    modules = list[nn.Module]()
    for before, after in pairwise(widths):
        modules += [nn.Linear(before, after), activation()]
    return modules[:-1]
