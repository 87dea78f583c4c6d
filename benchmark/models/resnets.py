"""ResNets: with a hidden layer behind them, as for 3DIdent, or without one, where a projector comes behind."""

from __future__ import annotations

from typing import Any

from torch import nn

from ident.render.errors import Impossible

NARROW = 32
"""Channels of the narrow ResNet's first stage; the usual one has 64."""
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


def check_colours(name: str, channels: int) -> None:
    """Refuse images that torchvision's ResNets do not take."""
    if channels != 3:
        raise Impossible(f"encoder {name}: takes images of 3 channels, these have {channels}; give another encoder")


def pooled(name: str, dim: int, channels: int) -> nn.Module:
    """A ResNet of torchvision without the layer behind its pooling."""
    from torchvision import models

    check_colours(f"{name}-pooled", channels)
    network: nn.Module = models.get_model(name)
    last: Any = network.fc
    outputs: int = last.in_features
    if dim != outputs:
        raise Impossible(f"encoder {name}-pooled: of {dim} outputs; it has {outputs}, give a projector that begins so")
    network.fc = nn.Identity()
    return network


def resnet18_pooled(dim: int, channels: int = 3) -> nn.Module:
    """A ResNet18 of 512 outputs."""
    return pooled("resnet18", dim, channels)


def resnet50_pooled(dim: int, channels: int = 3) -> nn.Module:
    """A ResNet50 of 2048 outputs."""
    return pooled("resnet50", dim, channels)


def resnet(name: str, dim: int, channels: int) -> nn.Sequential:
    """A ResNet of torchvision and a hidden layer, from images (n, 3, H, W) to (n, dim) (Zimmermann et al., A.3)."""
    from torchvision import models  # here: it takes a second, and mixed latents need none

    check_colours(name, channels)
    hidden = 10 * dim
    return nn.Sequential(models.get_model(name, num_classes=hidden), nn.LeakyReLU(), nn.Linear(hidden, dim))


def resnet18_narrow(dim: int, channels: int = 3) -> nn.Sequential:
    """A ResNet18 of half the channels without pooling behind its stem, and the same hidden layer.

    Stages see twice as many pixels a side for half the work: small images show what is turned how.
    """
    stem, hidden = nn.Conv2d(channels, NARROW, 7, stride=2, padding=3, bias=False), 10 * dim
    return nn.Sequential(residual(stem), nn.Linear(8 * NARROW, hidden), nn.LeakyReLU(), nn.Linear(hidden, dim))


def resnet18(dim: int, channels: int = 3) -> nn.Sequential:
    """A ResNet18."""
    return resnet("resnet18", dim, channels)


def resnet50(dim: int, channels: int = 3) -> nn.Sequential:
    """A ResNet50."""
    return resnet("resnet50", dim, channels)


def resnet101(dim: int, channels: int = 3) -> nn.Sequential:
    """A ResNet101."""
    return resnet("resnet101", dim, channels)
