"""Results as plots: learning curves, and what the papers' figures show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from ident.benchmark import distributions, spaces
from ident.benchmark.report.tables import Line, cell, groups, learned
from ident.benchmark.suites.rows import Row, Suite
from ident.render import storage


def write(suite: Suite, lines: Sequence[Line], folder: Path) -> list[Path]:
    """The plots of all that is done; gives their names."""
    there = [line for line in lines if line.results.get("unsupervised")]
    plots = list[Path]()
    if there:
        plots.append(folder / "curves.png")
        plot_curves(suite, there, plots[-1])
    for name in dict.fromkeys(line.row.figure for line in there if line.row.figure):
        of_it = [line for line in there if line.row.figure == name]
        if len({line.row.x for line in of_it}) > 1:
            plots.append(folder / f"figure-{name.replace(' ', '')}.png")
            plot_figure(suite, name, of_it, plots[-1])
        learning = [line for line in of_it if learned(line)]
        if learning and len({line.row.dim for line in learning}) == 1:
            plots.append(folder / f"lambda-{name.replace(' ', '')}.png")
            plot_learned(learning, plots[-1])
    return plots


def plot_curves(suite: Suite, lines: Sequence[Line], path: Path) -> None:
    """Loss and score against steps, a line a row."""
    metric = suite.metrics[0]
    figure = Figure(figsize=(10, 4), layout="constrained")
    above, below = figure.subplots(1, 2)
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(lines)))
    for line, colour in zip(lines, colours, strict=True):
        for number, result in enumerate(line.results["unsupervised"]):
            history = result["history"]
            steps = [point["step"] for point in history]
            label = f"row {line.label}" if number == 0 else None
            above.plot(steps, [100 * point[metric] for point in history], color=colour, label=label, lw=1)
            below.plot(steps, [point["loss"] for point in history], color=colour, lw=1)
    for axes, name in ((above, f"{metric} in percent"), (below, "loss")):
        axes.set(xlabel="step", ylabel=name)
        axes.spines[["top", "right"]].set_visible(False)
    if len(lines) <= 12:
        above.legend(frameon=False, fontsize=7)
    figure.suptitle(suite.title)
    save(figure, path)


def plot_figure(suite: Suite, name: str, lines: Sequence[Line], path: Path) -> None:
    """R2 against what a figure of a paper varies, a line a curve, and a dash a group of latents."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, curve in enumerate(sorted({line.row.curve for line in lines})):
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
    save(figure, path)


def plot_learned(lines: Sequence[Line], path: Path) -> None:
    """Lambda as it is learned, in rising order of where it ends, and the truth as dashed lines."""
    figure = Figure(figsize=(3.2 * len(lines), 3), layout="constrained")
    for axes, line in zip(figure.subplots(1, len(lines), squeeze=False)[0], lines, strict=True):
        row, history = line.row, line.results["unsupervised"][0]["history"]
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
