"""Results as flat records, one a run: for pandas, and for tables with a method of one's own in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ident.benchmark.report.tables import DESCRIBED, Line
from ident.benchmark.suites.results import Result
from ident.benchmark.suites.rows import Suite


def records(suite: Suite, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """A record a run of a suite. A run that rows share is that of the first of them."""
    return [
        record(suite, line, result)
        for line in lines
        for kind in line.row.kinds
        for result in line.results.get(kind, ())
        if result["row"] == line.row.id
    ]


def record(suite: Suite, line: Line, result: Result) -> dict[str, Any]:
    """What a run is of, its scores in percent, and the paper's."""
    recipe = json.loads(result["recipe"])
    row = {name: getattr(line.row, name) for name in DESCRIBED}
    made: dict[str, Any] = {"suite": suite.name, "tier": result["tier"], "row": line.row.id}
    made |= {"own": line.own, "kind": result["kind"], "seed": result["seed"], **row}
    made |= {"loss": str(recipe.get("loss", line.row.loss)), "encoder": str(recipe.get("encoder", ""))}
    for split, metrics in result["scores"].items():
        for metric, score in metrics.items():
            made[f"{split}_{metric}"] = 100 * score["value"]
            made |= {f"{split}_{metric}_{name}": 100 * score[name] for name in ("low", "high", "chance")}
    made["split"] = suite.split
    paper = {} if line.own else line.row.paper.get(result["kind"], {})
    for metric in suite.metrics:
        made[f"paper_{metric}"], made[f"paper_{metric}_sd"] = paper.get(metric, (None, None))
    return made | {"seconds": result["seconds"], "ident": str(result["machine"]["ident"])}


def as_lines(made: Sequence[dict[str, Any]]) -> bytes:
    """Records as JSON, one a line."""
    return "".join(f"{json.dumps(one)}\n" for one in made).encode()
