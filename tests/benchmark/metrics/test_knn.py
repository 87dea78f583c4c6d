"""The accuracy by nearest neighbours, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from ident.benchmark import metrics
from ident.benchmark.metrics import knn, lookup
from ident.benchmark.metrics.classifier import split
from ident.benchmark.registry import NEIGHBOURS
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Interval

SEVEN = (Category(tuple("abcdefg")),)


@pytest.mark.parametrize("k", NEIGHBOURS)
@pytest.mark.parametrize("dim", [2, 10])
def test_it_is_scikit_learns(k: int, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(k)
    labels = rng.integers(3, 7, size=1800)  # no class 0
    points = 1.2 * np.eye(4, dim)[labels - 3] + rng.normal(size=(1800, dim))
    fitted, tested = split(1800)
    oracle = KNeighborsClassifier(k, algorithm="brute").fit(points[:fitted], labels[:fitted])
    monkeypatch.setattr(knn, "LARGEST", 7 * fitted)  # several parts, the last one shorter
    score = metrics.score(f"knn({k})", labels[:, None], points, seed=0, kinds=SEVEN)
    assert score.value == pytest.approx(oracle.score(points[fitted:], labels[fitted:]))
    assert 0.35 < score.value < 0.95
    assert score.chance == pytest.approx(0.25, abs=0.1)
    error = np.sqrt(score.value * (1 - score.value) / tested)
    assert (score.low, score.high) == pytest.approx((score.value - 2 * error, score.value + 2 * error), abs=0.6 * error)


def test_of_as_many_votes_the_first_class_wins() -> None:
    votes = np.array([[2, 1], [1, 2], [0, 2], [2, 2]])
    assert knn.elected(votes, 3).tolist() == [1, 1, 0, 2]


def test_it_is_of_classified_images() -> None:
    assert lookup.load("knn(5)").lacks(()) == ["classified images"]
    with pytest.raises(Impossible, match=r"knn\(7\).*choose from"):
        lookup.load("knn(7)")
    with pytest.raises(Impossible, match=r"knn\(200\): 100 rows vote; give more samples"):
        metrics.score("knn(200)", np.arange(120)[:, None] % 2, np.ones((120, 2)), seed=0, kinds=SEVEN)


def test_it_is_the_share_of_all_categories_and_of_nothing_else() -> None:
    rng = np.random.default_rng(0)
    factors = np.stack([rng.normal(size=600), rng.integers(0, 2, 600), rng.integers(0, 2, 600)], 1)
    kinds = (Interval(-1, 1), *2 * (Category(("no", "yes")),))
    outputs = 10 * factors[:, 1:2] + rng.normal(size=(600, 1))  # tell the first category, and not the second
    value = metrics.score("knn(5)", factors, outputs, seed=0, kinds=kinds).value
    assert value == pytest.approx(0.75, abs=0.07)
    with pytest.raises(Impossible, match=r"knn\(5\): none of the factors is a category; leave it out"):
        metrics.score("knn(5)", factors[:, :1], factors, seed=0, kinds=kinds[:1])
