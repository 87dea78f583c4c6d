"""How soon the command answers, and how soon reading can begin: each against the time that it may take."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROUNDS = 9

STARTS = {
    "help": ([str(Path(sys.executable).with_name("ident")), "--help"], 0.2),
    "store": ([sys.executable, "-c", "import ident.render.store.dataset"], 0.5),
    "metrics": ([sys.executable, "-c", "import ident.benchmark.metrics"], 0.5),
}
"""What is started, and the seconds that it may take."""


def seconds(command: list[str]) -> float:
    """How long a process takes."""
    start = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - start


def measure() -> Iterator[dict[str, Any]]:
    """A ratio for each."""
    commands = {"bare": [sys.executable, "-c", "pass"], **{name: command for name, (command, _) in STARTS.items()}}
    rounds = [{name: seconds(command) for name, command in commands.items()} for _ in range(1 + ROUNDS)][1:]
    best = {name: min(times[name] for times in rounds) for name in commands}
    for name, (command, allowed) in STARTS.items():
        yield {
            "name": f"imports.{name}",
            "ratio": round(allowed / best[name], 2),
            "bar": 1.0,
            "quality": 1.0,
            "unit": f"times as fast as {allowed} s",
            "note": f"{command[-1]}: {best[name]:.3f} s at best of {ROUNDS}, a bare Python {best['bare']:.3f} s",
        }
