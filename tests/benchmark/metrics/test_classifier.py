"""Linear classifiers of a representation, against scikit-learn and against what is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ident.benchmark import metrics
from ident.benchmark.metrics import classifier, lookup
from ident.benchmark.registry import AUGMENTATIONS
from ident.render.aliases import Float64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Interval

CLASSES = Category(tuple("abc"))


def clouds(n: int = 1200, *, apart: float = 2.0, seed: int = 0) -> tuple[Float64s, Float64s]:
    """Classes (n, 1) of three, and points (n, 5) around a centre of each."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    centres = apart * np.eye(3, 5)
    return labels[:, None].astype(np.float64), centres[labels] + rng.normal(size=(n, 5))


def test_it_is_scikit_learns_accuracy_on_the_last_sixth() -> None:
    labels, points = clouds()
    score = metrics.score("classes", labels, points, seed=0, kinds=(CLASSES,))
    oracle = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(points[:1000], labels[:1000, 0])
    assert score.value == pytest.approx(oracle.score(points[1000:], labels[1000:, 0]))
    assert score.chance == pytest.approx(1 / 3, abs=0.08)
    assert score.per_latent == ()
    low, high = binom(200, score.value).ppf([0.025, 0.975]) / 200
    assert (score.low, score.high) == pytest.approx((low, high), abs=0.02)


def test_rows_that_are_fitted_on_are_not_tested() -> None:
    labels, points = clouds()
    points[1000:] = np.random.default_rng(1).normal(size=(200, 5))
    assert metrics.value("classes", labels, points, seed=0, kinds=(CLASSES,)) < 0.5
    labels, points = clouds()
    points[:1000] = np.random.default_rng(1).normal(size=(1000, 5))
    assert metrics.value("classes", labels, points, seed=0, kinds=(CLASSES,)) < 0.7


def test_the_optimal_classifier_of_two_clouds() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=60_000)
    points = rng.normal(size=(60_000, 1)) + 2.0 * labels[:, None]
    score = metrics.value("augmentation(crop)", labels[:, None], points, seed=0, kinds=(Category(("no", "yes")),))
    assert score == pytest.approx(0.8413, abs=0.01)  # the normal distribution up to one deviation


def test_several_categories_have_their_mean_and_other_factors_do_not_matter() -> None:
    labels, points = clouds()
    other = np.random.default_rng(3).integers(2, size=(1200, 1)).astype(np.float64)
    both = np.hstack([labels, points[:, :1], other])
    kinds = (CLASSES, Interval(), Category(("no", "yes")))
    one, two = (
        metrics.value("classes", column, points, seed=0, kinds=(kind,))
        for column, kind in ((labels, kinds[0]), (other, kinds[2]))
    )
    assert metrics.value("classes", both, points, seed=0, kinds=kinds) == pytest.approx((one + two) / 2)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_each_augmentation_has_a_metric_of_its_name(name: str) -> None:
    metric = metrics.load(f"augmentation({name})")
    assert (metric.name, metric.views) == (f"augmentation({name})", name)
    labels, points = clouds()
    assert metrics.value(metric, labels, points, seed=0, kinds=(CLASSES,)) > 0.8


def test_what_cannot_be_classified() -> None:
    labels, points = clouds()
    with pytest.raises(Impossible, match=r"^classes: none of the factors is a category; leave it out$"):
        metrics.value("classes", labels, points, seed=0, kinds=(Interval(),))
    one = np.zeros((60, 1))
    assert metrics.value("classes", one, points[:60], seed=0, kinds=(CLASSES,)) == 1.0
    assert metrics.value("classes", labels[:60], np.ones((60, 2)), seed=0, kinds=(CLASSES,)) <= 0.8


def test_a_source_without_classified_images_has_none() -> None:
    with pytest.raises(
        Impossible, match=r"^mine: metric augmentation\(blur\) needs classified images, which its source"
    ):
        lookup.check(["augmentation(blur)"], (), "mine")
    lookup.check(["augmentation(blur)", "classes"], ("classified images",), "mine")
    assert "classes" not in lookup.of_run(["r2"])


def test_the_rows_are_shared_as_those_of_cifar10() -> None:
    assert classifier.split(60_000) == (50_000, 10_000)
    assert classifier.split(12) == (10, 2)
    for fitted, tested in ((50_000, 10_000), (60_000, 10_000), (100, 7), (7, 100), (11, 3)):
        n = classifier.most(10**9, fitted, tested)
        assert all(np.less_equal(classifier.split(n), (fitted, tested)))
        assert not all(np.less_equal(classifier.split(n + 1), (fitted, tested)))
    assert classifier.most(600, 50_000, 10_000) == 600
