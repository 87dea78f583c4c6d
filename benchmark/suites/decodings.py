"""What a decoder makes of latents, as pictures beside a result: reconstructions, and walks along each latent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import chain

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ident.benchmark.pairs.augmentations import Augmentations
from ident.benchmark.sources.source import Source
from ident.benchmark.training.seeds import Stream, generator_of

COUNT = 10
"""Images that are reconstructed."""
STEPS, FURTHEST = 9, 2.0
"""Steps of a walk along a latent, and how many standard deviations it goes to either side."""
GAP = 2
"""Pixels between images."""
GREY = 96
VIEWS, AT_ONCE = 2000, 250
"""Views of an image that show how they lie, and how many of them are drawn and encoded at a time."""

Convert = Callable[[Tensor], Tensor]


def decoded(source: Source, represent: Convert, decode: Convert, representation: Tensor) -> tuple[bytes, bytes]:
    """PNGs of reconstructions and of traversals, by what encodes images and decodes latents (n, k).

    The widths of walks are those of a representation (n, k).
    """
    _, parts = source.samples("test", COUNT)
    images = next(iter(parts))
    latents = represent(images)
    rows = [images.float() / 255, decode(latents)]
    return grid(torch.stack(rows)), traversals(decode, latents[0], representation)


def traversals(decode: Convert, latents: Tensor, representation: Tensor) -> bytes:
    """A PNG: in each row the image of latents (k,) with one of them walked along, the one that varies most first."""
    sd = representation.std(0).to(latents.device)
    steps = torch.linspace(-FURTHEST, FURTHEST, STEPS, device=latents.device)
    walks = latents.repeat(len(latents), STEPS, 1)
    for row, number in enumerate(sd.argsort(descending=True).tolist()):
        walks[row, :, number] = representation[:, number].mean().to(latents.device) + steps * sd[number]
    shown: Tensor = decode(walks.flatten(0, 1))
    return grid(shown.unflatten(0, (len(latents), STEPS)))


def views(image: Tensor, augmentations: Augmentations, *, seed: int) -> Iterator[Tensor]:
    """Views (n, C, H, W) from 0 to 255 of an image (1, C, H, W), some at a time."""
    images = image.repeat(AT_ONCE, 1, 1, 1).float() / 255
    for start in range(0, VIEWS, AT_ONCE):
        generator, part = generator_of(seed, Stream.VIEWS), slice(start, start + AT_ONCE)
        yield 255 * augmentations.draw(images, generator=generator, of=VIEWS, part=part)


def projected(views: Iterator[Tensor], represent: Convert, decode: Convert) -> bytes:
    """A PNG of views (n, C, H, W) from 0 to 255 of one image: some, their reconstructions, histograms of their latents.

    The latents that vary most come first.
    """
    first = next(views)
    latents = torch.cat([represent(part).float() for part in chain([first], views)])
    most = latents.std(0).argsort(descending=True)[:COUNT]
    histograms = torch.zeros(COUNT, *first.shape[1:])
    for panel, values in zip(histograms, latents[:, most].T.cpu(), strict=False):
        panel[:] = histogram(values, *panel.shape[1:])
    return grid(torch.stack([first[:COUNT].cpu() / 255, decode(latents[:COUNT]).cpu(), histograms]))


def histogram(values: Tensor, height: int, width: int) -> Tensor:
    """Numbers (n,) as bars (height, width), of which the highest is as high as there is room."""
    counts = torch.histc(values, width)
    high = (counts / counts.max() * height).round()
    return (torch.arange(height, 0, -1)[:, None] <= high).float()


def grid(images: Tensor) -> bytes:
    """A PNG of images (rows, columns, C, H, W) from 0 to 1."""
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
    rows, columns, channels, height, width = pixels.shape
    sheet = np.full((rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, channels), GREY, np.uint8)
    for row in range(rows):
        for column in range(columns):
            top, left = GAP + row * (height + GAP), GAP + column * (width + GAP)
            sheet[top : top + height, left : left + width] = pixels[row, column].transpose(1, 2, 0)
    file = BytesIO()
    Image.fromarray(sheet[:, :, 0] if channels == 1 else sheet).save(file, "png")
    return file.getvalue()
