"""Suites: tables of rows. Ours are the files in `tables/` beside this one; a user's is a TOML file like these."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from ident.benchmark.metrics.lookup import check_name
from ident.benchmark.registry import CHECKS, MIXED
from ident.benchmark.suites.rows import PARTS, Row, agrees, row_of
from ident.benchmark.suites.toml import OURS, cells, frozen, read_file, read_ours
from ident.benchmark.training.schedule import is_number
from ident.render import plugins
from ident.render.errors import Impossible, unknown

NAME = re.compile(r"\w[\w.-]{0,99}")
"""What the name of a user's suite looks like, which the folder of its results has."""
MOST_ROWS, MOST_METRICS = 1000, 32
BACKBONE = "backbone"
SPLITS = ("test", "train", BACKBONE)
AVERAGES = {"mean": "sd", "median": "median absolute deviation"}
"""How seeds are averaged, and what says how far they spread."""


@dataclass(frozen=True)
class Suite:
    """A table of rows."""

    name: str
    title: str
    metrics: tuple[str, ...]
    """The first is the one that is told on the way."""
    rows: tuple[Row, ...]
    split: str = "test"
    """Where its scores are taken: on what the model has not seen, or on what it was trained on (`train`); or on what it
    has not seen, before the model's projector (`backbone`).
    """
    runs: str = ""
    """The suite whose runs it shows, if they are not its own."""
    ceilings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The most that any encoder can have by a metric, in percent, of factors that observations do not always show."""
    average: str = "mean"
    """How seeds are averaged: `mean` with the standard deviation, or `median` with the median absolute deviation."""
    checks: tuple[str, ...] = ()
    """What is told of how far a training is from theory, of the rows of which theory says so."""
    targets: tuple[float, ...] = ()
    """Scores by the first metric, in percent, of which is told how many steps they took."""
    axes: Mapping[str, str] = field(default_factory=dict)
    """What figures have on their horizontal axis, by the name of the figure."""

    def __post_init__(self) -> None:
        if not isinstance(self.title, str) or not self.title.isprintable() or len(self.title) > 200:
            raise Impossible(f"title {self.title!r}: give a line of text")
        if not isinstance(self.metrics, tuple) or not 1 <= len(self.metrics) <= MOST_METRICS:
            raise Impossible(f"metrics {self.metrics!r}: give a list of 1 to {MOST_METRICS}")
        for metric in self.metrics:
            check_name(metric)
        if not isinstance(self.checks, tuple) or len(self.checks) > MOST_METRICS:
            raise Impossible(f"checks {self.checks!r}: give a list of some of {', '.join(CHECKS.entries)}")
        for one in self.checks:
            CHECKS.check(one)
        if not isinstance(self.targets, tuple) or not all(is_number(one) and abs(one) <= 100 for one in self.targets):
            raise Impossible(f"targets {self.targets!r}: give a list of scores in percent")
        if not isinstance(self.axes, Mapping) or not all(
            isinstance(one, str) and one.isprintable() and len(one) <= 100 for one in self.axes.values()
        ):
            raise Impossible(f"axes {self.axes!r}: give a table of figures and what is on their horizontal axis")
        if self.split not in SPLITS:
            raise Impossible(f"split {self.split!r}: choose from {', '.join(SPLITS)}")
        if self.average not in AVERAGES:
            raise Impossible(f"average {self.average!r}: choose from {', '.join(AVERAGES)}")
        if not 1 <= len(self.rows) <= MOST_ROWS:
            raise Impossible(f"{len(self.rows)} rows: give 1 to {MOST_ROWS}")
        for name, most in self.ceilings.items() if isinstance(self.ceilings, Mapping) else [("", None)]:
            numbers = isinstance(most, Mapping) and all(
                type(value) in (int, float) and abs(value) <= 100 for value in most.values()
            )
            if not numbers or not name.isprintable() or len(name) > 100:
                raise Impossible(f"ceilings {self.ceilings!r}: give a factor's most by each metric, in percent")
            for metric in most or ():
                check_name(metric)
        for name, count in Counter(row.id for row in self.rows).items():
            if count > 1:
                raise Impossible(f"{count} rows have the id {name}: give each its own")

    @property
    def listed(self) -> str:
        """Its metrics as a sentence lists them."""
        *most, last = self.metrics
        return f"{', '.join(most)} and {last}" if most else last

    @property
    def stored(self) -> bool:
        """Whether any of its rows is trained on a dataset."""
        return any(row.stored for row in self.rows)

    @property
    def drawn(self) -> bool:
        """Whether its rows are trained on images that are drawn, or that a single file has."""
        return any(row.drawn for row in self.rows)

    @property
    def pictures(self) -> bool:
        """Whether its rows are trained on pictures with classes, of which no other factor is known."""
        return any(row.pictures for row in self.rows)

    @property
    def images(self) -> bool:
        """Whether any of its rows is trained on images."""
        return any(row.traits.images for row in self.rows)

    @property
    def files(self) -> bool:
        """Whether any of its rows reads files of others'."""
        return any(row.traits.files for row in self.rows)

    @property
    def observations(self) -> str:
        """The table of `tiers.toml` that its tiers stand in: that of its first row of images, if it has such."""
        return next((row.traits.observations for row in self.rows if row.traits.images), MIXED)

    @property
    def folder(self) -> str:
        """The suite that has the runs."""
        return self.runs or self.name

    @property
    def modules(self) -> tuple[str, ...]:
        """What it names of users' modules: these would be imported."""
        own = [name for name in self.metrics if plugins.is_one(name)]
        return tuple(dict.fromkeys([*own, *(name for row in self.rows for name in row.modules)]))

    def row(self, name: str) -> Row:
        """The row with an id."""
        for row in self.rows:
            if row.id == name:
                return row
        raise unknown(f"{self.name}: row", name, [row.id for row in self.rows])

    def sharing(self, row: Row, kind: str) -> list[Row]:
        """The rows whose scores of a kind are of one run, that of a row; the run is kept under the first one's id."""
        if kind == "unsupervised":
            return [row]
        setting = json.dumps(row.setting(kind))
        return [one for one in self.rows if kind in one.kinds and json.dumps(one.setting(kind)) == setting]


def names() -> tuple[str, ...]:
    """The names of our suites."""
    files = (file.name for file in OURS.joinpath("tables").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_suite(name: str) -> Suite:
    """A suite of ours by its name, or a user's by its file. Nothing that it names is imported."""
    if not name.endswith(".toml"):
        return _ours(name)
    stem = Path(name).stem
    if stem in names() or not NAME.fullmatch(stem):
        raise Impossible(f"{name}: its results would go to a folder {stem!r}; give it another name")
    content = read_file(Path(name), "suite", f"{', '.join(names())}, or a file like those in benchmark/suites/tables")
    try:
        return suite_of(stem, content)
    except Impossible as error:
        raise Impossible(f"{name}: {error}") from error


def check_trusted(suite: Suite, *, trust: bool) -> None:
    """Refuse a suite that names users' modules, unless its user trusts it."""
    if suite.modules and not trust:
        names = ", ".join(suite.modules)
        raise Impossible(f"{suite.name}: names {names}, whose modules would be imported; if you trust it, add --trust")


@cache
def _ours(name: str) -> Suite:
    if name not in names():
        raise unknown("suite", name, names(), "a file that ends in .toml")
    return suite_of(name, read_ours(f"tables/{name}"))


def suite_of(name: str, content: Mapping[str, Any]) -> Suite:
    """A suite as it stands in a file."""
    content, base = dict(content), None
    if "runs" in content:
        if content["runs"] not in names():
            raise unknown("runs", content["runs"], names())
        base = read_ours(f"tables/{content['runs']}")
        content = base | content
    shared, papers, rows = content.pop("every_row", {}), content.pop("papers", {}), content.pop("rows", None)
    if not isinstance(rows, list) or not all(isinstance(one, dict) for one in [*rows, shared, papers]):
        raise Impossible("rows: give [[rows]], and tables as every_row and papers")
    known = [item.name for item in fields(Suite) if item.name not in ("name", "rows")]
    if wrong := sorted(set(content) - set(known)):
        raise Impossible(f"nobody knows {', '.join(wrong)}; there are rows, every_row, papers, {', '.join(known)}")
    if lacking := {"title", "metrics"} - set(content):
        raise Impossible(f"lacks {' and '.join(sorted(lacking))}")
    settings = {key: frozen(value) for key, value in content.items()}
    spread = (row for one in rows for row in cells(with_shared(shared, one), MOST_ROWS))
    suite = Suite(name, rows=tuple(map(row_of, islice(spread, MOST_ROWS + 1))), **settings)
    if base is not None and (not set(suite.metrics) <= set(base["metrics"]) or rows is not base["rows"]):
        raise Impossible(f"shows the runs of {suite.runs}: leave out rows, and metrics that it has not")
    if base is None and not papers:
        return suite
    for one in papers:
        suite.row(one)
    return replace(suite, rows=tuple(replace(row, paper=frozen(papers.get(row.id, {}))) for row in suite.rows))


def with_shared(shared: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with what every row has; what both say of a tier is put together, the row's word before the others'."""
    tables = [one.get("tiers", {}) for one in (shared, row)]
    if not all(isinstance(tiers, dict) and all(isinstance(one, dict) for one in tiers.values()) for tiers in tables):
        return {**shared, **row}  # which the row refuses
    every, own = tables
    tiers = {tier: {**every.get(tier, {}), **own.get(tier, {})} for tier in (*every, *own)}
    return {**shared, **row, **({"tiers": tiers} if tiers else {})}


def select(suite: Suite, wanted: Mapping[str, str], ids: Sequence[str] = ()) -> tuple[Row, ...]:
    """The rows of a suite that agree with what is wanted: `laplace` with `laplace(0.05)`, too."""
    named = [suite.row(name) for name in ids]
    rows = tuple(
        row
        for row in suite.rows
        if (not ids or row in named)
        and all(any(agrees(part, text) for part in PARTS[name](row)) for name, text in wanted.items())
    )
    if not rows:
        asked = [f"{name.replace('_', '-')} {text}" for name, text in wanted.items()]
        asked += [f"row {name}" for name in ids]
        listed = "; ".join(map(str, suite.rows))
        raise Impossible(f"{suite.name} has no row with {', '.join(asked)}. Its rows are {listed}")
    return rows
