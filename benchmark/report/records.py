"""Results as flat records, one a run: for pandas, and for tables with a method of one's own in them.

Each has the whole result, too, so that reports can be made of records alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ident.benchmark.report.tables import Line
from ident.benchmark.suites.results import Result
from ident.benchmark.suites.suite import Suite


def records(suite: Suite, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """A record a run of a suite. A run that rows share is that of the first of them."""
    return [
        record(suite, line, result)
        for line in lines
        for kind in line.row.kinds
        for result in line.results.get(kind, ())
        if result.row == line.row.id
    ]


def record(suite: Suite, line: Line, result: Result) -> dict[str, Any]:
    """What a run is of, its scores in percent, and the paper's."""
    settings, row = result.settings, line.row.described()
    record: dict[str, Any] = {"suite": suite.name, "tier": result.tier, "row": line.row.id}
    record |= {"own": line.own, "kind": result.kind, "seed": result.seed, **row}
    positives = settings.get("positives", "")
    record |= {
        "positives": positives if isinstance(positives, str) else "",
        "objective": str(settings.get("objective", row["objective"])),
        "encoder": str(settings.get("encoder", "")),
    }
    for split, metrics in result.scores.items():
        for metric, score in metrics.items():
            record[f"{split}_{metric}"] = 100 * score.value
            for name in ("low", "high", "chance"):
                record[f"{split}_{metric}_{name}"] = 100 * getattr(score, name)
    record["split"] = suite.split
    paper = {} if line.own else line.row.paper.get(result.kind, {})
    for metric in suite.metrics:
        numbers = [*paper.get(metric, ()), None, None]  # a paper may have no sd
        record[f"paper_{metric}"], record[f"paper_{metric}_sd"] = numbers[:2]
    return record | {
        "seconds": result.seconds,
        "ident": str(result.machine["ident"]),
        "result": json.loads(result.text()),
    }


def as_lines(records: Sequence[dict[str, Any]]) -> bytes:
    """Records as JSON, one a line."""
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()
