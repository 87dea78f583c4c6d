"""SimCLR's augmentations of whole batches on their device, each image by draws of its own.

Equal in distribution to torchvision's RandomResizedCrop, RandomHorizontalFlip, ColorJitter, RandomGrayscale and
GaussianBlur, one image at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from ident.render.errors import unknown

TRIES = 10
"""Crops that are tried before the largest one in the middle is taken."""
GREY = (0.2989, 0.587, 0.114)
SIGMA = (0.1, 2.0)
"""The deviation of Gaussian blurs, in pixels."""
REACH = 20
"""The kernel of a blur reaches to either side by the image's side over this, and by one pixel at least."""
COLOURS = ("brightness", "contrast", "saturation", "hue")


@dataclass(frozen=True)
class Augmentations:
    """How strong they are. Crops are shares of the area, and bring images back to their size."""

    crop: bool = True
    area: tuple[float, float] = (0.08, 1.0)
    aspect: tuple[float, float] = (3 / 4, 4 / 3)
    brightness: float = 0.8
    contrast: float = 0.8
    saturation: float = 0.8
    hue: float = 0.2
    jitter: float = 0.8
    """The share of images whose colours are changed."""
    grey: float = 0.2
    """The share of images that lose their colours."""
    flip: float = 0.0
    """The share of images whose left becomes their right."""
    blur: float = 0.0
    """The share of images that are blurred."""

    def draw(
        self, images: Tensor, *, generator: torch.Generator, of: int | None = None, part: slice = slice(None)
    ) -> Tensor:
        """Augmented images (n, C, H, W), of such images from 0 to 1; colours take three channels.

        Where these are a part `of` so many, they become what they would among all of these.
        """
        n, (height, width) = of or len(images), images.shape[-2:]
        if self.crop:
            images = cropped(images, crops(n, height, width, self.area, self.aspect, generator)[part])
        if self.flip:
            images = torch.where(of_share(n, self.flip, generator)[part], images.flip(-1), images)
        if self.jitter:
            images = self.jittered(images, n, part, generator)
        if self.grey:
            images = torch.where(of_share(n, self.grey, generator)[part], greyed(images), images)
        if self.blur:
            blur = of_share(n, self.blur, generator)[part]
            images = torch.where(blur, blurred(images, uniform(n, *SIGMA, generator)[part]), images)
        return images

    def only(self, name: str) -> Augmentations:
        """One of these, for all images, with the others left out; `all` are all of them, each for its share."""
        if name == "all":
            return self
        off: dict[str, Any] = {"crop": False, "flip": 0.0, "jitter": 0.0, "grey": 0.0, "blur": 0.0}
        if name in COLOURS:
            return replace(self, **off | {"jitter": 1.0} | {other: 0.0 for other in COLOURS if other != name})
        return replace(self, **off | {name: type(off[name])(1)})

    def jittered(self, images: Tensor, n: int, part: slice, generator: torch.Generator) -> Tensor:
        """A part of n images with colours changed in four ways, in an order of its own for each image."""
        spreads = (self.brightness, self.contrast, self.saturation)
        factors = [uniform(n, max(0.0, 1 - spread), 1 + spread, generator) for spread in spreads]
        factors.append(uniform(n, -self.hue, self.hue, generator))
        orders = rand(4 * n, generator).reshape(n, 4).argsort(1)
        orders[rand(n, generator) >= self.jitter] = -1
        images = images.clone()
        for place in orders[part].T:
            for kind, change in enumerate((brightened, contrasted, saturated, hue_shifted)):
                which = (place == kind).nonzero()[:, 0]
                images[which] = change(images[which], factors[kind][part][which, None, None, None])
        return images


RECIPES: Mapping[str, Augmentations] = MappingProxyType(
    {
        "zimmermann": Augmentations(),
        "simclr": Augmentations(area=(0.2, 1.0), flip=0.5, blur=0.5),
        "simclr-grey": Augmentations(area=(0.2, 1.0), flip=0.5, blur=0.5, jitter=0.0, grey=0.0),
        "crop-flip": Augmentations(area=(0.2, 1.0), flip=0.5, jitter=0.0, grey=0.0),
    }
)
"""Those of Zimmermann et al. (2021), appendix A.3; SimCLR's of small images, as Rusak et al. (2024) have them; what is
left of these where there is no colour; crops and flips alone.
"""


def recipe_of(name: str) -> Augmentations:
    """The augmentations of a recipe."""
    if name not in RECIPES:
        raise unknown("augmentations", name, RECIPES)
    return RECIPES[name]


def views(parts: Iterable[Tensor], have: Tensor, name: str, *, generator: torch.Generator) -> Iterator[Tensor]:
    """Images of 0 to 255, some at a time, as floats on the generator's device: those that `have` says (n,) augmented.

    The augmentation is one of SimCLR's, by its name.
    """
    start = 0
    for part in parts:
        images = part.to(generator.device).float()
        augmentations = RECIPES["simclr" if images.shape[1] == 3 else "simclr-grey"].only(name)
        which = have[start : start + len(images)].to(images.device)[:, None, None, None]
        yield torch.where(which, 255 * augmentations.draw(images / 255, generator=generator), images)
        start += len(images)


def crops(
    n: int,
    height: int,
    width: int,
    area: tuple[float, float],
    aspect: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Crops (n, 4): top, left, height, width; of a uniform area and a log-uniform aspect, if they fit in."""
    areas = height * width * uniform(TRIES * n, *area, generator).reshape(TRIES, n)
    aspects = uniform(TRIES * n, math.log(aspect[0]), math.log(aspect[1]), generator).exp().reshape(TRIES, n)
    wide, high = (areas * aspects).sqrt().round(), (areas / aspects).sqrt().round()
    fits = (wide > 0) & (wide <= width) & (high > 0) & (high <= height)
    first = fits.int().argmax(0, keepdim=True)
    w, h = wide.gather(0, first)[0], high.gather(0, first)[0]
    none = ~fits.any(0)
    ratio = min(max(width / height, aspect[0]), aspect[1])
    w[none], h[none] = min(width, round(height * ratio)), min(height, round(width / ratio))
    free = torch.stack([height - h, width - w], 1)
    corner = torch.floor(rand(2 * n, generator).reshape(n, 2) * (free + 1))
    corner[none] = torch.floor(free[none] / 2)
    return torch.cat([corner, h[:, None], w[:, None]], 1)


def cropped(images: Tensor, crops: Tensor) -> Tensor:
    """Crops (n, 4) of images (n, 3, H, W), each brought back to H x W by bilinear interpolation."""
    grids = []
    for size, start, length in zip(images.shape[-2:], crops.T[:2], crops.T[2:], strict=True):
        middle = (torch.arange(size, device=images.device) + 0.5) * (length[:, None] / size) - 0.5
        at = start[:, None] + middle.clamp_min(0).minimum(length[:, None] - 1)
        grids.append((2 * at + 1) / size - 1)
    down, along = grids
    whole = (len(images), *images.shape[-2:])
    grid = torch.stack([along[:, None, :].expand(whole), down[:, :, None].expand(whole)], -1)
    return nn.functional.grid_sample(images, grid.to(images.dtype), padding_mode="border", align_corners=False)


def brightened(images: Tensor, factor: Tensor) -> Tensor:
    """As bright as the factor says."""
    return (images * factor).clamp(0, 1)


def contrasted(images: Tensor, factor: Tensor) -> Tensor:
    """The contrast against the mean grey of each image."""
    return mixed(images, greyed(images).mean((1, 2, 3), keepdim=True), factor)


def saturated(images: Tensor, factor: Tensor) -> Tensor:
    """The contrast against the grey of each pixel."""
    return mixed(images, greyed(images), factor)


def mixed(images: Tensor, others: Tensor, factor: Tensor) -> Tensor:
    """So much of the one, the rest of the other."""
    return (factor * images + (1 - factor) * others).clamp(0, 1)


def greyed(images: Tensor) -> Tensor:
    """Without colour."""
    weights = images.new_tensor(GREY)[:, None, None]
    return (images * weights).sum(1, keepdim=True).expand_as(images)


def hue_shifted(images: Tensor, shift: Tensor) -> Tensor:
    """With the hue turned by shares of the circle; brightness (the largest channel) and saturation stay."""
    highest, lowest = images.amax(1), images.amin(1)
    chroma = highest - lowest
    red, green, blue = images.unbind(1)
    safe = torch.where(chroma > 0, chroma, 1.0)
    sixths = torch.where(highest == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    sixths = torch.where(highest == red, (green - blue) / safe, sixths)
    turned = sixths + 6 * shift[:, 0]
    # A channel falls to the lowest and rises again within four sixths of the circle.
    since = [(offset + turned) % 6 for offset in (5, 3, 1)]
    return torch.stack([highest - chroma * torch.minimum(k, 4 - k).clamp(0, 1) for k in since], 1)


def blurred(images: Tensor, sigma: Tensor) -> Tensor:
    """Convolved with a Gaussian of its own deviation (n,) for each image; mirrored at the edges."""
    for axis in (-2, -1):
        size = images.shape[axis]
        reach = max(1, size // REACH)
        offsets = torch.arange(-reach, reach + 1, device=images.device)
        weights = torch.exp(-(offsets**2) / (2 * sigma[:, None] ** 2))
        weights = (weights / weights.sum(1, keepdim=True)).to(images.dtype)
        at = torch.arange(size, device=images.device)
        moved = (images.index_select(axis, mirrored(at + offset, size)) for offset in offsets)
        images = sum(
            (weight[:, None, None, None] * part for weight, part in zip(weights.T, moved, strict=True)), 0 * images
        )
    return images


def mirrored(at: Tensor, size: int) -> Tensor:
    """Places beyond an edge as those as far before it, of an axis that is long enough."""
    return (size - 1) - ((size - 1) - at.abs()).abs()


def of_share(n: int, share: float, generator: torch.Generator) -> Tensor:
    """Whether each of n images (n, 1, 1, 1) is one of the share that is changed."""
    return (rand(n, generator) < share)[:, None, None, None]


def rand(n: int, generator: torch.Generator) -> Tensor:
    """Uniform in [0, 1), on the generator's device."""
    return torch.rand(n, generator=generator, device=generator.device)


def uniform(n: int, low: float, high: float, generator: torch.Generator) -> Tensor:
    """Uniform in [low, high)."""
    return low + (high - low) * rand(n, generator)
