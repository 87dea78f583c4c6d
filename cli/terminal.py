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
GAP = 2
"""Columns between those of a table."""
WORD = 16
"""Letters of a word that may be broken, where there is no room: ids of rows are longer."""


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

    bounded = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    console = Console(width=None if bounded else UNBOUNDED)
    table = Table(box=None, show_header=any(heads), pad_edge=False, padding=(0, GAP, 0, 0))
    texts = [[Text(printable(cell)) if isinstance(cell, str) else cell for cell in row] for row in (heads, *rows)]
    columns = [[str(cell) for cell in column] for column in zip(*texts, strict=True)]
    for head, width in zip(texts[0], widths(columns, console.width - GAP * (len(heads) - 1)), strict=True):
        table.add_column(head, overflow="fold", width=width)
    for row in texts[1:]:
        table.add_row(*row)
    console.print(table)


def widths(columns: Sequence[Sequence[str]], room: int) -> list[int | None]:
    """How wide columns of a head and cells are: as these, or as there is room for words; None if there is none."""
    from rich.cells import cell_len

    longest = [max(map(cell_len, column)) for column in columns]
    words = [
        max(cell_len(column[0]), min(WORD, max(cell_len(word) for text in column for word in text.split() or [""])))
        for column in columns
    ]
    more = [long - word for long, word in zip(longest, words, strict=True)]
    spare = room - sum(words)
    if spare < 0:
        return [None] * len(columns)
    share = min(1.0, spare / max(1, sum(more)))
    return [word + int(extra * share) for word, extra in zip(words, more, strict=True)]
