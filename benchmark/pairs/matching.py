"""How far realised pairs are from those that were wished for, in numbers, words and pictures.

Shares, standard deviations and the error are those of all pairs; Kolmogorov and Smirnov's distance and the plot, which
take them sorted, are of the first SAMPLE: the pairs are independent, so that these are like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from ident.benchmark.pairs.samplers import DrawnPairs, joined
from ident.render.aliases import Float32s
from ident.render.grid import Grid
from ident.render.store.dataset import Dataset
from ident.render.store.files import whole

CLOSE = 1.1  # a realised sd of at most so many times the wished-for one
SAMPLE = 2**18
"""Pairs that are kept in memory, some 40 MB: the distance between the distributions is that of all to about 0.003."""


@dataclass(frozen=True)
class LatentMatch:
    """One latent: the sd of positives around their anchors, wished-for and realised, and how far these are apart."""

    latent: str
    wished_sd: float
    realised_sd: float
    distance: float
    """Kolmogorov and Smirnov's, of the first SAMPLE pairs: 0 for equal distributions, 1 for two that do not overlap."""


@dataclass(frozen=True)
class Matching:
    """What a sample of pairs shows."""

    rows: tuple[LatentMatch, ...]
    anchor_share: float
    """The share of wished-for positives to which the anchor itself was nearest."""
    error: float
    """The root mean square by which a latent of a positive misses what was wished for."""
    rendered: bool
    """Whether the positives were rendered for their anchors."""

    @property
    def wished_sd(self) -> float:
        """Over all latents."""
        return float(np.sqrt(np.mean([row.wished_sd**2 for row in self.rows])))

    @property
    def realised_sd(self) -> float:
        """Over all latents."""
        return float(np.sqrt(np.mean([row.realised_sd**2 for row in self.rows])))


def offsets(pairs: DrawnPairs) -> Float32s:
    """From anchors to what was wished for and to the positives, (2, latents, pairs)."""
    return np.stack([(to - pairs.anchor_latents).T for to in (pairs.wished, pairs.positive_latents)])


class Tally:
    """Compares pairs with what was wished for as they are drawn."""

    def __init__(self) -> None:
        self.n = 0
        self.moments = np.zeros((2, 1, 1))
        """The mean, and the sum of squares around it, of offsets (wished-for and realised, latents) from anchors."""
        self.nearest, self.squares, self.rendered = 0, 0.0, True
        self.first: list[DrawnPairs] = []

    def add(self, pairs: DrawnPairs) -> None:
        """Count a batch in."""
        before, self.n = self.n, self.n + len(pairs)
        if before < SAMPLE:
            self.first.append(pairs)
        around = offsets(pairs).astype(float)
        (mean, squares), batch_mean = self.moments, around.mean(2)
        shift = batch_mean - mean
        within = ((around - batch_mean[..., None]) ** 2).sum(2)
        between = shift**2 * before * len(pairs) / self.n
        self.moments = np.stack([mean + shift * len(pairs) / self.n, squares + within + between])
        self.nearest += int(pairs.anchor_was_nearest.sum())
        self.squares += float(((pairs.positive_latents - pairs.wished).astype(float) ** 2).sum())
        self.rendered &= pairs.rendered

    @property
    def sample(self) -> DrawnPairs:
        """The first pairs, SAMPLE of them or the batch more that it takes."""
        return joined(self.first)

    def matching(self, names: Sequence[str]) -> Matching:
        """What all pairs so far show."""
        sds = np.sqrt(self.moments[1] / self.n).tolist()
        rows = [
            LatentMatch(name, wished_sd, realised_sd, float(stats.ks_2samp(one, two, method="asymp").statistic))
            for name, wished_sd, realised_sd, one, two in zip(names, *sds, *offsets(self.sample), strict=True)
        ]
        error = float(np.sqrt(self.squares / (self.n * len(rows))))
        return Matching(tuple(rows), self.nearest / self.n, error, self.rendered)


def match(pairs: DrawnPairs, names: Sequence[str]) -> Matching:
    """Compare pairs with what was wished for."""
    tally = Tally()
    tally.add(pairs)
    return tally.matching(names)


def words(matching: Matching, conditional: str, n: int) -> str:
    """The same in plain words, and what would help."""
    if matching.wished_sd == 0:
        return "There is nothing to compare: too few pairs, or a conditional so narrow that nothing moves."
    times = matching.realised_sd / matching.wished_sd
    nearest = f"In {matching.anchor_share:.1%} of the draws the nearest image was the anchor itself"
    rendered = "The positives were rendered for their anchors."
    how = rendered if matching.rendered else f"{nearest}, and the second nearest was taken."
    became = f"A wished-for sd of {matching.wished_sd:.3f} became {matching.realised_sd:.3f}"
    said = f"{how} {became}, {times:.2f} times as much."
    if matching.rendered or times <= CLOSE:
        return f"{said} The pairs follow {conditional} closely."
    # The error hardly depends on the conditional: it is the distance between neighbours. Variances add up.
    enough = matching.error / np.sqrt(CLOSE**2 - 1)
    wider, more = enough / matching.wished_sd, (enough / matching.wished_sd) ** len(matching.rows)
    return (
        f"{said} The images lie too far apart for {conditional}. What would help: a conditional about {wider:.1f} "
        f"times as wide; or about {more:.0e} times the {n} images; or exact positives, rendered for each anchor: "
        f'ident render --positives "{conditional}"'
    )


def plot(pairs: DrawnPairs, names: Sequence[str], path: Path) -> None:
    """For each latent, the offsets from the anchors as they were wished for and as they were realised."""
    columns, rows = min(5, len(names)), -(-len(names) // 5)
    figure = Figure(figsize=(2.4 * columns, 2.1 * rows + 0.3), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    wished, realised = offsets(pairs)
    reach = float(np.quantile(np.abs(realised), 0.995))
    bins = np.linspace(-reach, reach, 81)
    for axis, name, one, two in zip(axes.flat, names, wished, realised, strict=False):
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


def picture(data: Dataset, pairs: DrawnPairs, count: int, path: Path) -> None:
    """Anchors, and their positives below them."""
    anchors, positives = pairs.anchor[:count], pairs.positive[:count]
    images = [*data.images(anchors), *(data.positives(anchors) if pairs.rendered else data.images(positives))]
    with whole(path) as part:
        Grid(len(images) // 2, down=("anchor", "positive")).compose(images).save(part, "png")
