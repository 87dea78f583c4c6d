"""How far the pairs that were found are from those that were wished for, in numbers, words and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from ident.benchmark.pairs import Pairs
from ident.render.dataset import Dataset
from ident.render.gallery import Layout
from ident.render.storage import whole

CLOSE = 1.1  # a realised sd of at most so many times the wished-for one


@dataclass(frozen=True)
class Row:
    """One latent: the sd of positives around their anchors, wished-for and realised, and how far these are apart."""

    latent: str
    wished_sd: float
    realised_sd: float
    distance: float
    """Kolmogorov and Smirnov's: 0 for the same distribution, 1 for two that do not overlap."""


@dataclass(frozen=True)
class Matching:
    """What a sample of pairs shows."""

    rows: tuple[Row, ...]
    anchor_share: float
    """Of the wished-for positives, those to which the anchor itself was nearest."""
    error: float
    """The root mean square by which a latent of a positive misses what was wished for."""
    exact: bool
    """Whether the positives were rendered for their anchors."""

    @property
    def wished_sd(self) -> float:
        """Over all latents."""
        return float(np.sqrt(np.mean([row.wished_sd**2 for row in self.rows])))

    @property
    def realised_sd(self) -> float:
        """Over all latents."""
        return float(np.sqrt(np.mean([row.realised_sd**2 for row in self.rows])))


def match(pairs: Pairs, names: Sequence[str]) -> Matching:
    """Compare what was found with what was wished for."""
    wished, realised = pairs.wished - pairs.anchor_latents, pairs.positive_latents - pairs.anchor_latents
    rows = [
        Row(name, float(one.std()), float(two.std()), float(stats.ks_2samp(one, two, method="asymp").statistic))
        for name, one, two in zip(names, wished.T, realised.T, strict=True)
    ]
    error = float(np.sqrt(np.mean((pairs.positive_latents - pairs.wished) ** 2)))
    return Matching(tuple(rows), float(pairs.anchor_was_nearest.mean()), error, pairs.exact)


def words(matching: Matching, conditional: str, n: int) -> str:
    """The same in plain words, and what would help."""
    if matching.wished_sd == 0:
        return "There is nothing to compare: too few pairs, or a conditional so narrow that nothing moves."
    times = matching.realised_sd / matching.wished_sd
    nearest = f"In {matching.anchor_share:.1%} of the draws the nearest image was the anchor itself"
    rendered = "The positives were rendered for their anchors."
    found = rendered if matching.exact else f"{nearest}, and the second nearest was taken."
    became = f"A wished-for sd of {matching.wished_sd:.3f} became {matching.realised_sd:.3f}"
    said = f"{found} {became}, {times:.2f} times as much."
    if matching.exact or times <= CLOSE:
        return f"{said} The pairs follow {conditional} closely."
    # The error hardly depends on the conditional: it is the distance between neighbours. Variances add up.
    enough = matching.error / np.sqrt(CLOSE**2 - 1)
    wider, more = enough / matching.wished_sd, (enough / matching.wished_sd) ** len(matching.rows)
    return (
        f"{said} The images lie too far apart for {conditional}. What would help: a conditional about {wider:.1f} "
        f"times as wide; or about {more:.0e} times the {n} images; or exact positives, rendered for each anchor: "
        f'ident render --positives "{conditional}"'
    )


def plot(pairs: Pairs, names: Sequence[str], path: Path) -> None:
    """For each latent, the offsets from the anchors as they were wished for and as they were realised."""
    columns, rows = min(5, len(names)), -(-len(names) // 5)
    figure = Figure(figsize=(2.4 * columns, 2.1 * rows + 0.3), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    wished, realised = pairs.wished - pairs.anchor_latents, pairs.positive_latents - pairs.anchor_latents
    reach = float(np.quantile(np.abs(realised), 0.995))
    bins = np.linspace(-reach, reach, 81)
    for axis, name, one, two in zip(axes.flat, names, wished.T, realised.T, strict=False):
        axis.hist(one, bins, density=True, color="#aaaaaa", label="wished-for")
        axis.hist(two, bins, density=True, histtype="step", color="#c0392b", linewidth=1.2, label="realised")
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.set_yticks([])
        axis.xaxis.set_major_locator(MaxNLocator(3, symmetric=True))
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    figure.suptitle("positive minus anchor: wished-for (grey) and realised (red)", fontsize=10)
    with whole(path) as part:
        figure.savefig(part, format="png", dpi=150)


def picture(data: Dataset, pairs: Pairs, count: int, path: Path) -> None:
    """Anchors, and their positives below them."""
    anchors, positives = pairs.anchor[:count], pairs.positive[:count]
    images = [*data.images(anchors), *(data.positives(anchors) if pairs.exact else data.images(positives))]
    with whole(path) as part:
        Layout(len(images) // 2, down=("anchor", "positive")).compose(images).save(part, "png")
