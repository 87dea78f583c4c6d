"""Results as they lie in a folder: read, checked, grouped by suite and tier. No tier's file and no data are needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ident.benchmark.report.tables import Line, lines_of
from ident.benchmark.suites.results import RECORDS, RESULT, Result, Warn, known_suites, load_all
from ident.benchmark.suites.suite import Suite
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
class ResultsFolder:
    """A folder of results."""

    place: Path
    parts: Sequence[Part]


def read(place: Path, warn: Warn, suites: Sequence[Suite] = ()) -> ResultsFolder:
    """All that a folder has of our suites and more, by the files of runs, or if there are none by records of them.

    What is damaged, or of no such, is left out with a warning.
    """
    paths = sorted(path for depth in DEPTHS for path in place.glob("*/" * depth + RESULT))
    paths = paths or sorted(path for depth in DEPTHS for path in place.glob("*/" * (depth - 1) + RECORDS))
    known = known_suites(suites)
    results = load_all(paths, warn, known)
    if not results:
        lacking = f"none of its {len(paths)} results can be read" if paths else "no results there"
        raise Impossible(
            f"{place}: {lacking}; give a folder that ident bench wrote to, or type ident bench --out {place}"
        )
    for name in unlike(results):
        warn(f"{place}: seeds of {name} were made by different settings; their mean says little")
    parts = list[Part]()
    for suite in known.values():
        of_suite = [result for result in results if result.suite == suite.folder]
        for tier in sorted({result.tier for result in of_suite}):
            parts.append(Part(suite, tier, lines_of(suite, [result for result in of_suite if result.tier == tier])))
    return ResultsFolder(place, parts)


def unlike(results: Iterable[Result]) -> list[str]:
    """The runs whose seeds differ in more than the seed."""
    recipes = dict[str, set[str]]()
    for result in results:
        recipe = {name: value for name, value in result.settings.items() if name != "seed"}
        run = f"suite {result.suite}, tier {result.tier}, row {result.row}, kind {result.kind} {result.own}".rstrip()
        recipes.setdefault(run, set()).add(json.dumps(recipe, sort_keys=True))
    return [run for run, different in recipes.items() if len(different) > 1]
