"""Progress on stderr: one live bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to tell how many are done, of how many; first how many were there before.

    Those do not count towards the rate.
    """
    console = Console(stderr=True)
    live = console.is_terminal
    start = last = time.monotonic()
    before: int | None = None
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[pace]}"))
    with Progress(*columns, console=console, disable=not live) as bar:
        task = bar.add_task(what, total=None, pace="")

        def done(count: int, total: int) -> None:
            nonlocal before, start, last
            now = time.monotonic()
            if before is None:
                before, start, last = count, now, now
            rate = (count - before) / max(now - start, 1e-9)
            pace = f"{rate:.1f}/s, {(total - count) / rate:.0f} s left" if rate else ""
            bar.update(task, completed=count, total=total, pace=pace)
            if not live and (now - last >= SECONDS_BETWEEN_LINES or count == total):
                last = now
                click.echo(f"{what}: {count}/{total}" + (f", {pace}" if pace else ""), err=True)

        yield done
