"""What a metric is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.benchmark.metrics.arrays import checked
from ident.benchmark.metrics.interventions import Interventions
from ident.render.aliases import Float64s
from ident.render.errors import Failed, Impossible

Fits = MutableMapping[Callable[..., Any], Any]
"""What was fitted of some rows, by what fitted it."""

Resample = Callable[..., Float64s]
"""Gives a metric (resamples,) of samples drawn with replacement: of factors (n, d) and a representation (n, k), or of
what the metric's `fit` has given; of how many resamples, and of a generator.
"""

CLASSIFIED = "classified images"
"""What a source has that can give images with their classes, and views of them."""
ALWAYS = ("kinds", "rng")
"""What a metric can be given of any source: what each factor is (an interval, a circle, a category), and randomness."""


@dataclass(frozen=True)
class Metric:
    """A score of how well a representation shows the factors behind it. Scores are fractions; tables print percent."""

    name: str
    compute: Callable[..., npt.ArrayLike]
    """Of factors (n, d) and a representation (n, k), or of what `fit` gives: a score of each factor (d,), or one."""
    fit: Callable[..., Any] | None = None
    """Of factors and a representation: what several metrics are computed of, which is fitted once for all of these."""
    needs: tuple[str, ...] = ()
    """What `fit`, or else `compute`, is given by name beside them: `kinds`, `rng`, or what a source may have.

    `interventions` are made of the rows that share a factor's value.
    """
    range: tuple[float, float] = (0.0, 1.0)
    per_factor: bool | None = None
    """Whether each factor has a score; None if that is seen when it is computed."""
    resample: Resample | None = None
    """For the interval, by what is fitted once. Without it, `compute` is called with each sample that is drawn."""
    groups: int = 0
    """For the interval by the jackknife: how many groups of rows are left out in turn. Of what takes long, and of what
    rows mislead that are drawn twice."""
    permutations: int = 5
    """How often the factors are permuted for the score by chance."""
    floor: float | None = None
    """What knowing nothing gives on unseen samples, if that is not chance: R2 has 0 there, and chance is below."""
    everywhere: bool = False
    """Whether all runs have it, if their source has what it needs; else only those of a suite that reports it."""
    on_the_way: bool = False
    """Whether it is also taken at each look of a training."""
    views: str | None = None
    """None: it is taken of a split's factors. Else of classified images, first of those that are trained on and then of
    others: of their classes, or, with the name of an augmentation, of whether they have it, as every second one has.
    """

    def __post_init__(self) -> None:
        if not self.range[0] < self.range[1]:
            raise Impossible(f"metric {self.name}: its range is {self.range}; give a lower and then an upper bound")
        if type(self.groups) is not int or self.groups < 0 or self.groups == 1:
            raise Impossible(f"metric {self.name}: groups {self.groups!r}; give 2 or more for the jackknife, or 0")
        if type(self.permutations) is not int or self.permutations < 1:
            raise Impossible(f"metric {self.name}: permutations {self.permutations!r}; give a number from 1 on")

    def __call__(
        self, factors: npt.ArrayLike, representation: npt.ArrayLike, *, fits: Fits | None = None, **more: Any
    ) -> Float64s:
        """The score of each factor (d,); or the one number there is, as an array (1,).

        `fits` keeps what is fitted, for other metrics of the same rows.
        """
        x, y = checked(factors, representation)
        if "interventions" in self.needs:
            more["interventions"] = Interventions(x, more["kinds"])
        named = {name: more[name] for name in self.needs}
        if self.fit is None:
            scores = np.asarray(self.compute(x, y, **named))
        else:
            fits = {} if fits is None else fits
            if self.fit not in fits:
                fits[self.fit] = self.fit(x, y, **named)
            scores = np.asarray(self.compute(fits[self.fit]))
        dim = x.shape[1]
        allowed: list[tuple[int, ...]] = [(dim,)] if self.per_factor is not False else []
        allowed += [(), (1,)] if not self.per_factor else []
        if scores.dtype.kind not in "fiub" or scores.shape not in allowed:
            shapes = " or ".join(map(str, allowed))
            raise Failed(f"metric {self.name}: gave {scores.dtype} {scores.shape}; it must give numbers {shapes}")
        low, high = self.range
        wrong = scores[~((low - 1e-6 <= scores) & (scores <= high + 1e-6) & np.isfinite(scores))]
        if wrong.size:
            raise Failed(f"metric {self.name}: gave {wrong.flat[0]:g}; its range is {low:g} to {high:g}")
        return scores.astype(np.float64, copy=False).reshape(-1)

    def lacks(self, has: Collection[str]) -> list[str]:
        """What it needs that a source with these has not."""
        images = (CLASSIFIED,) if self.views is not None else ()
        return [need for need in (*self.needs, *images) if need not in (*ALWAYS, *has)]

    def verdict(self, value: float, chance: float, *, samples: object, dim: int) -> str:
        """A word on a score that says little, with the reason; nothing of one that says something."""
        if self.floor is None:
            bad = f"by chance {100 * chance:.2f}" if value <= chance else ""
        else:
            bad = f"below {100 * self.floor:g}: worse than the mean of the factors" if value < self.floor else ""
        few = self.floor is not None and chance < self.floor - 0.5
        why = f"{samples} samples are too few for {dim} factors" if few else "it has not learned them"
        return f"{self.name} {100 * value:.2f}, {bad}; {why}" if bad else ""


def of_function(name: str, compute: Callable[..., Any]) -> Metric:
    """A user's function of factors and a representation as a metric."""
    return Metric(name, compute, range=(-math.inf, math.inf))


@dataclass(frozen=True)
class Score:
    """A score: its value, that of each factor (d,) if it has any, an interval by bootstrap, and the score by chance."""

    value: float
    per_latent: Sequence[float]
    low: float
    high: float
    chance: float
