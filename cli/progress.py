"""Progress on stderr: one live bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of items that are done since the last call."""
    console = Console(stderr=True)
    if console.is_terminal:
        rate = TextColumn("{task.fields[rate]}")
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(what, total=total, rate="")

            def advance(items: int) -> None:
                bar.advance(task, items)
                speed = bar.tasks[0].speed
                bar.update(task, rate=f"{speed:.1f}/s" if speed else "")

            yield advance
    else:
        start = last = time.monotonic()
        count = 0

        def log(items: int) -> None:
            nonlocal count, last
            count += items
            now = time.monotonic()
            if items and (now - last >= SECONDS_BETWEEN_LINES or count == total):
                last, rate = now, count / max(now - start, 1e-9)
                click.echo(f"{what}: {count}/{total}, {rate:.1f}/s, {(total - count) / rate:.0f} s left", err=True)

        yield log
