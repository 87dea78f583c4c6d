"""Results as they lie in a folder: found, checked, grouped by suite and tier. No tier's file and no data are needed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ident.benchmark.metrics import METRICS
from ident.benchmark.report.tables import Line, lines_of
from ident.benchmark.suites.results import RESULT, Result, load
from ident.benchmark.suites.rows import SUITES, Row, Suite, load_suite
from ident.render.errors import Failed, Impossible

DEPTHS = range(1, 4)
"""How far below a folder runs lie: that of a tier, of a suite, or of all."""
FOLDER = "folder"
"""Where a result lies: a result that was found has it beside what its file has."""


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


def read(place: Path, warn: Callable[[str], object]) -> Source:
    """All that a folder has. What is damaged, or of something else, is left out with a warning."""
    found = dict[tuple[object, ...], Result]()
    for path in sorted(path for depth in DEPTHS for path in place.glob("*/" * depth + RESULT)):
        try:
            result = load(path, dim_of)
        except Failed as error:
            warn(f"{error}, or of something else; left out")
            continue
        except Impossible as error:
            raise Impossible(f"{error}; type ident bench with another --out, and ident report with that") from error
        key = tuple(result[name] for name in ("suite", "tier", "row", "own", "kind", "seed"))
        if key in found:
            warn(f"{path}: is the same run as {found[key][FOLDER]}; left out")
        else:
            found[key] = {**result, FOLDER: path.parent}
    if not found:
        raise Impossible(
            f"{place}: no results there; give a folder that ident bench wrote to, or type ident bench --out {place}"
        )
    for name in unlike(found.values()):
        warn(f"{place}: seeds of {name} were made by different settings; their mean says little")
    parts = list[Part]()
    for suite in map(load_suite, SUITES):
        of_it = [result for result in found.values() if result["suite"] == suite.folder]
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


def dim_of(result: Result) -> int:
    """How many latents a result is of, if its suites know it."""
    showing = [suite for suite in map(load_suite, SUITES) if suite.folder == result["suite"]]
    number, kind, seed = result["row"], result["kind"], result["seed"]
    if not showing or type(number) is not int or not 1 <= number <= len(showing[0].rows):
        raise ValueError(f"nobody knows row {number!r} of suite {result['suite']!r}")
    row = showing[0].rows[number - 1]
    if kind not in row.kinds or type(seed) is not int or seed < 0:
        raise ValueError(f"kind {kind!r}, seed {seed!r}")
    if not isinstance(result["own"], str) or not re.fullmatch(r"\w[\w.-]{0,99}", result["tier"]):
        raise ValueError(f"own {result['own']!r}, tier {result['tier']!r}")
    if not all(set(METRICS) == set(split) for split in result["scores"].values()):
        raise ValueError("its scores are others")
    if {suite.split for suite in showing} - set(result["scores"]) or set(result["scores"]) - {"test", "train"}:
        raise ValueError("its splits are others")
    if len(result["learned"]) not in (0, learns(row)):
        raise ValueError("it has learned what its row does not")
    if not (isinstance(result["data"], dict) and isinstance(result["machine"], dict)):
        raise ValueError("its data or its machine are none")
    return row.dim


def learns(row: Row) -> int:
    """How many precisions a row's loss has."""
    return {"aninfonce": 1, "ensemble": 1 + len(row.others)}.get(row.loss, 0) * row.dim
