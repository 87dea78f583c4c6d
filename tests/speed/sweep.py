"""The sweep behind the presets: error against time, as the table of docs/quality.md.

    python -m tests.speed.sweep

Every row renders the same scenes, an engine on every core, and is compared with images of 1,152 samples a pixel, one
light at a time. Takes about ten minutes on two cores.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.render.blender import denoise
from ident.render.blender.engine import Engine
from ident.render.blender.settings import FORMER, LIGHTS, PRESETS, Exposure, Quality, Settings, by_light, plain
from ident.render.stage.rerender import psnr
from ident.render.worlds.threedident import WORLD, place

SCENES = 4  # a core
CONVERGED = Quality(tuple(Exposure((light,), 384) for light in LIGHTS), denoise=False)


@dataclass(frozen=True)
class Row:
    """A way to render: a quality, Cycles settings beside it, and whether `restore` follows the denoiser."""

    name: str
    quality: Quality
    cycles: Mapping[str, Any] = field(default_factory=dict)
    restore: bool = True


def even(samples: int, around: int = 0, *, denoise: bool = True) -> Quality:
    """The same samples for every light."""
    return Quality(tuple(Exposure((light,), samples, around) for light in LIGHTS), denoise)


OIDN = {"use_denoising": True, "denoiser": "OPENIMAGEDENOISE", "denoising_prefilter": "ACCURATE"}
ADAPTIVE = {"use_adaptive_sampling": True, "adaptive_threshold": 0.02, "adaptive_min_samples": 16}
ROWS = (
    Row("all lights, 512 samples (`reference`)", PRESETS["reference"]),
    Row("all lights, 64", plain(64)),
    Row("all lights, 64, tabulated Sobol", plain(64), {"sampling_pattern": "TABULATED_SOBOL"}),
    Row("all lights, 64, light tree", plain(64), {"use_light_tree": True}),
    Row("all lights, adaptive, 16 to 256", plain(256), ADAPTIVE),
    Row("all lights, 16, Cycles' own denoiser", plain(16), {**OIDN, "denoising_input_passes": "RGB_ALBEDO_NORMAL"}),
    Row("all lights, 16, Cycles' own denoiser, no guides", plain(16), {**OIDN, "denoising_input_passes": "RGB"}),
    Row("by light, 16 each, not denoised", even(16, denoise=False)),
    Row("by light, 1 each", even(1)),
    Row("by light, 2 each", even(2)),
    Row("by light, 4 each", even(4)),
    Row("by light, 1 each and 4 around the object", even(1, 4)),
    Row("by light, 1 each and 8 around the object", even(1, 8)),
    Row("by light, 2 each and 16 around the object", even(2, 16)),
    Row("by light, 4 each and 32 around the object", even(4, 32)),
    *(Row(f"`{name}` before, without the known ground", quality) for name, (quality, *_) in FORMER.items()),
    Row("`draft`", PRESETS["draft"]),
    Row("`balanced`", PRESETS["balanced"]),
    Row("`balanced`, tabulated Sobol", PRESETS["balanced"], {"sampling_pattern": "TABULATED_SOBOL"}),
    Row("`balanced`, not restored", PRESETS["balanced"], restore=False),
    Row("`high`", PRESETS["high"]),
    Row("`high`, not restored", PRESETS["high"], restore=False),
    Row("between `balanced` and `high`", by_light(sun=(10, 18), area=(2, 8), spot=(5, 26))),
)

Images = list[npt.NDArray[np.uint8]]


def work(row: Row, core: int) -> tuple[float, float, Images]:
    """When a core started and ended, and its images."""
    if not row.restore:
        denoise.restore = lambda denoised, _: denoised.copy()  # type: ignore[misc,assignment]
    engine = Engine(Settings(quality=row.quality))
    for name, value in row.cycles.items():
        setattr(engine._scene.cycles, name, value)
    raw = WORLD.draw(seed=23, split="speed", start=SCENES * core, n=SCENES)
    scenes = [place(values) for values in WORLD.values(raw)]
    if row.quality != CONVERGED:
        engine.image(scenes[0])
    since = time.time()
    images = [engine.image(scene) for scene in scenes]
    return since, time.time(), images


def run(row: Row) -> tuple[float, Images]:
    """Seconds an image with every core busy, and the images."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        done = [job.result() for job in [pool.submit(work, row, core) for core in range(cores)]]
    wall = max(end for _, end, _ in done) - min(start for start, _, _ in done)
    return wall / (cores * SCENES), [image for _, _, part in done for image in part]


def main() -> None:
    """Print the table."""
    _, truth = run(Row("converged", CONVERGED))
    print("| way | seconds | against 512 | PSNR mean | min |\n|---|---|---|---|---|")
    slowest = 0.0
    for row in ROWS:
        seconds, images = run(row)
        slowest = slowest or seconds
        scores = [psnr(ours, theirs) for ours, theirs in zip(images, truth, strict=True)]
        speed = f"{slowest / seconds:.1f}"
        print(f"| {row.name} | {seconds:.3f} | {speed} | {np.mean(scores):.1f} | {min(scores):.1f} |", flush=True)


if __name__ == "__main__":
    main()
