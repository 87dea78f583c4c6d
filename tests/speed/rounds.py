"""Ways to do the same, timed in turn and each in a process of its own: what slows the machine slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

Step = Callable[[], object]


class Way(NamedTuple):
    """A function that gives a step, what it is called with, and how many steps a round has."""

    prepare: Callable[..., Step]
    arguments: tuple[Any, ...]
    steps: int


class Cost(NamedTuple):
    """Seconds a step, the median of all rounds, and the peak of memory in gigabytes."""

    seconds: float
    gigabytes: float


def measure(ways: Mapping[str, Way], rounds: int) -> dict[str, Cost]:
    """What a step of each way costs, after a first round that warms up."""
    context, lines = get_context("spawn"), dict[str, Connection]()
    with ExitStack() as stack:
        for name, way in ways.items():
            lines[name], theirs = context.Pipe()
            process = context.Process(target=serve, args=(way, theirs), daemon=True)
            process.start()
            theirs.close()  # so that a process that fails is noticed
            stack.callback(process.join)
            stack.callback(lines[name].close)
        told: dict[str, list[Cost]] = {name: [] for name in ways}
        for _ in range(rounds + 1):
            for name, line in lines.items():
                line.send(None)
                told[name].append(line.recv())
    return {name: Cost(median(cost.seconds for cost in costs[1:]), costs[-1].gigabytes) for name, costs in told.items()}


def serve(way: Way, line: Connection) -> None:
    """Take a round of steps whenever the line asks for it, and tell their cost."""
    step = way.prepare(*way.arguments)
    while True:
        try:
            line.recv()
        except EOFError:
            return
        began = time.perf_counter()
        for _ in range(way.steps):
            step()
        line.send(Cost((time.perf_counter() - began) / way.steps, peak()))


def peak() -> float:
    """Gigabytes that this process has had at most; getrusage has the parent's peak, too."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024 / 1e9
