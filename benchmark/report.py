"""Results as tables and plots: the papers' scores and ours beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from ident.benchmark import distributions, spaces
from ident.benchmark.suites.rows import KINDS, Row, Suite, shortened
from ident.render import storage

Results = Mapping[tuple[int, str], Sequence[Mapping[str, Any]]]
"""By number of a row and kind: a result a seed."""


@dataclass(frozen=True)
class Cell:
    """A score in percent: ours, mean and sd over seeds, and the paper's."""

    ours: float
    sd: float
    seeds: int
    paper: Sequence[float] | None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.paper is None else self.ours - self.paper[0]


def cell(row: Row, kind: str, metric: str, results: Results) -> Cell | None:
    """The score of a kind of a row, if there is a result."""
    found = results.get((row.number, kind), ())
    if not found:
        return None
    values = [100 * result["scores"][metric]["value"] for result in found]
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Cell(float(np.mean(values)), sd, len(values), row.paper.get(kind))


def groups(row: Row, results: Results) -> dict[str, float]:
    """R2 in percent of each group of latents of a row."""
    found = results.get((row.number, "unsupervised"), ())
    per_latent = np.array([result["scores"]["r2"]["per_latent"] for result in found])
    return {name: float(100 * per_latent[:, list(latents)].mean()) for name, latents in row.groups.items() if found}


def learned(row: Row, results: Results) -> list[float]:
    """The precisions that were learned, in rising order for each loss; the mean over seeds."""
    found = [result["learned"] for result in results.get((row.number, "unsupervised"), ()) if result["learned"]]
    if not found:
        return []
    return [float(value) for value in np.sort(np.reshape(found, (len(found), -1, row.dim)), -1).mean(0).ravel()]


def as_rows(suite: Suite, rows: Sequence[Row], results: Results) -> list[dict[str, Any]]:
    """The table as data: a row each, with all that is known of it."""
    table = []
    for row in rows:
        entry: dict[str, Any] = {
            "row": row.number,
            "latent_space": row.latent_space,
            "marginal": row.marginal,
            "conditional": row.conditional,
            "model_space": row.model_space,
            "model": row.model,
            "loss": row.loss,
            "matches": row.matches,
        }
        for kind in row.kinds:
            found = cell(row, kind, suite.metric, results)
            if found is not None:
                entry[kind] = {
                    suite.metric: round(found.ours, 2),
                    "sd": round(found.sd, 2),
                    "seeds": found.seeds,
                    "paper": found.paper,
                    "difference": None if found.difference is None else round(found.difference, 2),
                }
        entry |= {"groups": groups(row, results), "learned": learned(row, results)}
        table.append(entry)
    return table


def kinds_of(rows: Sequence[Row], results: Results) -> list[str]:
    """The kinds that any of the rows has a result of."""
    return [kind for kind in KINDS if any((row.number, kind) in results for row in rows)]


def markdown(suite: Suite, results: Results) -> str:
    """The table for a document: of each row the scores, the paper's, and the difference of the last kind."""
    kinds, with_paper = kinds_of(suite.rows, results), any(row.paper for row in suite.rows)
    heads = ["", "data", "model"]
    for kind in kinds:
        heads += [kind, "paper"] if with_paper else [kind]
    table = [heads + (["difference"] if with_paper else [])]
    table.append(["---"] * len(table[0]))
    for row in suite.rows:
        line, last = [str(row.number), *described(row)], None
        for kind in kinds:
            last = cell(row, kind, suite.metric, results)
            line.append(written(last))
            if with_paper:
                line.append("{:.2f} ± {:.2f}".format(*row.paper[kind]) if kind in row.paper else "")
        if with_paper:
            line.append("" if last is None or last.difference is None else f"{last.difference:+.2f}")
        table.append(line)
    lines = [f"| {' | '.join(line)} |\n" for line in table]
    return f"# {suite.title}\n\nScores: {suite.metric} in percent.\n\n{''.join(lines)}"


def write(suite: Suite, results: Results, folder: Path) -> list[Path]:
    """The table as Markdown and as data, and the plots, of all that is done; gives their names."""
    table, data = folder / "table.md", folder / "table.json"
    storage.write(table, markdown(suite, results).encode())
    storage.write(data, json.dumps(as_rows(suite, suite.rows, results), indent=1).encode())
    rows = [row for row in suite.rows if (row.number, "unsupervised") in results]
    plots = list[Path]()
    if rows:
        plots.append(folder / "curves.png")
        plot_curves(suite, rows, results, plots[-1])
    for name in dict.fromkeys(row.figure for row in rows if row.figure):
        of_it = [row for row in rows if row.figure == name]
        if len({row.x for row in of_it}) > 1:
            plots.append(folder / f"figure-{name.replace(' ', '')}.png")
            plot_figure(name, of_it, results, plots[-1])
        learning = [row for row in of_it if learned(row, results)]
        if learning and len({row.dim for row in learning}) == 1:
            plots.append(folder / f"lambda-{name.replace(' ', '')}.png")
            plot_learned(learning, results, plots[-1])
    return [table, data, *plots]


def described(row: Row) -> tuple[str, str]:
    """Data and model of a row in words."""
    data = f"{row.latent_space.partition('(')[0]}, {row.marginal}, {shortened(row.conditional)}"
    model = f"{row.model_space}, {row.model}" + ("" if row.loss == "infonce" else f", {row.loss}")
    model += ", itself" if row.itself else ""
    return data, model


def written(found: Cell | None) -> str:
    """Mean and sd, or that there is none."""
    if found is None:
        return ""
    return f"{found.ours:.2f} ± {found.sd:.2f}" if found.seeds > 1 else f"{found.ours:.2f}"


def beside(found: Cell | None) -> str:
    """Ours, and in brackets the paper's."""
    return written(found) + (f" ({found.paper[0]:.2f})" if found is not None and found.paper is not None else "")


def plot_curves(suite: Suite, rows: Sequence[Row], results: Results, path: Path) -> None:
    """Loss and score against steps, a line a row."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    above, below = figure.subplots(1, 2)
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(rows)))
    for row, colour in zip(rows, colours, strict=True):
        for number, result in enumerate(results.get((row.number, "unsupervised"), ())):
            history = result["history"]
            steps = [point["step"] for point in history]
            label = f"row {row.number}" if number == 0 else None
            above.plot(steps, [100 * point[suite.metric] for point in history], color=colour, label=label, lw=1)
            below.plot(steps, [point["loss"] for point in history], color=colour, lw=1)
    for axes, name in ((above, f"{suite.metric} in percent"), (below, "loss")):
        axes.set(xlabel="step", ylabel=name)
        axes.spines[["top", "right"]].set_visible(False)
    if len(rows) <= 12:
        above.legend(frameon=False, fontsize=7)
    figure.suptitle(suite.title)
    save(figure, path)


def plot_figure(name: str, rows: Sequence[Row], results: Results, path: Path) -> None:
    """R2 against what a figure of a paper varies, a line a curve, and a dash a group of latents."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    shown = sorted({row.curve for row in rows})
    for number, curve in enumerate(shown):
        on_it = sorted((row for row in rows if row.curve == curve), key=lambda row: row.x)
        lines = {name: [groups(row, results).get(name) for row in on_it] for name in on_it[0].groups} or {
            "": [of_row.ours if (of_row := cell(row, "unsupervised", "r2", results)) else None for row in on_it]
        }
        for (group, scores), dash in zip(lines.items(), ("-", "--", ":"), strict=False):
            there = [(row.x, score) for row, score in zip(on_it, scores, strict=True) if score is not None]
            label = f"{curve}, {group}" if group else curve
            axes.plot(*zip(*there, strict=True), dash, marker="o", ms=4, color=f"C{number}", label=label)
        if any(row.marginal != "uniform" for row in on_it):
            mass = [100 * mass_moved(row) for row in on_it]
            axes.plot([row.x for row in on_it], mass, ":", color=f"C{number}", label=f"{curve}: mass moved")
    axes.set(xscale="log", ylabel="R2 in percent", title=f"figure {name}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)
    save(figure, path)


def plot_learned(rows: Sequence[Row], results: Results, path: Path) -> None:
    """Lambda as it is learned, in rising order of where it ends, and the truth as dashed lines."""
    figure = Figure(figsize=(3.2 * len(rows), 3), layout="constrained")
    for axes, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        history = results[row.number, "unsupervised"][0]["history"]
        names = [name for name in history[0] if name.startswith("lambda")]
        for number, name in enumerate(names):
            steps, values = zip(*((point["step"], point[name]) for point in history), strict=True)
            axes.plot(steps, values, color=f"C{number}", lw=1)
        for truth in sorted(set(optimum(row))):
            axes.axhline(truth, color="black", ls="--", lw=0.8)
        axes.set(xlabel="step", title=f"row {row.number}: {row.loss}")
        axes.title.set_size(8)
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def optimum(row: Row) -> list[float]:
    """The Lambda that a row's loss should learn: that of positives less that of hard negatives (corollary B.1)."""
    many = [distributions.parse(text) for text in (row.conditional, *row.others)]
    hard = distributions.parse(row.hard) if row.hard else None
    found = list[float]()
    for one in many:
        assert isinstance(one, distributions.Anisotropic)
        less = hard.precisions if isinstance(hard, distributions.Anisotropic) else (0.0,) * len(one.precisions)
        found += [plus - minus for plus, minus in zip(one.precisions, less, strict=True)]
    return found


def mass_moved(row: Row, count: int = 100_000) -> float:
    """The share of its mass that would have to be moved to make a row's marginal uniform: 1/2 int |p - uniform|."""
    space, marginal = spaces.parse(row.latent_space, row.dim), distributions.parse(row.marginal)
    z = space.uniform(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if isinstance(marginal, distributions.VMF):
        logarithm = marginal.kappa * (z @ space.origin.double())
    elif isinstance(marginal, distributions.Noise):
        logarithm = -((z - space.origin).abs() / marginal.width).pow(marginal.p).sum(-1)
    else:
        return 0.0
    density = torch.softmax(logarithm, 0) * count
    return float((1 - density).clamp_min(0).mean())


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all."""
    with storage.whole(path) as part:
        figure.savefig(part, format="png", dpi=150)
