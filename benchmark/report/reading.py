"""Results as they lie in a folder: found, checked, grouped by suite and tier. No tier's file and no data are needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ident.benchmark.report.tables import Line, lines_of
from ident.benchmark.suites.results import RESULT, Result, Warn, load_all
from ident.benchmark.suites.rows import SUITES, Suite, load_suite
from ident.render.errors import Impossible

DEPTHS = range(1, 4)
"""How far below a folder runs lie: that of a tier, of a suite, or of all."""


@dataclass(frozen=True)
class Part:
    """What is done of a suite in a tier: the rows that have results, and behind each what is the user's."""

    suite: Suite
    tier: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Source:
    """A folder of results."""

    place: Path
    parts: Sequence[Part]


def read(place: Path, warn: Warn) -> Source:
    """All that a folder has. What is damaged, or none of ours, is left out with a warning."""
    paths = sorted(path for depth in DEPTHS for path in place.glob("*/" * depth + RESULT))
    results = load_all(paths, warn)
    if not results:
        lacking = f"none of its {len(paths)} results can be read" if paths else "no results there"
        raise Impossible(
            f"{place}: {lacking}; give a folder that ident bench wrote to, or type ident bench --out {place}"
        )
    for name in unlike(results):
        warn(f"{place}: seeds of {name} were made by different settings; their mean says little")
    parts = list[Part]()
    for suite in map(load_suite, SUITES):
        of_it = [result for result in results if result["suite"] == suite.folder]
        for tier in sorted({result["tier"] for result in of_it}):
            parts.append(Part(suite, tier, lines_of(suite, [result for result in of_it if result["tier"] == tier])))
    return Source(place, parts)


def unlike(results: Iterable[Result]) -> list[str]:
    """The runs whose seeds differ in more than the seed."""
    made = dict[str, set[str]]()
    for result in results:
        recipe = {name: value for name, value in json.loads(result["recipe"]).items() if name != "seed"}
        name = (
            ", ".join(f"{key} {result[key]}" for key in ("suite", "tier", "row", "kind")) + f" {result['own']}".rstrip()
        )
        made.setdefault(name, set()).add(json.dumps(recipe, sort_keys=True))
    return [name for name, recipes in made.items() if len(recipes) > 1]
