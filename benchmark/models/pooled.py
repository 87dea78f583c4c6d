"""ResNets whose output is what their last stage gives, pooled: what a projector or a hidden layer is put behind."""

from __future__ import annotations

from typing import Any

from torch import nn

from ident.render.errors import Impossible

STAGES, BLOCKS = 4, 2
"""Stages of a ResNet18 and blocks of each: each stage but the first halves the sides and doubles the channels."""


def resnet18_small(dim: int, channels: int = 3) -> nn.Sequential:
    """A ResNet18 of images of about 32 x 32 with `dim` channels at its end; the usual one has 512.

    It begins with a 3 x 3 convolution without a stride, and no pooling (Chen et al., 2020, appendix B.9).
    """
    times = 2 ** (STAGES - 1)
    if dim % times:
        raise Impossible(
            f"encoder resnet18-small: of {dim} outputs; give a multiple of {times}, as its stages double in width, "
            "and a projector behind it, like [512, 512, 256]"
        )
    return residual(nn.Conv2d(channels, dim // times, 3, padding=1, bias=False))


def residual(stem: nn.Conv2d) -> nn.Sequential:
    """A convolution, the stages of a ResNet18, of which the first has its channels, and pooling: (n, 8 x channels)."""
    from torchvision.models.resnet import BasicBlock  # here: it takes a second, and mixed latents need none

    first = before = stem.out_channels
    layers: list[nn.Module] = [stem, nn.BatchNorm2d(first), nn.ReLU()]
    for stage in range(STAGES):
        width = first * 2**stage
        for block in range(BLOCKS):
            stride = 2 if stage and not block else 1
            shortcut = (
                nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
                if stride > 1
                else None
            )
            layers.append(BasicBlock(before, width, stride, shortcut))
            before = width
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def pooled(name: str, dim: int) -> nn.Module:
    """A ResNet of torchvision without the layer behind its pooling."""
    from torchvision import models

    network: nn.Module = models.get_model(name)
    last: Any = network.fc
    outputs: int = last.in_features
    if dim != outputs:
        raise Impossible(f"encoder {name}-pooled: of {dim} outputs; it has {outputs}, give a projector that begins so")
    network.fc = nn.Identity()
    return network


def resnet18_pooled(dim: int) -> nn.Module:
    """A ResNet18 of 512 outputs."""
    return pooled("resnet18", dim)


def resnet50_pooled(dim: int) -> nn.Module:
    """A ResNet50 of 2048 outputs."""
    return pooled("resnet50", dim)
