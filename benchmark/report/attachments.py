"""What lies beside a result, which may be anything: arrays and photographs, read with bounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy.typing as npt
from PIL import Image

from ident.benchmark.metrics.arrays import checked
from ident.render.aliases import Float64s
from ident.render.store import files

WIDEST = 480
"""Pixels of a picture of neighbours."""
LARGEST_PICTURE, LARGEST_RECOVERED = 2**26, 2**26
"""Pixels of one that is read, and bytes of latents: of more than a million images."""
COLOURS = 64, 256
"""Colours that plots and photographs keep, so that pages stay small."""


def pair(path: Path, dim: int) -> tuple[Float64s, Float64s]:
    """Latents (n, dim) and the recovered ones (n, k)."""
    both = checked(*arrays(path, "latents", "recovered"))
    if both[0].shape[1] != dim or both[1].shape[1] < dim:
        raise ValueError(f"latents {both[0].shape} and recovered ones {both[1].shape}, of {dim}")
    return both


def arrays(path: Path, *names: str) -> Iterator[npt.NDArray[Any]]:
    """The arrays in a .npz file, which are not packed: nothing is larger than the file."""
    with os.fdopen(files.open_plain(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size > len(names) * LARGEST_RECOVERED:
            raise ValueError(f"{size} bytes, more than {len(names) * LARGEST_RECOVERED}")
        file.seek(-min(size, 42), os.SEEK_END)
        end = file.read()  # the list of what is in it: another one's may be as long as the file
        if end[-22:-18] != b"PK\5\6" or end[-2:] != b"\0\0" or end[:4] == b"PK\6\7" or end[-9:-6] != b"\0\0\0":
            raise ValueError("no archive of two arrays")
        with ZipFile(file) as archive:
            for name in names:
                if archive.getinfo(f"{name}.npy").compress_type != ZIP_STORED:
                    raise ValueError(f"{name} is packed, which ident bench does not do")
                with archive.open(f"{name}.npy") as array:
                    yield files.read_npy(array, LARGEST_RECOVERED)


def photograph(path: Path) -> bytes:
    """A picture made small."""
    with os.fdopen(files.open_plain(path), "rb") as file, Image.open(file, formats=("PNG",)) as image:
        if image.width * image.height > LARGEST_PICTURE:
            raise ValueError(f"{image.width} x {image.height} pixels, more than {LARGEST_PICTURE} in all")
        small = image.convert("RGB")
    small.thumbnail((WIDEST, WIDEST))
    return png(small, COLOURS[1])


def png(image: Image.Image, colours: int = COLOURS[0]) -> bytes:
    """A picture of few colours as a file."""
    file = BytesIO()
    image.quantize(colours, dither=Image.Dither.NONE).save(file, "png", optimize=True)
    return file.getvalue()
