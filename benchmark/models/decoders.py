"""The decoder that mirrors an encoder of images, by their shape."""

from __future__ import annotations

from torch import nn

from ident.benchmark.models import convolutional, dense

SMALL = (1, 28, 28)
"""Digits, which a fully connected network decodes."""


def decoder(dim: int, shape: tuple[int, ...] | None, what: str) -> nn.Sequential:
    """From latents (n, dim) to logits of images of a shape (channels, height, width), for an objective of this name."""
    if shape == SMALL:
        return dense.decoder(dim, shape, f"objective {what}")
    return convolutional.decoder(dim, shape, what)
