"""What the stage adds to the engine: two workers against one, one worker against the bare engine, and the driver."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.render.blender.engine import Engine
from ident.render.blender.settings import Settings, preset
from ident.render.stage import stage
from ident.render.stage.plan import Plan
from ident.render.store.dataset import Dataset
from ident.render.store.recipe import Recipe, Uniform
from ident.render.store.storage import Storage
from ident.render.worlds.threedident import WORLD, Scene, place

IMAGES = 60  # a worker
WARM = 6
SHARD = 4
ROUNDS = 2
MANY = 250_000
SOURCE = Uniform(11, "speed")


@dataclass
class AtOnce:
    """An engine that returns at once."""

    size: int

    def image(self, _: Scene) -> npt.NDArray[np.uint8]:
        return np.full((self.size, self.size, 3), 7, np.uint8)

    def passes(self, _: Scene, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        assert not names
        return {}


def at_once(settings: Settings) -> AtOnce:
    return AtOnce(settings.size)


Told = list[tuple[float, int]]


def run(n: int, workers: int, settings: Settings, shard_size: int, quick: bool = False) -> tuple[Told, float]:
    """When how many images were done, and the most memory that the driver took, in MB; all in a fresh process."""
    told: Told = []
    with tempfile.TemporaryDirectory() as folder:
        recipe = Recipe(SOURCE, settings, shard_size=shard_size)
        made = Plan(Storage(f"{folder}/d"), recipe, n, workers=workers, engine=at_once if quick else None)
        stage.render(made, tell=lambda far: told.append((time.monotonic(), far.done)))
        assert len(Dataset(f"{folder}/d")) == n
    return told, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def pace(told: Told, first: int, last: int) -> float:
    """Images a second, by a line through what was told between the first and the last images."""
    when, done = np.array([far for far in told if first <= far[1] <= last]).T
    return float(np.polyfit(when, done, 1)[0])


def bare(_: int) -> float:
    """Images a second of an engine and nothing else."""
    engine = Engine(Settings())
    scenes = [place(values) for values in WORLD.values(SOURCE(0, IMAGES))]
    for scene in scenes[:WARM]:
        engine.image(scene)
    start = time.monotonic()
    for scene in scenes[WARM:]:
        engine.image(scene)
    return (IMAGES - WARM) / (time.monotonic() - start)


def alone(call: Any, *arguments: Any) -> Any:
    """A call in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, *arguments).result()


def measure() -> Iterator[dict[str, Any]]:
    """One ratio a claim."""
    speeds: dict[str, list[float]] = {"bare": [], "one": [], "two": []}
    for _ in range(ROUNDS):  # in turns, so that all see the same machine
        speeds["bare"].append(alone(bare, 0))
        for name, workers in (("one", 1), ("two", 2)):
            n = IMAGES * workers
            told, _ = alone(run, n, workers, Settings(), SHARD)
            speeds[name].append(pace(told, WARM * workers, n - SHARD * workers))
    rates = {name: float(np.mean(found)) for name, found in speeds.items()}
    yield {
        "name": "stage.workers",
        "ratio": round(rates["two"] / rates["one"], 3),
        "bar": 1.9,
        "quality": 1.0,
        "unit": "times as fast with two workers as with one",
        "note": f"balanced, 224 x 224; one {rates['one']:.2f}, two {rates['two']:.2f} images a second",
    }
    yield {
        "name": "stage.cost",
        "ratio": round(rates["one"] / rates["bare"], 3),
        "bar": 0.95,
        "quality": 1.0,
        "unit": "of the bare engine's speed, with encoding, journal, shards and Ray",
        "note": f"balanced, 224 x 224; bare engine {rates['bare']:.2f} images a second",
    }
    told, _ = alone(run, 2000, 2, Settings(64, preset("draft", 64)), 1000)
    early, late = pace(told, 20, 500), pace(told, 1500, 1980)
    yield {
        "name": "stage.steady",
        "ratio": round(late / early, 3),
        "bar": 0.95,
        "quality": 1.0,
        "unit": "of the speed of the first 500 images in the last 500 of 2,000",
        "note": f"draft, 64 x 64, two workers: {early:.1f} and {late:.1f} images a second",
    }
    told, memory = alone(run, MANY, 2, Settings(16), 1000, True)
    rate = pace(told, 2000, MANY - 2000)
    yield {
        "name": "stage.driver",
        "ratio": round(rate / 5000, 2),
        "bar": 1.0,
        "quality": round(memory),
        "unit": "of 5,000 images a second with an engine that returns at once",
        "note": f"{MANY} images of 16 x 16, two workers, {rate:.0f} images a second, {told[-1][0] - told[0][0]:.0f} s "
        "with Ray's start; quality: the driver's memory in MB (bar 500)",
    }
