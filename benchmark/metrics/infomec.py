"""InfoMEC: modularity, explicitness and compactness in terms of information (Hsu et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ident.benchmark.metrics.arrays import classes, standardised
from ident.benchmark.metrics.information import entropy, labels_of
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.probes import logistic
from ident.benchmark.metrics.r2 import affine
from ident.benchmark.metrics.targets import targets
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Interval, Kind

MOST = 10_000
"""Rows."""
NEIGHBOURS = 10
"""Nearest neighbours of a row, by which the mutual information of continuous outputs is estimated (Ross, 2014)."""
ACTIVE = 0.1
"""Outputs whose range is a smaller share of the largest are left out."""


def normalised(
    factors: Float64s, representation: Float64s, *, kinds: Sequence[Kind], rng: np.random.Generator
) -> Float64s:
    """The mutual information (d, k) of each factor and each active output over the factor's entropy.

    Outputs whose values recur are counted as they are, as those of quantised models. Continuous factors are in bins.
    """
    from sklearn.feature_selection import mutual_info_classif  # here: it takes a second

    rows = rng.permutation(len(factors))[:MOST]
    x, y = factors[rows], representation[rows]
    ranges = np.ptp(y, 0)
    y = y[:, (ranges > ACTIVE * ranges.max()) & (ranges > 0)]
    mutual = np.zeros((x.shape[1], y.shape[1]))
    codes = [classes(column, Interval()) for column in y.T]
    continuous = [number for number, code in enumerate(codes) if code is None]
    for factor, (column, kind) in enumerate(zip(x.T, kinds, strict=True)):
        labels = labels_of(column, kind)
        whole = entropy(labels)
        if not whole:
            continue
        for number, code in enumerate(codes):
            if code is not None:
                mutual[factor, number] = whole + entropy(code) - entropy(labels * (code.max() + 1) + code)
        if continuous:
            if np.bincount(labels).max() < 2:
                raise Impossible(
                    f"information: factor {factor} has {len(labels)} values in {len(labels)} rows; to estimate that of "
                    "continuous outputs, values must recur: give more rows"
                )
            mutual[factor, continuous] = mutual_info_classif(
                y[:, continuous], labels, discrete_features=False, n_neighbors=NEIGHBOURS,
                random_state=int(rng.integers(2**31)),
            )  # fmt: skip
        mutual[factor] /= whole
    return np.maximum(mutual, 0)


def share(information: Float64s) -> Float64s:
    """Of each row (m, n): 1 where all of its information is in one column, 0 where all have as much or none."""
    rows, columns = information.shape
    if not columns:
        return np.zeros(rows)
    total = information.sum(1)
    largest = information.max(1) / np.where(total > 0, total, 1)
    each = (largest - 1 / columns) / (1 - 1 / columns) if columns > 1 else largest
    return np.where(total > 0, each, 0.0)


def infom(information: Float64s) -> float:
    """Whether each output tells of one factor alone."""
    return float(share(information.T).mean()) if information.size else 0.0


def infoe(factors: Float64s, representation: Float64s, *, kinds: Sequence[Kind], rng: np.random.Generator) -> Float64s:
    """Of each factor (d,): how much a linear probe knows of what there is to know, on the rows that it is fitted on.

    Of classes that is 1 - the loss of a logistic regression over that of knowing nothing, of numbers what is explained.
    """
    rows = rng.permutation(len(factors))[:MOST]
    outputs = standardised(representation, rows)[rows]
    scores = []
    for target in (each.rows(rows) for each in targets(factors, kinds)):
        if not target.varies:
            scores.append(0.0)
        elif target.labels is None:
            scores.append(target.score(affine(outputs, target.columns, outputs)))
        else:
            scores.append(1 - logistic_loss(outputs, target.labels) / np.log(len(np.unique(target.labels))))
    return np.array(scores)


def logistic_loss(outputs: Float64s, labels: Int64s) -> float:
    """The mean loss in nats of a logistic regression without a penalty, in which all classes count the same."""
    from sklearn.metrics import log_loss  # here: it takes a second

    classifier = logistic(outputs, labels, C=np.inf, class_weight="balanced")
    return float(log_loss(labels, classifier.predict_proba(outputs), labels=classifier.classes_))


INFOM = Metric("infom", infom, fit=normalised, needs=("kinds", "rng"), per_factor=False, groups=5, permutations=1)
INFOC = replace(INFOM, name="infoc", compute=share, per_factor=True)
INFOE = Metric("infoe", infoe, needs=("kinds", "rng"), range=(-np.inf, 1.0), per_factor=True, groups=5, permutations=1)
