"""Progress on stderr: one live bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ident.cli.terminal import printable, say

SECONDS_BETWEEN_LINES = 10.0


class Done(Protocol):
    """Is told how many are done, of how many, and what else there is to say."""

    def __call__(self, count: int, total: int, note: str = "") -> object:
        """First with how many were there before: those do not count towards the rate."""


def duration(seconds: float) -> str:
    """Seconds as a person says them: 42 s, 3 min 20 s, 7 h 05 min."""
    minutes, hours = seconds / 60, seconds / 3600
    if minutes < 1:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{int(minutes)} min {int(seconds) % 60:02d} s"
    return f"{int(hours)} h {int(minutes) % 60:02d} min"


def plural(count: int, noun: str) -> str:
    """1 worker, 2 workers."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def in_bytes(count: float) -> str:
    """Bytes as a person says them: 0.8 MB, 1.7 GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


@contextmanager
def progress(what: str, words: Callable[[float], str] = "{:.0f}".format) -> Iterator[Done]:
    """Gives a function to tell how far it is; `words` has a count in words, like in_bytes."""
    console = Console(stderr=True)
    live = console.is_terminal
    last = start = time.monotonic()
    first = before = -1
    finished = False
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[far]}", markup=False),
    )
    bar = Progress(*columns, console=console)
    with bar if live else nullcontext():
        task = bar.add_task(printable(what), total=None, far="")

        def done(count: int, total: int, note: str = "") -> None:
            nonlocal first, before, start, last, finished
            now = time.monotonic()
            if first < 0:
                first = count
            if before < 0 or before == first < count:  # the rate counts from the first one on: starting takes a while
                before, start = count, now
            rate = (count - before) / max(now - start, 1e-9)
            parts = [f"{words(count)}/{words(total)}", note]
            if rate > 0 and count < total:
                pace = f"{rate:.1f}" if words(rate).isdecimal() else words(rate)
                parts[1:1] = [f"{pace}/s", f"{duration((total - count) / rate)} left"]
            far = ", ".join(filter(None, parts))
            bar.update(task, completed=count, total=total, far=printable(far))
            if not live and not finished and (now - last >= SECONDS_BETWEEN_LINES or count == total):
                last, finished = now, count == total
                say(f"{what}: {far}", err=True)

        yield done
