"""Image files: what others have made is decoded only if a dataset can keep all of it."""

from __future__ import annotations

import struct
import warnings
from io import BytesIO

import numpy as np
from PIL import ExifTags, Image

from ident.render.aliases import Array
from ident.render.blender.settings import SIZES
from ident.render.errors import Failed

MODES = ("RGB", "RGBA", "L", "P", "1")
FORMATS = ("PNG", "WEBP", "JPEG")
ANIMATION = (b"acTL", b"fcTL", b"fdAT")
"""Chunks of a PNG that has more than one image."""


def decode(data: bytes, where: str) -> Array:
    """The pixels (H, W, 3) of an image file, if it is one that a dataset may hold."""
    try:
        with warnings.catch_warnings(action="error"), Image.open(BytesIO(data), formats=FORMATS) as image:
            if image.width != image.height or image.width not in SIZES:
                raise Failed(f"{where}: {image.width} x {image.height} pixels, not a square of {SIZES.start} or more")
            if image.mode not in MODES:
                raise Failed(f"{where}: its pixels are {image.mode}, which cannot be kept as they are; wanted is RGB")
            if image.format == "PNG":
                check_png(data, where)
            if (count := getattr(image, "n_frames", 1)) > 1:
                raise Failed(f"{where}: has {count} images, of which one could be kept; wanted is one")
            if (turned := image.getexif().get(ExifTags.Base.Orientation, 1)) != 1:
                raise Failed(
                    f"{where}: is to be turned before it is shown, orientation {turned} in its EXIF; wanted is 1"
                )
            if image.has_transparency_data and np.asarray(image.convert("RGBA"))[..., 3].min() < 255:
                raise Failed(f"{where}: parts of it are transparent, which cannot be kept; wanted is RGB")
            return np.asarray(image.convert("RGB"))
    except Failed:
        raise
    except Exception as error:  # Pillow raises half a dozen kinds on a damaged file
        raise Failed(f"{where}: not an image ({error})") from error


def check_png(data: bytes, where: str) -> None:
    """Refuse what Pillow takes from a PNG without a word: the upper half of 16 bits, the first image of several."""
    place = 8
    while place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"IHDR" and data[place + 16] > 8:
            raise Failed(f"{where}: its colours have {data[place + 16]} bits, of which 8 could be kept; wanted are 8")
        if kind in ANIMATION:
            raise Failed(f"{where}: is animated, of which one image could be kept; wanted is one")
        place += 12 + length


def png(image: Array) -> bytes:
    """An image (H, W, 3) as a PNG file."""
    file = BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()
