"""How much faster the presets are than 512 samples of the same scenes, with an engine on every core."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.render.blender.engine import Engine
from ident.render.blender.settings import FORMER, LIGHTS, PRESETS, Exposure, Quality, Settings, preset
from ident.render.stage.rerender import psnr
from ident.render.worlds.threedident import WORLD, place

BARS = {"draft": 78, "balanced": 50, "high": 18}
SCENES = 6  # an engine
ROUNDS = {"draft": 5, "balanced": 4, "high": 2, "reference": 1}
"""How often each preset goes through the scenes, so that none is measured in a moment."""

SMALL, SMALL_SCENES, SMALL_BAR = 64, 15, 1.3
"""The side of small images, scenes an engine of these, and how much faster than before they shall be."""

Images = list[npt.NDArray[np.uint8]]


def work(
    quality: Quality, start: int, rounds: int, size: int = 224, n: int = SCENES, *, before: bool = False
) -> tuple[float, float, Images]:
    """When an engine started and ended, and its images; `before` is for the engine as it was (see `as_before`)."""
    engine = Engine(Settings(size, quality))
    if before:
        as_before(engine)
    scenes = [place(v) for v in WORLD.values(WORLD.draw(seed=11, split="speed", start=start, n=n))]
    engine.image(scenes[0])
    since = time.time()
    for _ in range(rounds):
        images = [engine.image(scene) for scene in scenes]
    return since, time.time(), images


ALONE = """
{prelude}
import hashlib
from ident.render.blender.settings import preset
from tests.speed.render import SMALL, SMALL_SCENES, work
since, until, images = work(preset("draft", SMALL), 0, 12, SMALL, SMALL_SCENES)
print(since, until, *(hashlib.sha256(image.tobytes()).hexdigest() for image in images))
"""


def side_by_side(prelude: str, cores: int) -> tuple[float, list[str]]:
    """Wall time of an engine a core, each in a process that starts with the prelude, and the images' sha256."""
    command = [sys.executable, "-c", ALONE.format(prelude=prelude)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(cores)]
    done = [run.communicate()[0].split() for run in runs]
    wall = max(float(words[1]) for words in done) - min(float(words[0]) for words in done)
    return wall, done[0][2:]


def one_thread(cores: int) -> dict[str, Any]:
    """What it is worth that an engine shows Blender one core: else idle threads spin on the other engines' cores.

    Of small images, for which Blender itself works as long as Cycles: its threads wake, and spin, for that.
    """
    ours, images = side_by_side("", cores)
    theirs, same = side_by_side("import os; del os.sched_setaffinity", cores)
    return {
        "name": "render.one_thread",
        "ratio": round(theirs / ours, 2),
        "bar": 1.2,
        "quality": float(np.mean([a == b for a, b in zip(images, same, strict=True)])),
        "unit": "times as fast as with Blender's own thread pool",
        "note": f"draft at {SMALL} x {SMALL}, {cores} engines on as many cores; quality: share of images with the same "
        "bytes",
    }


def hide(engine: Engine) -> None:
    """Let an engine hide the lights that are off, as it did: what has not moved is loaded anew for each exposure."""
    put_out, lamps = engine._render, [item for item in engine._scene.objects if item.type == "LIGHT"]

    def render(*, lights: Collection[str], **options: Any) -> dict[str, Any]:
        for lamp in lamps:
            lamp.hide_render = lamp.name not in lights
        return put_out(lights=lights, **options)

    engine._render = render  # type: ignore[method-assign]


def as_before(engine: Engine) -> None:
    """Let an engine render as it did before small images were thought of: a session of Cycles for each render, too."""
    hide(engine)
    hidden = engine._render
    engine._scene.render.use_persistent_data = False

    def render(**options: Any) -> dict[str, Any]:
        engine._tap.free()
        return hidden(**options)

    engine._render = render  # type: ignore[method-assign]


def kept() -> dict[str, Any]:
    """What it is worth that lights are put out, not hidden: what has not moved since the last exposure stays loaded."""
    scenes = [place(v) for v in WORLD.values(WORLD.draw(seed=13, split="speed", start=0, n=2 * SMALL_SCENES))]
    seconds, images = dict[str, list[list[float]]](), dict[str, Images]()
    for _ in range(6):
        for way in ("hidden", "put out"):
            engine = Engine(Settings(SMALL, preset("draft", SMALL)))
            if way == "hidden":
                hide(engine)
            engine.image(scenes[0])
            images[way], times = [], list[float]()
            for scene in scenes:
                start = time.process_time()
                images[way].append(engine.image(scene))
                times.append(time.process_time() - start)
            seconds.setdefault(way, []).append(times)
    before, now = (float(np.median(seconds[way], axis=0).mean()) for way in ("hidden", "put out"))
    return {
        "name": "render.kept",
        "ratio": round(before / now, 2),
        "bar": 1.02,
        "quality": float(np.mean([np.array_equal(a, b) for a, b in zip(*images.values(), strict=True)])),
        "unit": f"times as fast as with hidden lights, draft at {SMALL} x {SMALL}",
        "note": f"{1e3 * now:.1f} ms of CPU an image against {1e3 * before:.1f}, {len(scenes)} scenes, medians of 6; "
        "quality: share of images with the same bytes",
    }


def lasting() -> dict[str, Any]:
    """What an engine loses over a thousand images: nothing piles up in Blender."""
    engine, seconds, images = Engine(Settings(64, preset("draft", 64))), list[float](), list[Any]()
    scene_values = WORLD.values(WORLD.draw(seed=0, split="speed", start=0, n=1000))
    for values in scene_values:
        start = time.process_time()
        images.append(engine.image(place(values)))
        seconds.append(time.process_time() - start)
    again = engine.image(place(scene_values[0]))
    return {
        "name": "render.lasting",
        "ratio": round(float(np.median(seconds[50:300]) / np.median(seconds[750:])), 2),
        "bar": 0.9,
        "quality": float(np.array_equal(again, images[0])),
        "unit": "times as fast after 750 images as at first",
        "note": "draft at 64 x 64, medians of CPU seconds; quality: whether the first image is the same again",
    }


def small(pool: ProcessPoolExecutor, cores: int) -> dict[str, Any]:
    """Small images by the draft and the engine of now, and by the former ones, in turns."""
    converged = Quality(tuple(Exposure((light,), 128, 256) for light in LIGHTS), denoise=False)

    def images_of(quality: Quality, rounds: int, *, before: bool = False) -> tuple[float, Images]:
        jobs = [
            pool.submit(work, quality, SMALL_SCENES * core, rounds, SMALL, SMALL_SCENES, before=before)
            for core in range(cores)
        ]
        done = [job.result() for job in jobs]
        seconds = sum(end - start for start, end, _ in done) / (cores * SMALL_SCENES * rounds)
        return seconds, [image for _, _, part in done for image in part]

    _, truth = images_of(converged, 1)
    turns = [(images_of(FORMER["draft"][0], 5, before=True), images_of(preset("draft", SMALL), 5)) for _ in range(5)]
    before, now = (np.median([seconds for seconds, _ in way]) for way in zip(*turns, strict=True))
    scores = [np.mean([psnr(a, b) for a, b in zip(images, truth, strict=True)]) for _, images in turns[0]]
    return {
        "name": "render.small",
        "ratio": round(float(before / now), 2),
        "bar": SMALL_BAR,
        "quality": round(float(scores[1]), 2),
        "unit": f"times as fast as the former draft of the former engine at {SMALL} x {SMALL}",
        "note": f"{1e3 * now:.1f} ms of a core against {1e3 * before:.1f}, {len(truth)} scenes, median of 5; quality: "
        f"mean PSNR to converged images in dB, the former draft's {scores[0]:.2f}",
    }


def measure() -> Iterator[dict[str, Any]]:
    """One ratio a preset; quality is the mean PSNR to the reference images, in dB."""
    cores = len(os.sched_getaffinity(0))
    seconds, images = dict[str, float](), dict[str, Images]()
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name in ("draft", "balanced", "high", "reference"):
            jobs = [pool.submit(work, PRESETS[name], SCENES * core, ROUNDS[name]) for core in range(cores)]
            done = [job.result() for job in jobs]
            wall = max(end for _, end, _ in done) - min(start for start, _, _ in done)
            seconds[name] = wall / (cores * SCENES * ROUNDS[name])
            images[name] = [image for _, _, part in done for image in part]
        yield small(pool, cores)
    yield one_thread(cores)
    yield kept()
    yield lasting()
    for name, bar in BARS.items():
        scores = [psnr(a, b) for a, b in zip(images[name], images["reference"], strict=True)]
        yield {
            "name": f"render.{name}",
            "ratio": round(seconds["reference"] / seconds[name], 1),
            "bar": bar,
            "quality": round(float(np.mean(scores)), 2),
            "unit": "times as fast as 512 samples",
            "note": f"{seconds[name]:.3f} s an image at 224 x 224 with {cores} engines, reference "
            f"{seconds['reference']:.2f} s; quality: mean PSNR to the reference in dB, worst {min(scores):.1f}",
        }
