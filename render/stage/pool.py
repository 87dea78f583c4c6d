"""Many images at once, from a pool of engines on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache

import numpy as np

from ident.render.aliases import Array, Float32s
from ident.render.children import SAFE_PATH, environment
from ident.render.errors import Failed
from ident.render.threads import cores
from ident.render.worlds import World
from ident.render.worlds.engine import Engine, Settings

Frame = dict[str, Array]
"""One scene's arrays: "image", the passes by name, and the "seconds" that they took."""

_ORDERS = list[tuple[World, Settings]]()
"""Of a process of the pool: what it renders, and by what."""


@cache
def _engine() -> Engine:
    world, settings = _ORDERS[0]
    return settings.start(world)


def _frame(raw: Float32s, passes: tuple[str, ...]) -> Frame:
    scene = _ORDERS[0][0].scene_of(raw)
    engine, start = _engine(), time.monotonic()
    frame = {"image": engine.image(scene), **(engine.passes(scene, passes) if passes else {})}
    return {**frame, "seconds": np.array(time.monotonic() - start)}


def _begin(world: World, settings: Settings) -> None:
    _ORDERS.append((world, settings))
    _follow_parent()


def _follow_parent() -> None:
    """Leave interrupts to the parent, and end when it ends, however that comes about."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def frames(
    world: World, settings: Settings, raw: Float32s, passes: tuple[str, ...] = ()
) -> Iterator[tuple[int, Frame]]:
    """The frames of raw latents (n, d) with their row numbers, as they are done: an engine a core, or one on GPUs."""
    others = set(multiprocessing.active_children())
    with environment(SAFE_PATH):  # multiprocessing starts Python by `python -c`
        pool = ProcessPoolExecutor(
            max_workers=1 if settings.gpus else min(cores(), len(raw)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(world, settings),
        )
    try:
        with environment(SAFE_PATH):
            rows: dict[Future[Frame], int] = {pool.submit(_frame, row, passes): i for i, row in enumerate(raw)}
        for done in as_completed(rows):
            yield rows.pop(done), done.result()
    except BrokenProcessPool as error:
        raise Failed("an engine died (out of memory?); type the same command to go on") from error
    finally:
        # Killed, not asked to end: a frame may take long that nobody wants any more, and Blender may hang as it ends.
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        pool.shutdown(cancel_futures=True)
