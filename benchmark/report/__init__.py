"""Reports of results: tables, plots, and a page that has them all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ident.benchmark.report import plots, records
from ident.benchmark.report.formats import latex, markdown, sheet
from ident.benchmark.report.tables import Line, as_data, distinct
from ident.benchmark.suites.results import RECORDS
from ident.benchmark.suites.suite import Suite
from ident.render.store import files

__all__ = ["Line", "as_data", "markdown", "write"]


def write(suite: Suite, lines: Sequence[Line], folder: Path) -> list[Path]:
    """The table as texts and as data, a record a run, and the plots, of all that is done; gives their names."""
    table = distinct(suite, lines)
    contents = {
        "table.md": markdown(suite, table).encode(),
        "table.tex": latex(suite, table).encode(),
        "table.csv": sheet(suite, table).encode(),
        "table.json": json.dumps(as_data(suite, table), indent=1).encode(),
        RECORDS: records.as_lines(records.records(suite, lines)),
    }
    for name, content in contents.items():
        files.write(folder / name, content)
    return [*(folder / name for name in contents), *plots.write(suite, lines, folder)]
