"""The six metrics as their definitions read, a sample at a time, by scikit-learn's estimators: slow, no code of ours.

An encoder is a function of factors (n, d) that gives a representation (n, k): factors can be drawn and held anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import entropy
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score
from sklearn.svm import LinearSVC

from ident.render.aliases import Array, Float64s, Int64s

Encoder = Callable[[Float64s], Float64s]
BATCH = 64


def drawn(sizes: Sequence[int], n: int, rng: np.random.Generator) -> Float64s:
    """Factors (n, d): each a number below its size."""
    return np.asarray(np.stack([rng.integers(size, size=n) for size in sizes], 1), np.float64)


def beta_vae(
    encode: Encoder, sizes: Sequence[int], rng: np.random.Generator, train: int = 10_000, test: int = 5_000
) -> float:
    """The accuracy of a logistic regression, for which factor the pairs of a batch share."""
    features, labels = [], []
    for _ in range(train + test):
        held = rng.integers(len(sizes))
        first, second = drawn(sizes, BATCH, rng), drawn(sizes, BATCH, rng)
        second[:, held] = first[:, held]
        features.append(np.mean(np.abs(encode(first) - encode(second)), axis=0))
        labels.append(held)
    classifier = LogisticRegression(max_iter=10_000).fit(features[:train], labels[:train])
    return float(classifier.score(features[train:], labels[train:]))


def factor_vae(
    encode: Encoder, sizes: Sequence[int], rng: np.random.Generator, train: int = 10_000, test: int = 5_000
) -> float:
    """The accuracy of the majority vote, by the output that varies least where a factor is held."""
    everything = np.var(encode(drawn(sizes, 10_000, rng)), axis=0, ddof=1)
    active = np.sqrt(everything) >= 0.05
    if not active.any():
        return 0.0
    votes = np.zeros((2, len(sizes), int(active.sum())))
    for number in range(train + test):
        held = rng.integers(len(sizes))
        factors = drawn(sizes, BATCH, rng)
        factors[:, held] = factors[0, held]
        variances = np.var(encode(factors), axis=0, ddof=1)[active] / everything[active]
        votes[int(number >= train), held, np.argmin(variances)] += 1
    majority = votes[0].argmax(0)
    return float(votes[1][majority, np.arange(votes.shape[2])].sum() / test)


def mutual(factors: Float64s, codes: Float64s) -> Float64s:
    """The mutual information (k, d) of outputs, in 20 bins of a histogram, and discrete factors."""
    information = np.zeros((codes.shape[1], factors.shape[1]))
    for i in range(codes.shape[1]):
        bins = np.digitize(codes[:, i], np.histogram(codes[:, i], 20)[1][:-1])
        for j in range(factors.shape[1]):
            information[i, j] = mutual_info_score(bins, factors[:, j])
    return information


def mig(factors: Float64s, codes: Float64s) -> float:
    """The mean gap of the two largest in mutual information, over the entropy of each factor."""
    best = np.sort(mutual(factors, codes), axis=0)[::-1]
    entropies = np.array([mutual_info_score(column, column) for column in factors.T])
    return float(np.mean((best[0] - best[1]) / entropies))


def modularity(factors: Float64s, codes: Float64s) -> float:
    """How near the information of each output is to being on one factor alone."""
    scores = []
    for squares in mutual(factors, codes) ** 2:
        best = squares.max()
        scores.append(0.0 if best == 0 else 1 - (squares.sum() - best) / (best * (len(squares) - 1)))
    return float(np.mean(scores))


def importances(factors: Float64s, codes: Float64s, tested: Float64s, codes_tested: Float64s) -> tuple[Array, Float64s]:
    """The importance (k, d) of each output for each factor to boosted trees, and the accuracy (d,) of these."""
    matrix, scores = [], []
    for column, column_tested in zip(factors.T, tested.T, strict=True):
        trees = GradientBoostingClassifier(random_state=0).fit(codes, column)
        matrix.append(np.abs(trees.feature_importances_))
        scores.append(trees.score(codes_tested, column_tested))
    return np.array(matrix).T, np.array(scores)


def disentanglement(matrix: Array) -> float:
    """The mean over outputs of one less the entropy of their importances, by how important they are."""
    each = 1 - entropy(matrix.T + 1e-11, base=matrix.shape[1])
    matrix = matrix if matrix.sum() else np.ones_like(matrix)
    return float(np.sum(each * matrix.sum(1) / matrix.sum()))


def completeness(matrix: Array) -> float:
    """The mean over factors of one less the entropy of what is important for them, by how important that is."""
    each = 1 - entropy(matrix + 1e-11, base=matrix.shape[0])
    matrix = matrix if matrix.sum() else np.ones_like(matrix)
    return float(np.sum(each * matrix.sum(0) / matrix.sum()))


def sap(factors: Float64s, codes: Float64s, tested: Float64s, codes_tested: Float64s) -> float:
    """The mean gap of the two best in the accuracy of linear support vector machines of one output each."""
    accuracies = np.zeros((codes.shape[1], factors.shape[1]))
    for i in range(codes.shape[1]):
        for j in range(factors.shape[1]):
            machine = LinearSVC(C=0.01, class_weight="balanced", random_state=0, dual=False)
            machine.fit(codes[:, i : i + 1], factors[:, j])
            accuracies[i, j] = np.mean(machine.predict(codes_tested[:, i : i + 1]) == tested[:, j])
    best = np.sort(accuracies, axis=0)
    return float(np.mean(best[-1] - best[-2]))


def split(n: int, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
    """Rows to fit on, and half as many to test on."""
    rows = rng.permutation(n)
    return rows[: round(n * 2 / 3)], rows[round(n * 2 / 3) :]
