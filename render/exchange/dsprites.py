"""The published dSprites, compared with those that are drawn by rule, image by image."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from ident.render.aliases import Int64s, Uint8s
from ident.render.errors import Failed
from ident.render.worlds.dsprites import COUNT, SHAPES, SIDE, SIZES, classes_of, draw

FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
AT_ONCE = 1024
LARGEST_HEADER = 2**10
"""Bytes. The published ones have 128; Python's parser runs out of memory by long ones."""
METHODS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
"""Of packing. A file of LZMA's says itself how much memory is taken to read it."""


@dataclass(frozen=True)
class Comparison:
    """How the images of a file differ from those that are drawn."""

    images: int
    different: dict[str, int]
    """By shape, how many images differ in any pixel."""
    worst: dict[str, float]
    """By shape, the largest share of a drawn shape's pixels in which an image differs."""

    def __str__(self) -> str:
        parts = [
            f"{name}: {self.different[name]} differ, by {100 * self.worst[name]:.2f} % of the pixels at most"
            for name in SHAPES
        ]
        return f"{self.images} images compared with the drawn ones; {'; '.join(parts)}"


def compare(path: Path, tell: Callable[[int, int], object] = lambda *_: None) -> Comparison:
    """Compare a published file with what is drawn. Its pickled metadata are not read."""
    different, worst = dict.fromkeys(SHAPES, 0), dict.fromkeys(SHAPES, 0.0)
    with reading(path) as archive:
        rows = 0
        for start, images, classes in parts(archive):
            expected = classes_of(np.arange(start, start + len(images)))
            if not (classes == expected).all():
                raise Failed(f"its latents_classes from row {start} on are in another order than the published ones")
            drawn = draw(expected) > 0
            wrong = (drawn != (images > 0)).sum((1, 2))
            share = wrong / np.maximum(1, drawn.sum((1, 2)))
            for shape, name in enumerate(SHAPES):
                of_shape = expected[:, 0] == shape
                different[name] += int((wrong[of_shape] > 0).sum())
                worst[name] = max(worst[name], float(share[of_shape].max(initial=0)))
            rows += len(images)
            tell(rows, COUNT)
    return Comparison(rows, different, worst)


@contextmanager
def reading(path: Path) -> Iterator[zipfile.ZipFile]:
    """The file as an archive; what is wrong with it is said with its path."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except Failed as error:
        raise Failed(f"{path}: {error}") from error
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, ValueError, LookupError, EOFError, RuntimeError, zlib.error) as error:
        raise Failed(f"{path}: no npz of dSprites, or damaged ({error})") from error


def parts(archive: zipfile.ZipFile) -> Iterator[tuple[int, Uint8s, Int64s]]:
    """From which row on, images (n, 64, 64) and their classes (n, 5) without the colour, a part after the other."""
    for name in ("imgs.npy", "latents_classes.npy"):
        if archive.getinfo(name).compress_type not in METHODS:
            raise Failed(f"{name} is packed by another method than the published one")
    with archive.open("imgs.npy") as images, archive.open("latents_classes.npy") as classes:
        begin(images, "imgs", np.dtype(np.uint8), (COUNT, SIDE, SIDE))
        begin(classes, "latents_classes", np.dtype(np.int64), (COUNT, len(SIZES) + 1))
        for start in range(0, COUNT, AT_ONCE):
            count = min(AT_ONCE, COUNT - start)
            pixels = np.frombuffer(images.read(count * SIDE * SIDE), np.uint8)
            table = np.frombuffer(classes.read(count * (len(SIZES) + 1) * 8), np.int64)
            if len(pixels) != count * SIDE * SIDE or len(table) != count * (len(SIZES) + 1):
                raise Failed(f"ends before row {start + count}")
            yield start, pixels.reshape(count, SIDE, SIDE), table.reshape(count, -1)[:, 1:]


def begin(file: IO[bytes], name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
    """Read the head of an array, which must be the published one's."""
    version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
    if version != (1, 0):
        raise Failed(f"{name}: of npy version {version}, the published one is of 1.0")
    read_header: Any = np.lib.format.read_array_header_1_0
    try:
        head = read_header(file, max_header_size=LARGEST_HEADER)
    except (ValueError, TypeError, SyntaxError, TokenError) as error:
        raise Failed(f"{name}: its head cannot be read, or has more than {LARGEST_HEADER} bytes") from error
    if head[0] != shape or head[1] or head[2] != dtype:
        raise Failed(f"{name}: {head[2]} {head[0]}; dSprites have {dtype} {shape}")
