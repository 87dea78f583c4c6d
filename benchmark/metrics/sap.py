"""SAP, separated attribute predictability: by how much one output leads in predicting a factor (Kumar et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ident.benchmark.metrics.arrays import train_test, varies
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.targets import targets
from ident.render.aliases import Float64s, Int64s
from ident.render.worlds.factors import Kind

PENALTY = 0.01
"""The C of the linear support vector machines that predict classes."""


def sap(factors: Float64s, representation: Float64s, *, kinds: Sequence[Kind], rng: np.random.Generator) -> Float64s:
    """Of each factor (d,): how well the best output predicts it, less how well the second does.

    That is an accuracy of classes, and of numbers the share of their variance that a line explains.
    """
    train, test = train_test(len(factors), rng)
    scores = []
    for target in targets(factors, kinds):
        if target.labels is None:
            scores.append([0.0, *explained(target.columns, representation)])
        elif target.rows(train).varies and target.rows(test).varies:
            labels, outputs = target.labels, representation
            right = [accuracy(labels[train], column[train], labels[test], column[test]) for column in outputs.T]
            commonest = float(np.mean(labels[test] == np.bincount(labels[train]).argmax()))
            scores.append([*right, *([commonest] * (len(right) == 1))])
        else:
            scores.append([0.0, 0.0])
    best = [sorted(of_factor)[-2:] for of_factor in scores]
    return np.array([first - second for second, first in best])


def explained(columns: Float64s, outputs: Float64s) -> Float64s:
    """The share of the variance of columns (n, c) that a line of each output (n, k) explains."""
    x, y = columns - columns.mean(0), outputs - outputs.mean(0)
    variances = (x**2).sum() * (y**2).sum(0)
    known = varies(outputs) & (variances > 0)
    return np.where(known, ((x.T @ y) ** 2).sum(0) / np.where(known, variances, 1), 0.0)


def accuracy(labels: Int64s, output: Float64s, labels_tested: Int64s, tested: Float64s) -> float:
    """How often a machine that is fitted to the labels of an output (n,) is right on others."""
    from sklearn.svm import LinearSVC  # here: it takes a second

    machine = LinearSVC(C=PENALTY, class_weight="balanced", dual=False).fit(output[:, None], labels)
    return float(machine.score(tested[:, None], labels_tested))


SAP = Metric("sap", sap, needs=("kinds", "rng"), per_factor=True, groups=5, permutations=2)
