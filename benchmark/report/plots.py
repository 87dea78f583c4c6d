"""Results as plots: learning curves, and what the papers' figures show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.metrics import scores as metrics
from ident.benchmark.report.tables import Line, cell, groups, learned
from ident.benchmark.suites.results import Result
from ident.benchmark.suites.rows import Row, Suite
from ident.render.aliases import Float64s
from ident.render.store import files

DOTS = 1000
"""Of a scatter plot."""
LEAST = -10.0
"""Percent that bars show: R2 may be far below zero."""


LETTERS = 100
"""Of a legend's line, with the strokes before them."""


def write(suite: Suite, lines: Sequence[Line], folder: Path) -> list[Path]:
    """The plots of all that is done, as files; gives their names."""
    drawn = figures(suite, lines)
    for name, figure in drawn.items():
        with files.whole(folder / name) as part:
            figure.savefig(part, format="png", dpi=150)
    return [folder / name for name in drawn]


def figures(suite: Suite, lines: Sequence[Line]) -> dict[str, Figure]:
    """The plots of all that is done, by the names of their files."""
    there = [line for line in lines if line.results.get("unsupervised")]
    found = dict[str, Figure]()
    if there:
        found["curves.png"] = curves(suite, there)
    for name in dict.fromkeys(line.row.figure for line in there if line.row.figure):
        of_it = [line for line in there if line.row.figure == name]
        if len({line.row.x for line in of_it}) > 1:
            found[f"figure-{name.replace(' ', '')}.png"] = papers_figure(suite, name, of_it)
        learning = [line for line in of_it if learned(line)]
        if learning and len({line.row.dim for line in learning}) == 1:
            found[f"lambda-{name.replace(' ', '')}.png"] = learned_figure(learning)
    return found


def curves(suite: Suite, lines: Sequence[Line]) -> Figure:
    """Score and loss against steps, a line a run: a colour a row, and a dash a seed."""
    metric = suite.metrics[0]
    figure = Figure(layout="constrained")
    above, below = figure.subplots(2, 1)
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(lines)))
    for line, colour in zip(lines, colours, strict=True):
        results = line.results["unsupervised"]
        for number, result in enumerate(results):
            history = result["history"]
            steps = [point["step"] for point in history]
            label = line.label[:40].replace("$", r"\$")  # no formula
            label += f", seed {result['seed']}" if len(results) > 1 else ""
            look = {"color": colour, "lw": 1, "ls": dash(number)}
            above.plot(steps, [100 * point[metric] for point in history], label=label, **look)
            below.plot(steps, [point["loss"] for point in history], **look)
    for axes, name in ((above, f"{metric} in percent"), (below, "loss")):
        axes.set(xlabel="step", ylabel=name)
        axes.spines[["top", "right"]].set_visible(False)
    _, labels = above.get_legend_handles_labels()
    across = max(1, min(5, LETTERS // (6 + max(map(len, labels)))))
    figure.set_size_inches(6.4, 6.6 + 0.17 * -(-len(labels) // across))
    figure.legend(loc="outside lower center", ncols=across, frameon=False, fontsize=8)
    figure.suptitle(suite.title, fontsize=11)
    return figure


def dash(number: int) -> Any:
    """A line style: solid, dashed, then with ever more dots between dashes."""
    return (0, (6, 2) + (1, 2) * (number - 1)) if number else "-"


def papers_figure(suite: Suite, name: str, lines: Sequence[Line]) -> Figure:
    """R2 against what a figure of a paper varies, a line a curve, and a dash a group of latents."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, curve in enumerate(dict.fromkeys(line.row.curve for line in lines)):
        on_it = sorted((line for line in lines if line.row.curve == curve), key=lambda line: line.row.x)
        drawn = {name: [groups(line).get(name) for line in on_it] for name in on_it[0].row.groups} or {
            "": [found.ours if (found := cell(suite, line, "unsupervised", "r2")) else None for line in on_it]
        }
        for (group, scores), dash in zip(drawn.items(), ("-", "--", ":"), strict=False):
            there = [(line.row.x, score) for line, score in zip(on_it, scores, strict=True) if score is not None]
            label = f"{curve}, {group}" if group else curve
            axes.plot(*zip(*there, strict=True), dash, marker="o", ms=4, color=f"C{number}", label=label)
        if any(line.row.marginal != "uniform" for line in on_it):
            mass = [100 * mass_moved(line.row) for line in on_it]
            axes.plot([line.row.x for line in on_it], mass, ":", color=f"C{number}", label=f"{curve}: mass moved")
    axes.set(xscale="log", ylabel="R2 in percent", title=f"figure {name}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)
    return figure


def learned_figure(lines: Sequence[Line]) -> Figure:
    """Lambda as it is learned, in rising order of where it ends, and the truth as dashed lines."""
    figure, panels = grid(len(lines), across=2, height=2.8)
    for axes, line in zip(panels, lines, strict=True):
        row, history = line.row, line.results["unsupervised"][0]["history"]
        names = [name for name in (history[0] if history else ()) if name.startswith("lambda")]
        for number, name in enumerate(names):
            steps, values = zip(*((point["step"], point[name]) for point in history), strict=True)
            axes.plot(steps, values, color=f"C{number}", lw=1)
        for truth in sorted(set(optimum(row))):
            axes.axhline(truth, color="black", ls="--", lw=0.8)
        axes.set(xlabel="step")
        seeds = len(line.results["unsupervised"])
        seed = f", seed {line.results['unsupervised'][0]['seed']}" if seeds > 1 else ""
        axes.set_title(f"{row.id}{seed}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


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


def bars(results: Sequence[Result], split: str, names: Sequence[str]) -> Figure:
    """R2 and MCC of each latent, mean and sd over seeds, with what they are by chance as dashed lines."""
    places, wide = np.arange(len(names)), 0.4
    figure = Figure(figsize=(6.4, 1.2 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots()
    for number, (metric, name) in enumerate((("r2", "R2"), ("mcc", "MCC"))):
        scores = [result["scores"][split][metric] for result in results]
        each = 100 * np.array([score["per_latent"] for score in scores])
        chance = 100 * float(np.mean([score["chance"] for score in scores]))
        sd = each.std(0, ddof=1) if len(each) > 1 else None
        at = places + (number - 0.5) * wide
        axes.barh(at, np.maximum(each.mean(0), LEAST), wide, xerr=sd, color=f"C{number}", label=name)
        axes.axvline(max(chance, LEAST), color=f"C{number}", ls="--", lw=1, label=f"{name} by chance")
    axes.set_yticks(places, names, fontsize=11)
    axes.invert_yaxis()
    axes.set_xlabel("percent", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=10)
    return figure


def scatter(latents: Float64s, recovered: Float64s, names: Sequence[str]) -> Figure:
    """Latents (n, d) against the recovered ones (n, k) that stand for them in the best permutation, one a panel."""
    found = metrics.correlations(latents, recovered)
    best = metrics.permutation(found)
    figure, panels = grid(len(names), across=4, height=1.75)
    for number, (axes, name) in enumerate(zip(panels, names, strict=True)):
        axes.plot(latents[:DOTS, number], recovered[:DOTS, best[number]], ".", ms=2, alpha=0.5, color="C0")
        axes.set_title(f"{name}\n{100 * found[number, best[number]]:.1f}", fontsize=10)
        axes.set(xticks=[], yticks=[])
    figure.supxlabel("latent", fontsize=10)
    figure.supylabel("recovered", fontsize=10)
    return figure


def grid(count: int, *, across: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure as wide as a page on a telephone can show, and so many panels in it."""
    down = -(-count // across)
    figure = Figure(figsize=(6.4, 0.4 + height * down), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in panels[count:]:
        unused.set_axis_off()
    return figure, panels[:count]
