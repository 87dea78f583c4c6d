"""Reports of results: tables, plots, and a page that has them all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ident.benchmark.report import plots, records
from ident.benchmark.report.tables import Line, as_data, markdown
from ident.benchmark.suites.rows import Suite
from ident.render import storage

__all__ = ["Line", "as_data", "markdown", "write"]


def write(suite: Suite, lines: Sequence[Line], folder: Path) -> list[Path]:
    """The table as Markdown and as data, a record a run, and the plots, of all that is done; gives their names."""
    files = {
        "table.md": markdown(suite, lines).encode(),
        "table.json": json.dumps(as_data(suite, lines), indent=1).encode(),
        "results.jsonl": records.as_lines(records.records(suite, lines)),
    }
    for name, content in files.items():
        storage.write(folder / name, content)
    return [*(folder / name for name in files), *plots.write(suite, lines, folder)]
