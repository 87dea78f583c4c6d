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
from ident.benchmark.suites.runs import shared_row

DESCRIBED = ("latent_space", "marginal", "conditional", "dim", "model_space", "model", "loss", "matches")
"""What tables as data have of a row."""


@dataclass(frozen=True)
class Line:
    """A row of a table and its results, one a seed, by kind."""

    row: Row
    results: Mapping[str, Sequence[Result]] = field(default_factory=dict)
    own: str = ""
    """What the user has in it that the table has not: a loss, an encoder."""

    @property
    def label(self) -> str:
        """The number of the row, and what is the user's."""
        return f"{self.row.number} {self.own}".strip()


def lines_of(suite: Suite, results: Sequence[Result], *, every_row: bool = False) -> list[Line]:
    """The rows that have results, or every row, and behind each what is the user's.

    A run that rows share stands in all of them.
    """
    lines = list[Line]()
    for row in suite.rows:
        for own in sorted({"", *(result["own"] for result in results if result["row"] == row.number)}):
            found = dict[str, list[Result]]()
            for kind in row.kinds:
                number = row.number if own else shared_row(suite, row, kind).number
                of_it = [one for one in results if (one["row"], one["own"], one["kind"]) == (number, own, kind)]
                if of_it:
                    found[kind] = sorted(of_it, key=lambda result: int(result["seed"]))
            if found or (every_row and not own):
                lines.append(Line(trained(row, found) if own else row, found, own))
    return lines


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

    def cell(self, suite: Suite, line: Line) -> Cell | None:
        """Of a row."""
        kind = self.kind or line.row.kinds[0]
        return cell(suite, line, kind, self.metric)


def columns_of(suite: Suite, lines: Sequence[Line]) -> dict[str, Column]:
    """The columns that any of the rows has a result for, by their heads."""
    if all(len(row.kinds) == 1 for row in suite.rows) and len({row.kinds for row in suite.rows}) > 1:
        return {metric: Column(None, metric) for metric in suite.metrics}
    kinds = [kind for kind in KINDS if any(line.results.get(kind) for line in lines)]
    one = len(suite.metrics) == 1
    return {kind if one else f"{kind} {metric}": Column(kind, metric) for kind in kinds for metric in suite.metrics}


def described(suite: Suite, line: Line) -> tuple[str, str]:
    """Data and model of a row in words."""
    row = line.row
    data = f"{row.marginal}, {shortened(row.conditional)}"
    if not suite.images:
        data = f"{row.latent_space.partition('(')[0]}, {data}"
    model = f"{row.model_space}, {row.model}" + ("" if row.loss == "infonce" else f", {row.loss}")
    if row.kinds in (("supervised",), ("identity",)):
        data, model = "", {"supervised": f"supervised, {row.model_space}", "identity": "untrained"}[row.kinds[0]]
    return data, model + (", itself" if row.itself else "")


def markdown(suite: Suite, lines: Sequence[Line]) -> str:
    """The table for a document: of each row the scores, the papers', and how far the last one is from it."""
    columns, with_paper = columns_of(suite, lines), any(row.paper for row in suite.rows)
    heads = ["", "data", "model"]
    for name in columns:
        heads += [name, "paper"] if with_paper else [name]
    table = [heads + (["difference"] if with_paper else [])]
    table.append(["---"] * len(table[0]))
    for line in lines:
        cells = [column.cell(suite, line) for column in columns.values()]
        texts = [line.label, *described(suite, line)]
        for found in cells:
            texts += [found.text if found else ""] + ([found.papers if found else ""] if with_paper else [])
        if with_paper:
            last = cells[-1].difference if cells and cells[-1] else None
            texts.append("" if last is None else f"{last:+.2f}")
        table.append(texts)
    rows = "".join(f"| {' | '.join(texts)} |\n" for texts in table)
    return f"# {suite.title}\n\nScores: {' and '.join(suite.metrics)} in percent.\n\n{rows}"


def as_data(suite: Suite, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The table as data: a row each, with all that is known of it."""
    table = []
    for line in lines:
        row = line.row
        entry: dict[str, Any] = {"row": row.number, "own": line.own, **{name: getattr(row, name) for name in DESCRIBED}}
        for kind in row.kinds:
            scores = {metric: cell(suite, line, kind, metric) for metric in suite.metrics}
            if any(scores.values()):
                entry[kind] = {metric: written(found) for metric, found in scores.items() if found}
        table.append(entry | {"groups": groups(line), "learned": learned(line)})
    return table


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
