"""Reports of results: tables, plots, and a page that has them all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ident.benchmark.report import plots
from ident.benchmark.report.tables import Line, as_data, markdown
from ident.benchmark.suites.rows import Suite
from ident.render import storage

__all__ = ["Line", "as_data", "markdown", "write"]


def write(suite: Suite, lines: Sequence[Line], folder: Path) -> list[Path]:
    """The table as Markdown and as data, and the plots, of all that is done; gives their names."""
    table, data = folder / "table.md", folder / "table.json"
    storage.write(table, markdown(suite, lines).encode())
    storage.write(data, json.dumps(as_data(suite, lines), indent=1).encode())
    return [table, data, *plots.write(suite, lines, folder)]
