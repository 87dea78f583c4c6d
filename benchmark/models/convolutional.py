"""The convolutional encoder of 64 x 64 images that disentanglement is measured with, and its mirror image."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from ident.render.errors import Impossible

SIDE = 64
WIDTHS = (32, 32, 64, 64)
"""Channels behind each convolution, which halves the sides."""
HIDDEN = 256
CHANNELS = (1, 3)
KERNEL, STRIDE, PADDING = 4, 2, 1


def conv(dim: int, shape: tuple[int, ...] = (1, SIDE, SIDE)) -> nn.Sequential:
    """From images (n, channels, 64, 64) to (n, dim) (Klindt et al., 2021)."""
    channels, *sides = shape
    if sides != [SIDE, SIDE]:
        raise Impossible(f"encoder conv: takes images of {SIDE} x {SIDE}, these have {' x '.join(map(str, sides))}")
    layers = list[nn.Module]()
    for before, after in pairwise((channels, *WIDTHS)):
        layers += [nn.Conv2d(before, after, KERNEL, STRIDE, PADDING), nn.ReLU()]
    layers += [nn.Conv2d(WIDTHS[-1], HIDDEN, KERNEL), nn.ReLU(), nn.Flatten(), nn.Linear(HIDDEN, dim)]
    return started(nn.Sequential(*layers))


def decoder(dim: int, shape: tuple[int, ...] | None, what: str) -> nn.Sequential:
    """From latents (n, dim) to logits of images of a shape (channels, 64, 64), for an objective of this name."""
    if shape is None:
        raise Impossible(f"objective {what}: decodes images, and this row's source has none; give another source")
    if len(shape) != 3 or shape[0] not in CHANNELS or shape[1:] != (SIDE, SIDE):
        known = " or ".join(["1 x 28 x 28", *(f"{channels} x {SIDE} x {SIDE}" for channels in CHANNELS)])
        raise Impossible(
            f"objective {what}: has no decoder of images {' x '.join(map(str, shape))}; give a source of {known}"
        )
    layers: list[nn.Module] = [
        nn.Linear(dim, HIDDEN),
        nn.ReLU(),
        nn.Unflatten(1, (HIDDEN, 1, 1)),
        nn.ConvTranspose2d(HIDDEN, WIDTHS[-1], KERNEL),
    ]
    for before, after in pairwise((*reversed(WIDTHS), shape[0])):
        layers += [nn.ReLU(), nn.ConvTranspose2d(before, after, KERNEL, STRIDE, PADDING)]
    return started(nn.Sequential(*layers))


def started(network: nn.Sequential) -> nn.Sequential:
    """A network with weights by He et al. (2015) and no biases at the start, but for transposed convolutions."""
    for module in network:
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            assert isinstance(module.bias, Tensor)
            nn.init.zeros_(module.bias)
    return network
