"""What a terminal is shown. Texts from outside (names, servers' answers, others' files) do not control it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.text import Text

UNBOUNDED = 2**16
"""Columns of a file or a pipe."""


def printable(text: str) -> str:
    r"""A text whose characters are all visible: escapes, like \x1b, for those that are not; lines stay."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def say(text: str, *, err: bool = False) -> None:
    """Print a text: results to stdout, all else to stderr."""
    click.echo(printable(text), err=err)


def warn(text: str) -> None:
    """Say in a line on stderr what the user should know of a result that is there nevertheless."""
    say(f"ident: {' '.join(text.split())}", err=True)


def say_json(result: Any) -> None:
    """Print a result as JSON, whose strings escape control characters; but for one, which is ASCII's last."""
    click.echo(json.dumps(result).replace("\x7f", r"\u007f"))


def say_table(heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print columns beside each other: on a terminal folded to its width, elsewhere as wide as they need, unless
    the variable COLUMNS says how wide. Heads that are all empty are not shown. A cell of a colour is a `Text`.
    """
    from rich.console import Console  # here: `ident --help` is there at once
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=any(heads), pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(Text(printable(head)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in row))
    bounded = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    Console(width=None if bounded else UNBOUNDED).print(table)
