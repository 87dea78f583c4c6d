"""dSprites drawn into batches, against the same batches from the published layout of the file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ident.render.threads import cores, in_order
from ident.render.worlds.dsprites import COUNT, classes_of, draw

BATCH, BATCHES, ROUNDS = 1024, 100, 3
STORED = 20_000
"""Images of the file that is read: numpy unpacks all of an array that it reads a row of."""
LEAST = 50_000
"""Images a second that will do, if ten times what reading gives is more."""


def drawn() -> float:
    """Images a second, drawn by a thread a core."""
    rng = np.random.default_rng(0)
    parts = [classes_of(rng.integers(COUNT, size=BATCH)) for _ in range(BATCHES)]
    began = time.perf_counter()
    for _, batch in in_order(draw, parts, ahead=4):
        assert batch.shape == (BATCH, 64, 64)
    return BATCH * BATCHES / (time.perf_counter() - began)


def read(path: Path) -> float:
    """Images a second from a packed array, whole and in order, as numpy reads it: faster than batches by index."""
    began = time.perf_counter()
    with np.load(path) as file:
        images = file["imgs"]
    for start in range(0, len(images), BATCH):
        np.multiply(images[start : start + BATCH], 255)
    return len(images) / (time.perf_counter() - began)


def measure() -> Iterator[dict[str, Any]]:
    """Images a second of both, in turn."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "dsprites.npz"
        np.savez_compressed(path, imgs=(draw(classes_of(np.arange(STORED))) > 0).view(np.uint8))
        draw(classes_of(np.arange(BATCH)))
        rates = [(drawn(), read(path)) for _ in range(ROUNDS)]
    ours, theirs = (float(np.median(column)) for column in zip(*rates, strict=True))
    yield {
        "name": "sprites.drawn",
        "ratio": round(ours / theirs, 2),
        "bar": round(min(10.0, LEAST / theirs), 2),
        "unit": "times as fast as reading the packed npz",
        "note": f"{ours:.0f} images a second by {cores()} threads, {theirs:.0f} read; bar: {LEAST}, or 10 times",
    }
