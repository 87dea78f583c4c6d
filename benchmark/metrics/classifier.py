"""Linear classifiers of a frozen representation: of the classes of images, and of what was done to views of them.

A classifier is fitted on the first rows and tested on the last: where these are images to train on and others, as in a
benchmark of classification, no test image has been seen by either of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ident.benchmark.metrics.arrays import standardised
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.probes import logistic
from ident.benchmark.registry import AUGMENTATIONS
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Kind

FITTED, OF = 5, 6
"""So many of so many rows a classifier is fitted on: as many as CIFAR10 has to train on among all of its images."""
MOST_ITERATIONS = 1000


def split(n: int) -> tuple[int, int]:
    """How many of n rows a classifier is fitted on, and tested on."""
    fitted = n * FITTED // OF
    return fitted, n - fitted


def most(n: int, fitted: int, tested: int) -> int:
    """How many rows of n there can be, if there are so many to fit on and so many to test on."""
    return min(n, ((fitted + 1) * OF - 1) // FITTED, tested * OF // (OF - FITTED))


def told(factors: Float64s, representation: Float64s, *, kinds: Sequence[Kind]) -> Float64s:
    """For each tested row (m,) the share of its categories that linear classifiers tell, fitted on the first rows."""
    labels = classes_of(factors, kinds, "classes")
    fitted, _ = split(len(factors))
    outputs = standardised(representation, slice(fitted))
    hits = [classified(outputs[:fitted], of_one[:fitted], outputs[fitted:]) == of_one[fitted:] for of_one in labels.T]
    return np.asarray(np.mean(hits, 0), np.float64)


def classes_of(factors: Float64s, kinds: Sequence[Kind], metric: str) -> Int64s:
    """The factors (n, c) that are categories, of which a metric of this name needs one."""
    categories = [number for number, kind in enumerate(kinds) if isinstance(kind, Category)]
    if not categories:
        raise Impossible(f"{metric}: none of the factors is a category; leave it out")
    return factors[:, categories].astype(np.int64)


def classified(outputs: Float64s, labels: Int64s, tested: Float64s) -> Int64s:
    """The classes (m,) of tested rows by a logistic regression of labels (n,) on outputs (n, k)."""
    if len(np.unique(labels)) == 1:
        return np.full(len(tested), labels[0])
    predicted: Int64s = logistic(outputs, labels, max_iter=MOST_ITERATIONS).predict(tested)
    return predicted


def resample(shares: Float64s, resamples: int, rng: np.random.Generator) -> Float64s:
    """Accuracies (resamples,) of samples drawn with replacement from tested rows (m,), with the classifiers as is."""
    counts = rng.multinomial(len(shares), np.full(len(shares), 1 / len(shares)), resamples)
    accuracies: Float64s = counts @ shares / len(shares)
    return accuracies


def accuracy(name: str, views: str) -> Metric:
    """The share of the tested rows that linear classifiers tell, as a metric of a name."""
    how: dict[str, Any] = {"needs": ("kinds",), "per_factor": False, "resample": resample, "permutations": 2}
    return Metric(name, np.mean, fit=told, views=views, **how)


CLASSES = accuracy("classes", "")
CROP, FLIP, BRIGHTNESS, CONTRAST, SATURATION, HUE, JITTER, GREY, BLUR, ALL = (
    accuracy(f"augmentation({name})", name) for name in AUGMENTATIONS
)
"""Whether images have an augmentation, which every second one has: 0.5 by chance."""
