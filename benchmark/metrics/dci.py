"""DCI: disentanglement, completeness and informativeness by boosted trees (Eastwood and Williams, 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ident.benchmark.metrics.arrays import train_test
from ident.benchmark.metrics.boosting import boosted
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.targets import targets
from ident.render.aliases import Float64s
from ident.render.worlds.factors import Kind


@dataclass(frozen=True)
class Importances:
    """How much each output helps trees to predict each factor (k, d), and how well they do (d,)."""

    matrix: Float64s
    scores: Float64s


def importances(
    factors: Float64s, representation: Float64s, *, kinds: Sequence[Kind], rng: np.random.Generator
) -> Importances:
    """The importances of outputs (n, k) for factors (n, d), by trees fitted on some rows that score on others."""
    train, test = train_test(len(factors), rng)
    matrix, scores = np.zeros((representation.shape[1], factors.shape[1])), np.zeros(factors.shape[1])
    fitted, tested = ([target.rows(some) for target in targets(factors, kinds)] for some in (train, test))
    known = [number for number, target in enumerate(fitted) if target.varies]
    if known:
        trees = boosted(representation[train], [fitted[number] for number in known], representation[test], rng=rng)
        matrix[:, known] = trees.importances
        for number, predicted in zip(known, trees.predictions, strict=True):
            scores[number] = tested[number].score(predicted)
    return Importances(matrix, scores)


def one_sidedness(importances: Float64s) -> Float64s:
    """Of each row (m, n): 1 where all importance is in one column, 0 where all are as important or none is."""
    from scipy.stats import entropy  # here: it takes half a second

    columns = importances.shape[1]
    if columns == 1:
        return np.asarray(importances.sum(1) > 0, np.float64)
    spread: Float64s = entropy(importances + 1e-11, axis=1) / np.log(columns)
    return 1 - spread


def disentanglement(measured: Importances) -> float:
    """Whether each output is important for one factor alone: the mean over outputs, by how important they are."""
    weights = measured.matrix.sum(1)
    return float(weights @ one_sidedness(measured.matrix) / max(weights.sum(), 1e-300))


def completeness(measured: Importances) -> Float64s:
    """Of each factor (d,): whether one output alone is important for it."""
    return one_sidedness(measured.matrix.T)


def informativeness(measured: Importances) -> Float64s:
    """Of each factor (d,): the accuracy of classes, or how much of the variance is explained, on rows not fitted on."""
    return measured.scores


DCI = Metric(
    "dci", disentanglement, fit=importances, needs=("kinds", "rng"), per_factor=False, groups=5, permutations=1
)
COMPLETENESS = replace(DCI, name="dci-completeness", compute=completeness, per_factor=True)
INFORMATIVENESS = replace(
    DCI, name="dci-informativeness", compute=informativeness, per_factor=True, range=(-np.inf, 1.0)
)
