"""Results as tables: the papers' scores and ours beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ident.benchmark.metrics.lookup import known
from ident.benchmark.suites.results import Result
from ident.benchmark.suites.rows import KINDS, UNTRAINED, Row
from ident.benchmark.suites.suite import Suite
from ident.render import plugins

SHORT = 30
"""Letters of ids that a label lists."""


@dataclass(frozen=True)
class Line:
    """A row of a table and its results, one a seed, by kind."""

    row: Row
    results: Mapping[str, Sequence[Result]] = field(default_factory=dict)
    own: str = ""
    """What the user has in it that the table has not: a loss, an encoder."""
    shared: Sequence[str] = ()
    """The ids of the rows that share these runs, of a line for runs alone."""
    above: Mapping[str, str] = field(default_factory=dict)
    """The kinds whose runs another line of the same table shows, and the label of that."""

    @property
    def label(self) -> str:
        """The id of the row, or those of the rows that share its runs; and what is the user's."""
        return f"{listed(self.shared or (self.row.id,))} {self.own}".strip()

    @property
    def words(self) -> Mapping[str, str]:
        """What it is: of a row, or what the rows agree in that share its runs."""
        words = self.row.words(next(iter(self.results)) if self.shared else "")
        return words | {"data": ", ".join(filter(None, [words["data"], self.positives]))}

    @property
    def positives(self) -> str:
        """Where the positives of its runs came from: exact ones, or nearest neighbours."""
        said = {str(result.settings.get("positives", "")) for result in self.results.get("unsupervised", ())}
        return " or ".join(sorted(said & {"exact", "nearest"}))

    @property
    def factors(self) -> Sequence[str]:
        """The names of what was to be recovered."""
        return next((result.factors for results in self.results.values() for result in results), ())

    @property
    def whole(self) -> bool:
        """Whether it has the score that its row is there for."""
        return bool(self.results.get(max(self.row.kinds, key=KINDS.index)))


COLUMNS: dict[str, Callable[[Line], str]] = {
    "row": lambda line: line.label,
    "data": lambda line: line.words["data"],
    "model": lambda line: line.words["model"],
}
"""What each table has, by its head, before the scores: on the page, in all formats and in a terminal."""


def texts(line: Line) -> list[str]:
    """What each table has of a line before the scores."""
    return [text(line) for text in COLUMNS.values()]


def listed(ids: Sequence[str]) -> str:
    """Ids of rows, as far as they are short; else the first and how many more."""
    text = ", ".join(ids)
    return text if len(ids) == 1 or len(text) <= SHORT else f"{ids[0]} and {len(ids) - 1} more"


def lines_of(suite: Suite, results: Sequence[Result]) -> list[Line]:
    """The rows that have results, and behind each what is the user's. A run that rows share stands in all of them."""
    lines = list[Line]()
    for row in suite.rows:
        for own in sorted({"", *(result.own for result in results if result.row == row.id)}):
            seeds = dict[str, list[Result]]()
            for kind in row.kinds:
                run = suite.sharing(row, kind)[0].id, own, kind
                of_run = [result for result in results if (result.row, result.own, result.kind) == run]
                if of_run:
                    seeds[kind] = sorted(of_run, key=lambda result: result.seed)
            if seeds:
                lines.append(Line(trained(row, seeds) if own else row, seeds, own))
    return lines


def distinct(suite: Suite, lines: Sequence[Line]) -> list[Line]:
    """The lines of a table that shows each run once.

    These are the rows with the score that they are there for. Where one has a run that a line above shows, it names
    that; and what is done of other rows alone, which rows share, has a line of its own.
    """
    labels, table = dict[tuple[str, str, str], str](), list[Line]()

    def run(line: Line, kind: str) -> tuple[str, str, str]:
        return line.results[kind][0].row, line.own, kind

    for line in filter(lambda line: line.whole, lines):
        above = {kind: labels[run(line, kind)] for kind in line.results if run(line, kind) in labels}
        labels |= {run(line, kind): line.label for kind in line.results if kind not in above}
        table.append(replace(line, above=above))
    for line in lines:
        for kind in (kind for kind in line.results if run(line, kind) not in labels):
            rows = suite.sharing(line.row, kind)
            table.append(Line(rows[0], {kind: line.results[kind]}, line.own, [row.id for row in rows]))
            labels[run(line, kind)] = table[-1].label
    places = [row.id for row in suite.rows]
    return sorted(table, key=lambda line: places.index(line.row.id))


def trained(row: Row, results: Mapping[str, Sequence[Result]]) -> Row:
    """A row with the objective that its results are of, if that is the user's."""
    objectives = [str(result.settings.get("objective")) for result in results.get("unsupervised", ())]
    return row.trained_by(objectives[0]) if objectives and plugins.is_one(objectives[0]) else row


@dataclass(frozen=True)
class Cell:
    """A score in percent: ours, mean and sd over seeds, or median and median absolute deviation; the interval by the
    samples that it is of; the paper's.
    """

    ours: float
    sd: float
    seeds: int
    low: float
    high: float
    paper: Sequence[float] | None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.paper is None else self.ours - self.paper[0]

    @property
    def text(self) -> str:
        """Mean and sd."""
        return f"{self.ours:.2f} ± {self.sd:.2f}" if self.seeds > 1 else f"{self.ours:.2f}"

    @property
    def papers(self) -> str:
        """The paper's mean and sd."""
        return "" if self.paper is None else " ± ".join(f"{number:.2f}" for number in self.paper)


def cell(suite: Suite, line: Line, kind: str, metric: str) -> Cell | None:
    """The score of a kind of a row, if there is a result."""
    results = line.results.get(kind, ())
    if not results:
        return None
    scores = [result.scores[suite.split][metric] for result in results]
    values, low, high = ([100 * getattr(score, name) for score in scores] for name in ("value", "low", "high"))
    ours, sd = over_seeds(suite, values)
    paper = None if line.own else line.row.paper.get(kind, {}).get(metric)
    return Cell(ours, sd, len(values), float(np.mean(low)), float(np.mean(high)), paper)


def over_seeds(suite: Suite, values: Sequence[float]) -> tuple[float, float]:
    """The average of scores and how far they spread, as the suite has them."""
    if suite.average == "median":
        median = float(np.median(values))
        return median, float(np.median(np.abs(np.asarray(values) - median)))
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class ScoreColumn:
    """What a column of a table shows; of a table whose rows have one kind each, that kind is not named."""

    kind: str | None
    metric: str

    def kind_of(self, line: Line) -> str:
        """The kind that it shows of a row."""
        return self.kind or line.row.kinds[0]

    def cell(self, suite: Suite, line: Line) -> Cell | None:
        """What it shows of a row."""
        return cell(suite, line, self.kind_of(line), self.metric)

    def above(self, line: Line) -> str:
        """Where the score of a row stands, if that is in another line."""
        label = line.above.get(self.kind_of(line))
        return f"as {label}" if label else ""


def columns_of(suite: Suite, lines: Sequence[Line]) -> dict[str, ScoreColumn]:
    """The columns that any of the rows has a result for, by their heads."""
    if all(len(row.kinds) == 1 for row in suite.rows) and len({row.kinds for row in suite.rows}) > 1:
        return {metric: ScoreColumn(None, metric) for metric in suite.metrics}
    kinds = [kind for kind in KINDS if any(line.results.get(kind) for line in lines)]
    one = len(suite.metrics) == 1
    return {
        kind if one else f"{kind} {metric}": ScoreColumn(kind, metric) for kind in kinds for metric in suite.metrics
    }


def as_data(suite: Suite, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The table as data: a row each, with all that is known of it."""
    table = []
    for line in lines:
        row = line.row
        entry: dict[str, Any] = {"row": row.id, "own": line.own, **row.described()}
        for kind in row.kinds:
            scores = {metric: cell(suite, line, kind, metric) for metric in suite.metrics}
            if any(scores.values()):
                entry[kind] = {metric: rounded(score) for metric, score in scores.items() if score}
        if line.shared:
            entry["rows"] = list(line.shared)
        if suite.checks:
            far = {name: cell_of_check(suite, line, name) for name in suite.checks}
            entry["checks"] = {name: rounded(score) for name, score in far.items() if score}
        if suite.targets and line.results.get("unsupervised"):
            entry["steps"] = {f"{target:g}": steps_to(suite, line, target) for target in suite.targets}
        table.append(entry | {"groups": groups(suite, line), "learned": learned(line)})
    return table


def rounded(score: Cell) -> dict[str, Any]:
    """A score as data."""
    numbers: dict[str, Any] = {name: round(getattr(score, name), 2) for name in ("ours", "sd", "low", "high")}
    difference = None if score.difference is None else round(score.difference, 2)
    return {**numbers, "seeds": score.seeds, "paper": score.paper, "difference": difference}


def remarks(suite: Suite, lines: Sequence[Line]) -> list[str]:
    """What a reader should know: ceilings, and scores that say little, no better than the mean or than chance."""
    said = [ceiling(suite, name) for name in suite.ceilings if any(name in line.factors for line in lines)]
    for line in lines:
        for kind, results in line.results.items():
            if kind in UNTRAINED or kind in line.above:
                continue
            for name in suite.metrics:
                scores = [result.scores[suite.split][name] for result in results]
                ours, chance = (float(np.mean([getattr(score, of) for score in scores])) for of in ("value", "chance"))
                samples = results[0].settings.get("samples")
                if verdict := known(name).verdict(ours, chance, samples=samples, dim=len(results[0].factors)):
                    said.append(f"{line.label}, {kind}: {verdict}")
    return said


def more(suite: Suite, lines: Sequence[Line]) -> dict[str, list[list[str]]]:
    """What else a suite tells of its rows, as tables by their titles: the heads, then the rows."""
    told = {
        "How far from what the theorems say, in percent; 0 is as they say": checks(suite, lines),
        f"Steps to a score by {suite.metrics[0]}, as far as it was looked at": steps(suite, lines),
    }
    return {title: table for title, table in told.items() if len(table) > 1}


def checks(suite: Suite, lines: Sequence[Line]) -> list[list[str]]:
    """Each row: whether the theorems are about it, and how far it is from them: mean and sd over seeds."""
    shown = [line for line in lines if any(cell_of_check(suite, line, name) for name in suite.checks)]
    texts = [[getattr(cell_of_check(suite, line, name), "text", "") for name in suite.checks] for line in shown]
    rows = [
        [line.label, "yes" if line.row.matches else "no", *of_row] for line, of_row in zip(shown, texts, strict=True)
    ]
    return [["row", "matches", *suite.checks], *rows]


def cell_of_check(suite: Suite, line: Line, name: str) -> Cell | None:
    """How far a row is from theory by a check, if theory says so of it."""
    results = line.results.get("unsupervised", ())
    known_of = bool(results) and all(name in result.scores[suite.split] for result in results)
    return cell(suite, line, "unsupervised", name) if known_of else None


def steps(suite: Suite, lines: Sequence[Line]) -> list[list[str]]:
    """How many steps each row took to the suite's targets: the mean over seeds, or that it is not there."""
    heads = ["row", *(f"{target:g}" for target in suite.targets)]
    rows = list[list[str]]()
    for line in lines if suite.targets else ():
        if line.results.get("unsupervised"):
            reached = [steps_to(suite, line, target) for target in suite.targets]
            rows.append([line.label, *("not reached" if number is None else f"{number:,.0f}" for number in reached)])
    return [heads, *rows]


def steps_to(suite: Suite, line: Line, target: float) -> float | None:
    """The mean over seeds of the step at which a training was first seen to have a score; None if one never has."""
    firsts = [
        next((point["step"] for point in result.history if 100 * point[suite.metrics[0]] >= target), None)
        for result in line.results.get("unsupervised", ())
    ]
    reached = [first for first in firsts if first is not None]
    return float(np.mean(reached)) if reached and len(reached) == len(firsts) else None


def ceiling(suite: Suite, factor: str) -> str:
    """What any encoder can have of a factor that observations do not always show."""
    most = " and ".join(
        f"{metric} {value:.1f}" for metric, value in suite.ceilings[factor].items() if metric in suite.metrics
    )
    return f"{factor}: no encoder can have more than {most}, as images do not always show it"


def groups(suite: Suite, line: Line) -> dict[str, float]:
    """The first score of a suite, in percent, of each group of factors of a row."""
    scores = [result.scores[suite.split][suite.metrics[0]] for result in line.results.get("unsupervised", ())]
    if not scores or not all(score.per_latent for score in scores):
        return {}
    each = np.array([score.per_latent for score in scores])
    return {name: float(100 * each[:, list(some)].mean()) for name, some in line.row.groups.items()}


def learned(line: Line) -> list[float]:
    """The precisions that were learned, in rising order for each loss; the mean over seeds."""
    results = [result for result in line.results.get("unsupervised", ()) if result.learned]
    each = [result.learned for result in results]
    if not each:
        return []
    return [
        float(value) for value in np.sort(np.reshape(each, (len(each), -1, results[0].latents)), -1).mean(0).ravel()
    ]
