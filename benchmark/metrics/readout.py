"""Read-outs: how well a probe predicts each factor as what it is, on rows that it was not fitted on.

Intervals and circles (by sine and cosine) have the share of their variance that is explained, categories an accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ident.benchmark.metrics.arrays import TRAIN, standardised, train_test
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.probes import logistic
from ident.benchmark.metrics.r2 import affine
from ident.benchmark.metrics.targets import Target, targets
from ident.render.aliases import Float64s
from ident.render.worlds.factors import Kind

KERNEL_ROWS, KERNEL_CHOICE = 1_500, 750
"""Rows at most that kernel ridges are fitted on, and that their widths and ridges are chosen by."""
WIDTHS, RIDGES = (0.1, 1.0, 10.0), (1e-4, 1e-2, 1.0)
"""The widths are times 1 over the median squared distance."""


def readout(
    factors: Float64s,
    representation: Float64s,
    *,
    kinds: Sequence[Kind],
    rng: np.random.Generator,
    kernel: bool = False,
) -> Float64s:
    """The score of each factor (d,) by a linear probe, or by kernel ridge regression with Gaussian kernels."""
    train, test = train_test(len(factors), rng)
    outputs = standardised(representation, train)
    every = targets(factors, kinds, recurring=False)
    fitted, tested = ([target.rows(some) for target in every] for some in (train, test))
    probe = partial(by_kernels, rng=rng) if kernel else by_lines
    predictions = probe(outputs[train], fitted, outputs[test])
    return np.array([
        target.score(predicted) if known.varies else 0.0
        for known, target, predicted in zip(fitted, tested, predictions, strict=True)
    ])  # fmt: skip


def by_lines(outputs: Float64s, fitted: Sequence[Target], tested: Float64s) -> list[Float64s]:
    """Predictions of affine maps, and of logistic regressions for categories."""
    return [
        affine(outputs, target.columns, tested) if target.labels is None else probabilities_of(outputs, target, tested)
        for target in fitted
    ]


def probabilities_of(outputs: Float64s, target: Target, tested: Float64s) -> Float64s:
    """The probabilities (m, c) of classes by a logistic regression; 0 of those that no row is in."""
    probabilities = np.zeros((len(tested), target.columns.shape[1]))
    if target.varies:
        classifier = logistic(outputs, target.labels, max_iter=1000)
        probabilities[:, classifier.classes_] = classifier.predict_proba(tested)
    return probabilities


def by_kernels(
    outputs: Float64s, fitted: Sequence[Target], tested: Float64s, *, rng: np.random.Generator
) -> list[Float64s]:
    """Predictions of kernel ridge regressions: of each target by the width and the ridge that serve it best."""
    from scipy.linalg import cho_factor, cho_solve  # here: it takes a tenth of a second
    from scipy.spatial.distance import cdist

    rows = rng.permutation(len(outputs))[: KERNEL_ROWS + KERNEL_CHOICE]
    fit, choice = np.split(rows, [min(KERNEL_ROWS, round(TRAIN * len(rows)))])
    columns = np.hstack([target.columns for target in fitted])
    ends = np.cumsum([0, *(target.columns.shape[1] for target in fitted)])
    away, away_choice, away_tested = (cdist(some, outputs[fit], "sqeuclidean") for some in (
        outputs[fit], outputs[choice], tested
    ))  # fmt: skip
    median = np.median(away)
    best, predictions = np.full(len(fitted), -np.inf), [np.zeros((len(tested), t.columns.shape[1])) for t in fitted]
    mean = columns[fit].mean(0)
    for width in WIDTHS:
        scale = width / median if median > 0 else 1.0
        gram, gram_choice, gram_tested = (np.exp(-scale * each) for each in (away, away_choice, away_tested))
        for ridge in RIDGES:
            solved = cho_solve(cho_factor(gram + ridge * np.eye(len(fit))), columns[fit] - mean)
            chosen, final = gram_choice @ solved + mean, gram_tested @ solved + mean
            for number, target in enumerate(fitted):
                part = slice(ends[number], ends[number + 1])
                score = target.rows(choice).score(chosen[:, part])
                if score > best[number]:
                    best[number], predictions[number] = score, final[:, part]
    return predictions


READOUT = Metric(
    "readout", readout, needs=("kinds", "rng"), range=(-np.inf, 1.0), per_factor=True, groups=5, permutations=2
)
KERNEL_READOUT = Metric(
    "kernel-readout",
    partial(readout, kernel=True),
    needs=("kinds", "rng"),
    range=(-np.inf, 1.0),
    per_factor=True,
    groups=5,
    permutations=1,
)
