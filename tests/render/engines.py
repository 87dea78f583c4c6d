"""Engines that paint at once, and engines in trouble: for tests of everything around an engine."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.render.blender.settings import Settings, plain
from ident.render.store.recipe import Recipe, Uniform
from ident.render.worlds.threedident import WORLD, Scene, place


def digest(scene: Scene) -> npt.NDArray[np.uint8]:
    """Bytes that tell scenes apart."""
    return np.frombuffer(hashlib.sha256(repr(scene).encode()).digest(), np.uint8)


def painting(scene: Scene, size: int) -> npt.NDArray[np.uint8]:
    """The image that a painter makes of a scene."""
    return np.resize(digest(scene), (size, size, 3))


class Painter:
    """An engine that takes no time, and knows no Blender."""

    def __init__(self, settings: Settings) -> None:
        self.size = settings.size

    def image(self, scene: Scene) -> npt.NDArray[np.uint8]:
        return painting(scene, self.size)

    def passes(self, scene: Scene, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        shade = np.float32(digest(scene)[0])
        made: dict[str, npt.NDArray[Any]] = {
            "mask": np.full((self.size, self.size), shade, np.uint8),
            "depth": np.full((self.size, self.size), shade, np.float32),
            "normal": np.full((self.size, self.size, 3), shade, np.float32),
        }
        return {name: made[name] for name in names}


@dataclass(frozen=True)
class Slow:
    """Makes painters that take some seconds an image."""

    seconds: float

    def __call__(self, settings: Settings) -> Painter:
        slow = Painter(settings)
        paint, seconds = slow.image, self.seconds

        def image(scene: Scene) -> npt.NDArray[np.uint8]:
            time.sleep(seconds)
            return paint(scene)

        slow.image = image  # type: ignore[method-assign]
        return slow


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(1e6)


def hang_in_c() -> None:
    """As a library does that never gives the interpreter back."""
    ctypes.PyDLL(None).pause()


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def fail() -> None:
    raise ValueError("the paint is out")


def memory_group(pid: int) -> Path:
    """Where the kernel is told how much memory a process may have."""
    return Path(f"/sys/fs/cgroup/memory/ident-{pid}")


def eat_memory() -> None:
    """Take memory until the kernel kills; where no limit may be set, what the kernel would do."""
    group = memory_group(os.getpid())
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(600 * 2**20))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        die()
    eaten = []
    while True:
        eaten.append(np.ones(2**24))


TROUBLES: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (die, hang, hang_in_c, freeze, fail, eat_memory)
}


@dataclass(frozen=True)
class Troubled:
    """Makes painters of which some come into trouble at one scene: as many as there are numbers up to `times`."""

    trouble: str
    folder: str
    index: int
    times: int

    def __call__(self, settings: Settings) -> Painter:
        made = Painter(settings)
        paint = made.image
        at = digest(place(WORLD.values(RECIPE.source(self.index, 1)[0]))).tobytes()

        def image(scene: Scene) -> npt.NDArray[np.uint8]:
            if digest(scene).tobytes() == at:
                for i in range(self.times):
                    try:
                        with (Path(self.folder) / f"trouble-{i}").open("x") as file:
                            file.write(str(os.getpid()))
                    except FileExistsError:
                        continue
                    TROUBLES[self.trouble]()
            return paint(scene)

        made.image = image  # type: ignore[method-assign]
        return made


RECIPE = Recipe(Uniform(0, "train"), Settings(16, plain(1)), shard_size=8)
