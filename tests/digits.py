"""Handwritten digits in the published format, small and made up: each class is a bar at a place of its own."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from ident.render.aliases import Uint8s
from ident.render.exchange.digits import FILES


def idx(array: Uint8s) -> bytes:
    """An idx file of unsigned bytes."""
    return struct.pack(f">{1 + array.ndim}I", 2048 + array.ndim, *array.shape) + array.tobytes()


def bars(n: int, seed: int) -> tuple[Uint8s, Uint8s]:
    """Images (n, 28, 28) and their classes (n,)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(10, size=n).astype(np.uint8)
    images = rng.integers(30, size=(n, 28, 28)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        start = 2 * int(label) + 3
        image[start : start + 3, 4 : 14 + rng.integers(10)] = 250
    return images, labels


def write_digits(folder: Path, train: int = 300, test: int = 60) -> Path:
    """The four files."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, n in (("train", train), ("test", test)):
        for name, array in zip(FILES[split], bars(n, n), strict=True):
            (folder / name).write_bytes(idx(array))
    return folder
