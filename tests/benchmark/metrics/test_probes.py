"""Read-outs, explicitness and InfoMEC against scikit-learn, closed forms, and what they must not change with."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.feature_selection import mutual_info_classif
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score

from ident.benchmark import metrics
from ident.benchmark.metrics import readout as module
from ident.benchmark.metrics.explicitness import CAPACITIES, of_curve, with_fourier
from ident.benchmark.metrics.infomec import normalised, share
from ident.benchmark.metrics.readout import by_kernels
from ident.benchmark.metrics.targets import Target, targets
from ident.render.aliases import Float64s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Circle, Interval, Kind
from tests.benchmark.metrics import plain
from tests.benchmark.metrics.representations import ENCODERS, SIZES, grid

GRID = grid()
KINDS = (Interval(), Interval(), Interval())


def world(n: int = 900) -> tuple[Float64s, tuple[Kind, ...]]:
    """Factors of all kinds."""
    rng = np.random.default_rng(3)
    columns = [rng.uniform(-1, 1, n), rng.uniform(-1, 1, n), rng.integers(4, size=n).astype(np.float64)]
    return np.stack(columns, 1), (Interval(), Circle(), Category(tuple("abcd")))


def seen(factors: Float64s) -> Float64s:
    """The interval, the angle as a point of the circle, and the category as one of four, with noise."""
    angle = np.pi * factors[:, 1]
    parts = [factors[:, :1], np.sin(angle)[:, None], np.cos(angle)[:, None], np.eye(4)[factors[:, 2].astype(int)]]
    codes: Float64s = np.hstack(parts) + 0.1 * np.random.default_rng(4).normal(size=(len(factors), 7))
    return codes


def test_each_factor_is_read_out_as_what_it_is() -> None:
    factors, kinds = world()
    codes, rng = seen(factors), np.random.default_rng(0)
    scores = metrics.load("readout")(factors, codes, kinds=kinds, rng=np.random.default_rng(0))
    train, test = plain.split(len(factors), rng)
    angle = np.stack([np.sin(np.pi * (factors[:, 1] + 1)), np.cos(np.pi * (factors[:, 1] + 1))], 1)
    for number, true in ((0, factors[:, :1]), (1, angle)):
        fitted = LinearRegression().fit(codes[train], true[train])
        expected = r2_score(true[test], fitted.predict(codes[test]), multioutput="variance_weighted")
        assert scores[number] == pytest.approx(expected, abs=1e-9)
    mean, deviation = codes[train].mean(0), codes[train].std(0)
    classifier = LogisticRegression(max_iter=1000).fit((codes[train] - mean) / deviation, factors[train, 2])
    assert scores[2] == pytest.approx(classifier.score((codes[test] - mean) / deviation, factors[test, 2]))
    kernel = metrics.load("kernel-readout")(factors, codes, kinds=kinds, rng=np.random.default_rng(0))
    assert (np.minimum(scores, kernel) > 0.9).all()
    as_interval = metrics.load("readout")(factors, codes, kinds=KINDS, rng=np.random.default_rng(0))
    assert as_interval[1] < 0.7  # a line cannot go around


def test_kernel_ridges_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(150, 2))
    true = np.sin(2 * codes[:, :1])
    monkeypatch.setattr(module, "WIDTHS", (1.0,))
    monkeypatch.setattr(module, "RIDGES", (0.01,))
    (predicted,) = by_kernels(codes[:100], [Target(true[:100], None)], codes[100:], rng=np.random.default_rng(5))
    fit = np.random.default_rng(5).permutation(100)[:67]
    away = ((codes[fit][:, None] - codes[fit]) ** 2).sum(2)
    ridge = KernelRidge(kernel="rbf", gamma=1 / np.median(away), alpha=0.01)
    mean = true[fit].mean()
    expected = ridge.fit(codes[fit], true[fit] - mean).predict(codes[100:]) + mean
    assert predicted == pytest.approx(expected, abs=1e-8)
    assert r2_score(true[100:], predicted) > 0.9


def test_classes_that_are_missing_where_a_probe_is_fitted() -> None:
    factors = np.zeros((60, 2))
    factors[:, 0] = np.arange(60) % 3
    factors[7, 1] = 1
    codes = np.random.default_rng(0).normal(size=(60, 2))
    kinds = (Category(tuple("abc")), Category(tuple("ab")))
    for name in ("readout", "kernel-readout", "dci-informativeness", "dci-explicitness", "infoe", "sap"):
        for seed in range(6):
            scores = metrics.load(name)(factors, codes, kinds=kinds, rng=np.random.default_rng(seed))
            assert np.isfinite(scores).all(), name


def test_a_category_of_too_many_classes() -> None:
    factors = np.arange(600.0)[:, None]
    kinds = (Category(tuple(map(str, range(600)))),)
    with pytest.raises(Impossible, match=r"^factor 0: 600 categories; at most 256 can be predicted$"):
        metrics.value("readout", factors, factors, seed=0, kinds=kinds)
    assert targets(factors, (Interval(),))[0].labels is None


def test_explicitness_of_curves() -> None:
    assert of_curve(np.linspace(1, 0, 10)) == pytest.approx(0)
    assert of_curve(np.zeros(10)) == 1
    assert of_curve(np.full(10, 0.4)) == 1
    assert of_curve(np.ones(10)) == 0
    assert of_curve(np.array([1.0] * 9 + [0])) == pytest.approx(1 - 8.5 / 4.5)


def test_fourier_features_of_many_outputs_take_no_cube_of_memory() -> None:
    outputs = np.random.default_rng(0).normal(2, 3, (600, 40))
    train = np.arange(500)
    tracemalloc.start()
    features = with_fourier(outputs, train, np.random.default_rng(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 500 * 500 * 40 / 2
    scaled = (outputs - outputs[train].mean(0)) / outputs[train].std(0)
    away = np.median([[((one - other) ** 2).sum() for one in scaled[train]] for other in scaled[train]])
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(40, CAPACITIES[-1])) / np.sqrt(away)
    phases = rng.uniform(0, 2 * np.pi, CAPACITIES[-1])
    assert features == pytest.approx(np.hstack([scaled, np.cos(scaled @ directions + phases)]), abs=1e-9)


def test_explicitness_falls_with_what_a_line_cannot_read() -> None:
    rng = np.random.default_rng(0)
    factors = rng.uniform(-1, 1, (1500, 2))
    bent = np.hstack([factors, factors**2]) @ rng.normal(size=(4, 4))
    folded = np.stack([np.cos(5 * factors[:, 0]), np.sin(5 * factors[:, 0]), factors[:, 1]], 1)
    straight, bent_score, folded_score = (
        metrics.load("dci-explicitness")(factors, codes, kinds=KINDS[:2], rng=np.random.default_rng(0))
        for codes in (factors @ rng.normal(size=(2, 2)), bent, folded)
    )
    assert straight == pytest.approx([1, 1], abs=0.01)
    assert bent_score == pytest.approx([1, 1], abs=0.01)
    assert folded_score[0] < 0.9
    assert folded_score[1] > 0.95


@pytest.mark.parametrize("name", ["some noise", "noise"])
def test_information_is_estimated_as_by_scikit_learn(name: str) -> None:
    codes = ENCODERS[name](GRID)
    measured = normalised(GRID, codes, kinds=KINDS, rng=np.random.default_rng(0))
    for factor in range(3):
        estimated = mutual_info_classif(codes, GRID[:, factor], discrete_features=False, n_neighbors=10, random_state=1)
        assert measured[factor] == pytest.approx(estimated / np.log(SIZES[factor]), abs=1e-3)
    largest = measured.max(0) / np.maximum(measured.sum(0), 1e-12)
    assert metrics.value("infom", GRID, codes, seed=0) == pytest.approx((largest.mean() - 1 / 3) * 3 / 2, abs=0.01)


def test_infomec_of_what_is_known() -> None:
    expected = {"perfect": (1, 1, 1), "permuted": (1, 1, 1), "duplicated": (1, 1, 0.4), "constant": (0, 0, 0)}
    for name, values in expected.items():
        for metric, value in zip(("infom", "infoe", "infoc"), values, strict=True):
            assert metrics.value(metric, GRID, ENCODERS[name](GRID), seed=0) == pytest.approx(value, abs=5e-3)
    assert metrics.value("infom", GRID, ENCODERS["more, constant"](GRID), seed=0) == pytest.approx(1)


def test_shares_by_hand() -> None:
    assert share(np.array([[1.0, 0, 0], [1, 1, 1], [2, 1, 1], [0, 0, 0]])) == pytest.approx([1, 0, 0.25, 0])
    assert share(np.array([[0.5], [0.0]])) == pytest.approx([0.5 / 0.5, 0])
    assert share(np.zeros((2, 0))) == pytest.approx([0, 0])


@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_no_metric_changes_with_the_order_of_outputs_or_leaves_its_range(name: str) -> None:
    factors, kinds = world(240)
    codes = seen(factors)[:, :5]
    metric = metrics.load(name)
    if "interventions" in metric.needs:
        factors, kinds = np.round(factors * [1, 1, 0]), (Interval(), Interval(), Interval())
    low, high = metric.range
    for representation in (codes, codes[:, [3, 1, 0, 4, 2]], np.ones((240, 3)), -1e6 * codes):
        scores = metric(factors, representation, kinds=kinds, rng=np.random.default_rng(0))
        assert (low <= scores).all()
        assert (scores <= high).all()
    before, after = (
        metric(factors, some, kinds=kinds, rng=np.random.default_rng(0)).mean() for some in (codes, codes[:, ::-1])
    )
    assert after == pytest.approx(before, abs=0.05)  # where probes are random in the order of outputs
