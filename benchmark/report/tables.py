"""Results as tables: the papers' scores and ours beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ident.benchmark import plugins
from ident.benchmark.suites.results import Result
from ident.benchmark.suites.rows import KINDS, Row, Suite, shortened
from ident.benchmark.suites.runs import shared_row, sharing

DESCRIBED = ("latent_space", "marginal", "conditional", "dim", "model_space", "model", "loss", "matches")
"""What tables as data have of a row."""
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
    """Of a line for runs alone: the ids of the rows that share them."""
    above: Mapping[str, str] = field(default_factory=dict)
    """The kinds whose runs another line of the same table shows, and the label of that."""

    @property
    def label(self) -> str:
        """The id of the row, or those of the rows that share its runs; and what is the user's."""
        return f"{listed(self.shared or (self.row.id,))} {self.own}".strip()

    @property
    def whole(self) -> bool:
        """Whether it has the score that its row is there for."""
        return bool(self.results.get(max(self.row.kinds, key=KINDS.index)))


def listed(ids: Sequence[str]) -> str:
    """Ids of rows, as far as they are short; else the first and how many more."""
    text = ", ".join(ids)
    return text if len(ids) == 1 or len(text) <= SHORT else f"{ids[0]} and {len(ids) - 1} more"


def lines_of(suite: Suite, results: Sequence[Result]) -> list[Line]:
    """The rows that have results, and behind each what is the user's. A run that rows share stands in all of them."""
    lines = list[Line]()
    for row in suite.rows:
        for own in sorted({"", *(result["own"] for result in results if result["row"] == row.id)}):
            found = dict[str, list[Result]]()
            for kind in row.kinds:
                run = shared_row(suite, row, kind).id, own, kind
                of_it = [one for one in results if (one["row"], one["own"], one["kind"]) == run]
                if of_it:
                    found[kind] = sorted(of_it, key=lambda result: int(result["seed"]))
            if found:
                lines.append(Line(trained(row, found) if own else row, found, own))
    return lines


def distinct(suite: Suite, lines: Sequence[Line]) -> list[Line]:
    """The lines of a table that shows each run once.

    These are the rows with the score that they are there for. Where one has a run that a line above shows, it names
    that; and what is done of other rows alone, which rows share, has a line of its own.
    """
    labels, table = dict[tuple[str, str, str], str](), list[Line]()

    def run(line: Line, kind: str) -> tuple[str, str, str]:
        return line.results[kind][0]["row"], line.own, kind

    for line in filter(lambda line: line.whole, lines):
        above = {kind: labels[run(line, kind)] for kind in line.results if run(line, kind) in labels}
        labels |= {run(line, kind): line.label for kind in line.results if kind not in above}
        table.append(replace(line, above=above))
    for line in lines:
        for kind in (kind for kind in line.results if run(line, kind) not in labels):
            rows = sharing(suite, line.row, kind)
            table.append(Line(suite.row(rows[0]), {kind: line.results[kind]}, line.own, rows))
            labels[run(line, kind)] = table[-1].label
    places = [row.id for row in suite.rows]
    return sorted(table, key=lambda line: places.index(line.row.id))


def trained(row: Row, results: Mapping[str, Sequence[Result]]) -> Row:
    """A row with the loss that its results are of, if that is the user's."""
    losses = [json.loads(result["recipe"]).get("loss") for result in results.get("unsupervised", ())]
    return replace(row, loss=losses[0]) if losses and plugins.is_one(str(losses[0])) else row


@dataclass(frozen=True)
class Cell:
    """A score in percent: ours, mean and sd over seeds; its interval by the samples that it is of; the paper's."""

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
        return "" if self.paper is None else "{:.2f} ± {:.2f}".format(*self.paper)


def cell(suite: Suite, line: Line, kind: str, metric: str) -> Cell | None:
    """The score of a kind of a row, if there is a result."""
    found = line.results.get(kind, ())
    if not found:
        return None
    scores = [result["scores"][suite.split][metric] for result in found]
    values, low, high = ([100 * score[name] for score in scores] for name in ("value", "low", "high"))
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    paper = None if line.own else line.row.paper.get(kind, {}).get(metric)
    return Cell(float(np.mean(values)), sd, len(values), float(np.mean(low)), float(np.mean(high)), paper)


@dataclass(frozen=True)
class Column:
    """What a column of a table shows; of a table whose rows have one kind each, that kind is not named."""

    kind: str | None
    metric: str

    def kind_of(self, line: Line) -> str:
        """The kind that it shows of a row."""
        return self.kind or line.row.kinds[0]

    def cell(self, suite: Suite, line: Line) -> Cell | None:
        """Of a row."""
        return cell(suite, line, self.kind_of(line), self.metric)

    def above(self, line: Line) -> str:
        """Where the score of a row stands, if that is in another line."""
        label = line.above.get(self.kind_of(line))
        return f"as {label}" if label else ""


def columns_of(suite: Suite, lines: Sequence[Line]) -> dict[str, Column]:
    """The columns that any of the rows has a result for, by their heads."""
    if all(len(row.kinds) == 1 for row in suite.rows) and len({row.kinds for row in suite.rows}) > 1:
        return {metric: Column(None, metric) for metric in suite.metrics}
    kinds = [kind for kind in KINDS if any(line.results.get(kind) for line in lines)]
    one = len(suite.metrics) == 1
    return {kind if one else f"{kind} {metric}": Column(kind, metric) for kind in kinds for metric in suite.metrics}


def described(suite: Suite, line: Line) -> tuple[str, str]:
    """Data and model of a row in words; of a line for runs that rows share, what these agree in."""
    row = line.row
    if line.shared:
        space = row.model_space if "identity" not in line.results else ""
        return f"{row.latent_space.partition('(')[0]}, {row.marginal}", space
    data = f"{row.marginal}, {shortened(row.conditional)}"
    if not suite.images:
        data = f"{row.latent_space.partition('(')[0]}, {data}"
    model = f"{row.model_space}, {row.model}" + ("" if row.loss == "infonce" else f", {row.loss}")
    if row.kinds in (("supervised",), ("identity",)):
        data, model = "", {"supervised": f"supervised, {row.model_space}", "identity": "untrained"}[row.kinds[0]]
    return data, model + (", itself" if row.itself else "")


def as_data(suite: Suite, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The table as data: a row each, with all that is known of it."""
    table = []
    for line in lines:
        row = line.row
        entry: dict[str, Any] = {"row": row.id, "own": line.own, **{name: getattr(row, name) for name in DESCRIBED}}
        for kind in row.kinds:
            scores = {metric: cell(suite, line, kind, metric) for metric in suite.metrics}
            if any(scores.values()):
                entry[kind] = {metric: written(found) for metric, found in scores.items() if found}
        if line.shared:
            entry["rows"] = list(line.shared)
        table.append(entry | {"groups": groups(line), "learned": learned(line)})
    return table


def remarks(suite: Suite, lines: Sequence[Line]) -> list[str]:
    """What a reader should know of scores that say little: those that are no better than the mean, or than chance."""
    said = list[str]()
    for line in lines:
        for kind, results in line.results.items():
            if kind == "identity" or kind in line.above:
                continue
            for metric in suite.metrics:
                scores = [result["scores"][suite.split][metric] for result in results]
                ours, chance = (100 * float(np.mean([score[name] for score in scores])) for name in ("value", "chance"))
                samples = json.loads(results[0]["recipe"]).get("samples")
                if metric == "r2" and ours < 0:
                    what = f"r2 {ours:.2f}, below 0: worse than the mean of the latents"
                elif metric != "r2" and ours <= chance:
                    what = f"{metric} {ours:.2f}, by chance {chance:.2f}"
                else:
                    continue
                few = metric == "r2" and chance < -50
                why = f"{samples} samples are too few for {line.row.dim} latents" if few else "it has not learned them"
                said.append(f"{line.label}, {kind}: {what}; {why}")
    return said


def written(found: Cell) -> dict[str, Any]:
    """A score as data."""
    numbers = {"ours": found.ours, "sd": found.sd, "low": found.low, "high": found.high}
    rounded: dict[str, Any] = {name: round(value, 2) for name, value in numbers.items()}
    difference = None if found.difference is None else round(found.difference, 2)
    return {**rounded, "seeds": found.seeds, "paper": found.paper, "difference": difference}


def groups(line: Line) -> dict[str, float]:
    """R2 in percent of each group of latents of a row."""
    found = line.results.get("unsupervised", ())
    per_latent = np.array([result["scores"]["test"]["r2"]["per_latent"] for result in found])
    return {name: float(100 * per_latent[:, list(some)].mean()) for name, some in line.row.groups.items() if found}


def learned(line: Line) -> list[float]:
    """The precisions that were learned, in rising order for each loss; the mean over seeds."""
    found = [result["learned"] for result in line.results.get("unsupervised", ()) if result["learned"]]
    if not found:
        return []
    return [float(value) for value in np.sort(np.reshape(found, (len(found), -1, line.row.dim)), -1).mean(0).ravel()]
