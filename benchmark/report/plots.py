"""Results as plots: learning curves, and what the papers' figures show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ident.benchmark.metrics.dci import importances
from ident.benchmark.metrics.mcc import correlations, permutation
from ident.benchmark.report.tables import Line, cell, groups, learned, steps_to
from ident.benchmark.suites import theory
from ident.benchmark.suites.results import Result
from ident.benchmark.suites.rows import Row
from ident.benchmark.suites.suite import Suite
from ident.render.aliases import Float64s
from ident.render.store import files
from ident.render.worlds.factors import Interval

DOTS = 1000
"""Samples that a scatter plot shows."""
LEAST = -10.0
"""Percent that bars show: R2 may be far below zero."""
TREES = 1000
"""Samples that trees of a heat map are fitted on and tested on."""
MOST_BARS = 4
"""Metrics that bars show of each factor."""
FEW = 8
"""Values that stand below a horizontal axis themselves."""
ROOM = 0.94
"""The share of a figure's width that a legend may have."""


def write(suite: Suite, lines: Sequence[Line], folder: Path) -> list[Path]:
    """The plots of all that is done, as files; gives their names."""
    plots = figures(suite, lines)
    for name, figure in plots.items():
        with files.whole(folder / name) as part:
            figure.savefig(part, format="png", dpi=150)
    return [folder / name for name in plots]


def figures(suite: Suite, lines: Sequence[Line]) -> dict[str, Figure]:
    """The plots of all that is done, by the names of their files."""
    trained = [line for line in lines if line.results.get("unsupervised")]
    plots = {"curves.png": curves(suite, trained)} if trained else {}
    for name in dict.fromkeys(line.row.figure for line in trained if line.row.figure):
        of_figure = [line for line in trained if line.row.figure == name]
        if len({line.row.x for line in of_figure}) > 1:
            plots[f"figure-{name.replace(' ', '')}.png"] = papers_figure(suite, name, of_figure)
            if any(steps_to(suite, line, target) for line in of_figure for target in suite.targets):
                plots[f"steps-{name.replace(' ', '')}.png"] = steps_figure(suite, name, of_figure)
        if followed := [line for line in of_figure if line.row.followed]:
            plots[f"groups-{name.replace(' ', '')}.png"] = groups_figure(followed)
        learning = [line for line in of_figure if learned(line)]
        if learning and len({line.row.dim for line in learning}) == 1:
            plots[f"lambda-{name.replace(' ', '')}.png"] = learned_figure(learning)
    return plots


def curves(suite: Suite, lines: Sequence[Line]) -> Figure:
    """Score and loss against steps, a line a run: a colour a row, and a dash a seed."""
    metric = suite.metrics[0]
    figure = Figure(layout="constrained")
    above, below = figure.subplots(2, 1)
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(lines)))
    for line, colour in zip(lines, colours, strict=True):
        results = line.results["unsupervised"]
        for number, result in enumerate(results):
            history = result.history
            steps = [point["step"] for point in history]
            label = plain(line.label) + (f", seed {result.seed}" if len(results) > 1 else "")
            look = {"color": colour, "lw": 1, "ls": dash(number)}
            above.plot(steps, [100 * point[metric] for point in history], label=label, **look)
            below.plot(steps, [point["loss"] for point in history], **look)
    for axes, name in ((above, plain(f"{metric} in percent")), (below, "loss")):
        axes.set(xlabel="step", ylabel=name)
        axes.spines[["top", "right"]].set_visible(False)
    for across in range(5, 0, -1):
        legend = figure.legend(loc="outside lower center", ncols=across, frameon=False, fontsize=8)
        if across == 1 or legend.get_window_extent().width <= ROOM * figure.bbox.width:
            break
        legend.remove()
    figure.set_size_inches(6.4, 6.6 + 0.17 * -(-len(legend.get_texts()) // across))
    figure.suptitle(suite.title, fontsize=11)
    return figure


def dash(number: int) -> Any:
    """A line style: solid, dashed, then with ever more dots between dashes."""
    return (0, (6, 2) + (1, 2) * (number - 1)) if number else "-"


def papers_figure(suite: Suite, name: str, lines: Sequence[Line]) -> Figure:
    """A score against what a figure of a paper varies, a line a curve, and a dash a group of factors."""
    metric = suite.metrics[0]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, curve in enumerate(dict.fromkeys(line.row.curve for line in lines)):
        on_it = sorted((line for line in lines if line.row.curve == curve), key=lambda line: line.row.x)
        drawn = {name: [groups(suite, line).get(name) for line in on_it] for name in on_it[0].row.groups} or {
            "": [score.ours if (score := cell(suite, line, "unsupervised", metric)) else None for line in on_it]
        }
        for place, (group, scores) in enumerate(drawn.items()):
            points = [(line.row.x, score) for line, score in zip(on_it, scores, strict=True) if score is not None]
            label = plain(f"{curve}, {group}" if group else curve)
            if points:
                look = {"color": f"C{number}", "ls": dash(place), "marker": "o", "ms": 4}
                axes.plot(*zip(*points, strict=True), **look, label=label)
        dense = {theory.concentration(text) for line in on_it for text in line.row.conditionals}
        if any(line.row.marginal != "uniform" for line in on_it):
            for concentration in filter(None, dense):
                axes.axvline(concentration, color=f"C{number}", ls="--", lw=0.8)
            mass = [100 * mass_moved(line.row) for line in on_it]
            axes.plot(
                [line.row.x for line in on_it], mass, ":", color=f"C{number}", label=plain(f"{curve}: mass moved")
            )
    set_horizontal(axes, suite, name, lines)
    axes.set(ylabel=plain(f"{metric} in percent"), title=titled(name, lines))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)
    return figure


def set_horizontal(axes: Axes, suite: Suite, name: str, lines: Sequence[Line]) -> None:
    """The horizontal axis of a figure: by its logarithm, to the base of 2 where all values are powers of it.

    Where they are not, and few, they stand below it themselves.
    """
    values = sorted({line.row.x for line in lines})
    halves = all(x > 0 and math.log2(x).is_integer() for x in values)
    axes.set_xscale("log", base=2 if halves else 10)
    if not halves and 0 < len(values) <= FEW and values[0] > 0:
        axes.set_xticks(values, [f"{x:g}" for x in values])
        axes.minorticks_off()
    axes.set_xlabel(plain(suite.axes.get(name, "")))


def titled(name: str, lines: Sequence[Line]) -> str:
    """The name of a figure, and which Lambda it has."""
    conventions = dict.fromkeys(filter(None, (theory.convention(line.row) for line in lines)))
    return f"figure {name}" + (f", Lambda as in the {' and '.join(conventions)}" if conventions else "")


def steps_figure(suite: Suite, name: str, lines: Sequence[Line]) -> Figure:
    """How many steps a score took, against what a figure of a paper varies: a colour a curve, and a dash a target."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, curve in enumerate(dict.fromkeys(line.row.curve for line in lines)):
        on_it = sorted((line for line in lines if line.row.curve == curve), key=lambda line: line.row.x)
        for place, target in enumerate(suite.targets):
            points = [(line.row.x, steps) for line in on_it if (steps := steps_to(suite, line, target)) is not None]
            if points:
                look = {"color": f"C{number}", "ls": dash(place), "marker": "o", "ms": 4}
                axes.plot(*zip(*points, strict=True), label=plain(f"{curve}, {target:g}"), **look)
    set_horizontal(axes, suite, name, lines)
    axes.set(yscale="log", ylabel=plain(f"steps to {suite.metrics[0]} in percent"), title=titled(name, lines))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)
    return figure


def groups_figure(lines: Sequence[Line]) -> Figure:
    """R2 of groups of latents against steps, and below the loss, that of the truth as a dashed line; of first seeds."""
    figure = Figure(figsize=(3.4 * max(2, len(lines)), 4.8), layout="constrained")
    for (above, below), line in zip(figure.subplots(2, len(lines), squeeze=False).T, lines, strict=True):
        history = line.results["unsupervised"][0].history
        steps = [point["step"] for point in history]
        for name in line.row.groups:
            above.plot(steps, [100 * point.get(f"r2 {name}", math.nan) for point in history], lw=1, label=plain(name))
        below.plot(steps, [point["loss"] for point in history], lw=1, color="C2", label="loss")
        if history and "loss of the truth" in history[-1]:
            below.axhline(history[-1]["loss of the truth"], color="black", ls="--", lw=0.8, label="of the truth")
        above.set(ylabel="r2 in percent")
        above.set_title(plain(line.label), fontsize=10)
        below.set(xlabel="step", ylabel="loss")
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, fontsize=7)
    return figure


def learned_figure(lines: Sequence[Line]) -> Figure:
    """Lambda as it is learned, in rising order of where it ends, and the truth as dashed lines."""
    figure, panels = grid(len(lines), across=min(2, len(lines)), height=2.8)
    for axes, line in zip(panels, lines, strict=True):
        row, first = line.row, line.results["unsupervised"][0]
        names = [name for name in (first.history[0] if first.history else ()) if name.startswith("lambda")]
        for number, name in enumerate(names):
            steps, values = zip(*((point["step"], point[name]) for point in first.history), strict=True)
            axes.plot(steps, values, color=f"C{number}", lw=1)
        for truth in sorted(set(theory.optimum_of(row))):
            axes.axhline(truth, color="black", ls="--", lw=0.8)
        axes.set(xlabel="step")
        seed = f", seed {first.seed}" if len(line.results["unsupervised"]) > 1 else ""
        convention = theory.convention(row)
        axes.set_title(f"{row.id}{seed}" + (f", Lambda of the {convention}" if convention else ""), fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def mass_moved(row: Row) -> float:
    """The share of its mass that would have to be moved to make a row's marginal uniform."""
    return theory.mass_moved(row.latent_space, row.marginal, row.dim) if row.dim else 0.0


def bars(suite: Suite, results: Sequence[Result]) -> Figure:
    """The scores of each factor, mean and sd over seeds, by chance as dashed lines; and their ceilings in black."""
    names = results[0].factors
    scores = {
        metric: [result.scores[suite.split][metric] for result in results]
        for metric in dict.fromkeys(("r2", "mcc", *suite.metrics))
        if all(metric in result.scores[suite.split] for result in results)
    }
    shown = {metric: of_seeds for metric, of_seeds in scores.items() if all(score.per_latent for score in of_seeds)}
    shown = dict(list(shown.items())[:MOST_BARS])
    places, wide = np.arange(len(names)), 0.8 / max(1, len(shown))
    figure = Figure(figsize=(6.4, 1.2 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots()
    for number, (metric, of_seeds) in enumerate(shown.items()):
        each = 100 * np.array([score.per_latent for score in of_seeds])
        chance = 100 * float(np.mean([score.chance for score in of_seeds]))
        sd = each.std(0, ddof=1) if len(each) > 1 else None
        at, name = places + (number - (len(shown) - 1) / 2) * wide, plain(metric)
        axes.barh(at, np.maximum(each.mean(0), LEAST), wide, xerr=sd, color=f"C{number}", label=name)
        for place, factor in zip(at, names, strict=True):
            if most := suite.ceilings.get(factor, {}).get(metric):
                axes.plot([most, most], [place - wide / 2, place + wide / 2], color="black", lw=2)
        axes.axvline(max(chance, LEAST), color=f"C{number}", ls="--", lw=1, label=f"{name} by chance")
    axes.set_yticks(places, list(map(plain, names)), fontsize=11)
    axes.invert_yaxis()
    axes.set_xlabel("percent", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=10)
    return figure


def scatter(latents: Float64s, recovered: Float64s, names: Sequence[str]) -> Figure:
    """Latents (n, d) against the recovered ones (n, k) that stand for them in the best permutation, one a panel."""
    each = correlations(latents, recovered)
    best = permutation(each)
    figure, panels = grid(len(names), across=4, height=1.75)
    for number, (axes, name) in enumerate(zip(panels, names, strict=True)):
        axes.plot(latents[:DOTS, number], recovered[:DOTS, best[number]], ".", ms=2, alpha=0.5, color="C0")
        axes.set_title(f"{plain(name)}\n{100 * each[number, best[number]]:.1f}", fontsize=10)
        axes.set(xticks=[], yticks=[])
    figure.supxlabel("latent", fontsize=10)
    figure.supylabel("recovered", fontsize=10)
    return figure


def importance(latents: Float64s, recovered: Float64s, names: Sequence[str]) -> Figure:
    """How important each output (n, k) is for each factor (n, d), by the trees of DCI: a column a factor."""
    some, kinds = slice(TREES), [Interval()] * len(names)  # values that recur are taken for classes
    trees = importances(latents[some], recovered[some], kinds=kinds, rng=np.random.default_rng(0))
    outputs = recovered.shape[1]
    figure = Figure(figsize=(6.4, 1 + 0.26 * outputs), layout="constrained")
    axes = figure.subplots()
    shown = axes.imshow(trees.matrix, cmap="viridis", vmin=0, aspect="auto")
    axes.set_xticks(range(len(names)), [plain(name) for name in names], fontsize=8)
    axes.set_yticks(range(outputs), [str(number) for number in range(outputs)], fontsize=8)
    axes.set(xlabel="factor", ylabel="output")
    figure.colorbar(shown, ax=axes, label="importance")
    return figure


def plain(text: str) -> str:
    """A text that is no formula, and of which a plot shows as much as there is room for."""
    return text[:40].replace("$", r"\$")


def grid(count: int, *, across: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure as wide as a page on a telephone can show, and so many panels in it."""
    down = -(-count // across)
    figure = Figure(figsize=(6.4, 0.4 + height * down), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in panels[count:]:
        unused.set_axis_off()
    return figure, panels[:count]
