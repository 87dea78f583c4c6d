"""Random reads through the reader, against PIL on the PNG files of the original layout."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from PIL import Image

from ident.render.blender.settings import Settings
from ident.render.stage.pool import frames
from ident.render.store.dataset import Dataset
from ident.render.store.recipe import Recipe, Uniform
from ident.render.worlds.threedident import WORLD, Scene
from tests.render.store.test_dataset import paint

Images = npt.NDArray[np.uint8]

RENDERED = 100
COPIES = 10  # of each, so that there are many files
READS = 1500
ROUNDS = 5
BARS = {"compact": (1.7, 0.8), "fast": (5.0, 1.5)}
"""How many times as fast as PNG files, and at how much of their bytes."""


def renders() -> Images:
    """Images (RENDERED, 224, 224, 3) at `balanced`."""
    raw = Uniform(11, "speed")(0, RENDERED)
    images = np.empty((RENDERED, 224, 224, 3), np.uint8)
    for i, frame in frames(WORLD, Settings(), raw):
        images[i] = frame["image"]
    return images


@dataclass
class Replay:
    """An engine that gives images that were rendered before."""

    images: Images
    at: int = 0

    def image(self, _: Scene) -> Images:
        self.at += 1
        image: Images = self.images[(self.at - 1) % len(self.images)]
        return image

    def passes(self, _: Scene, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        assert not names
        return {}


def write_png(folder: Path, images: Images) -> int:
    """Write the images as the original layout has them; gives their bytes."""
    folder.mkdir()
    for i in range(COPIES * len(images)):
        Image.fromarray(images[i % len(images)]).save(folder / f"{i:06d}.png")
    return sum(path.stat().st_size for path in folder.iterdir())


def write_raw(path: Path, images: Images) -> int:
    """Write the images as HDF5 keeps them without any codec."""
    with h5py.File(path, "w") as file:
        file["images"] = np.concatenate([images] * COPIES)
    return path.stat().st_size


def seconds(read: Callable[[int], Images], order: list[int]) -> float:
    """How long a pass over the images takes."""
    start = time.perf_counter()
    for i in order:
        read(i)
    return time.perf_counter() - start


def measure() -> Iterator[dict[str, Any]]:
    """One ratio a codec, and what reads without decoding reach."""
    images = renders()
    order = np.random.default_rng(0).integers(0, COPIES * RENDERED, READS).tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipes = {codec: Recipe(Uniform(11, "speed"), Settings(), codec=codec) for codec in BARS}
        sizes = {
            codec: paint(folder / codec, recipe, COPIES * RENDERED, lambda _: Replay(images)).disk
            for codec, recipe in recipes.items()
        }
        sizes |= {"png": write_png(folder / "png", images), "raw": write_raw(folder / "raw.h5", images)}
        with h5py.File(folder / "raw.h5") as file:
            readers: dict[str, Callable[[int], Images]] = {
                "png": lambda i: np.asarray(Image.open(folder / "png" / f"{i:06d}.png"), np.uint8),
                "raw": file["images"].__getitem__,
                **{codec: Dataset(folder / codec).image for codec in BARS},
            }
            for read in readers.values():
                assert all(np.array_equal(read(i), images[i % RENDERED]) for i in order[:RENDERED])
            taken = {name: list[float]() for name in readers}
            for _ in range(ROUNDS):  # in turns, so that all see the same machine
                for name, read in readers.items():
                    taken[name].append(seconds(read, order))
    times = {name: float(np.median(found)) for name, found in taken.items()}
    for name, (bar, most) in (BARS | {"raw": (0.0, 99.0)}).items():
        yield {
            "name": f"loader.{name}",
            "ratio": round(times["png"] / times[name], 2),
            "bar": bar,
            "quality": round(sizes[name] / sizes["png"], 3),
            "unit": "times as fast as PIL on PNG files",
            "note": f"{times[name] / READS * 1e3:.3f} ms an image, PNG {times['png'] / READS * 1e3:.3f}; "
            f"quality: share of the PNG files' bytes (bar {most})",
        }
