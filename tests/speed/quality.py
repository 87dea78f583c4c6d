"""How near the presets come to converged images of scenes that none was tuned on: mean and worst PSNR.

A converged image has noise, too. So each scene has two, of independent noise: the mean of (image - one) * (image -
other) is the error of the image alone. They are rendered whole, light by light; no preset does that.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from ident.render.aliases import Float32s, Float64s
from ident.render.blender.engine import Engine
from ident.render.blender.settings import LIGHTS, PRESETS, Exposure, Quality, Settings
from ident.render.worlds.threedident import WORLD, place

SCENES, SIZE = 30, 224
CONVERGED = Quality(tuple(Exposure((light,), 128, 384) for light in LIGHTS), denoise=False)
BARS = {"draft": (43.0, 39.5), "balanced": (45.5, 42.0), "high": (50.0, 47.0)}
"""The least mean in dB, and what at most one scene may be below."""


def curve(linear: Float32s) -> Float64s:
    """The sRGB curve in 8-bit levels, not rounded."""
    clipped = np.clip(linear.astype(np.float64), 0, 1)
    return np.asarray(255 * np.where(clipped <= 0.0031308, 12.92 * clipped, 1.055 * clipped ** (1 / 2.4) - 0.055))


def converged(engine: Engine, index: int, noise: int) -> Float64s:
    """A scene, (H, W, 3), by its index and that of its noise."""
    scene = scene_of(index)
    engine._place(scene)
    seeds = range(1000 * (noise + 1), 2000 * (noise + 1), 10)
    return curve(sum(engine._expose(e, scene, seed) for e, seed in zip(CONVERGED.exposures, seeds, strict=False)))  # type: ignore[arg-type]


def scene_of(index: int) -> Any:
    """The scenes are a split of their own."""
    return place(WORLD.values(WORLD.draw(seed=17, split="quality", start=index, n=1))[0])


def scores(indices: range) -> dict[str, list[float]]:
    """PSNR in dB, of each preset and scene."""
    engine = Engine(Settings(SIZE, CONVERGED))
    truths = [(converged(engine, index, 0), converged(engine, index, 1)) for index in indices]
    decibels = {}
    for name in BARS:
        engine = Engine(Settings(SIZE, PRESETS[name]))
        images = [engine.image(scene_of(index)).astype(np.float64) for index in indices]
        squares = [np.mean((image - a) * (image - b)) for image, (a, b) in zip(images, truths, strict=True)]
        decibels[name] = [float(10 * np.log10(255**2 / square)) for square in squares]
    return decibels


def measure() -> Iterator[dict[str, Any]]:
    """A mean for each preset; its quality is the worst scene's but one."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(scores, [range(core, SCENES, cores) for core in range(cores)]))
    for name, (mean, least) in BARS.items():
        decibels = sorted(value for part in parts for value in part[name])
        yield {
            "name": f"quality.{name}",
            "ratio": round(float(np.mean(decibels)), 2),
            "bar": mean,
            "quality": round(decibels[1], 2),
            "unit": "dB, mean PSNR to converged images",
            "note": f"{SCENES} scenes of {SIZE} x {SIZE}; quality: the worst but one (bar {least}); "
            f"the worst {decibels[0]:.2f}",
        }
