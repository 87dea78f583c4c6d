"""The six metrics against their definitions, by scikit-learn, on representations of which much is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from ident.benchmark import metrics
from ident.benchmark.metrics.boosting import boosted
from ident.benchmark.metrics.dci import Importances, completeness, disentanglement
from ident.benchmark.metrics.information import information
from ident.benchmark.metrics.interventions import Interventions
from ident.benchmark.metrics.sap import sap
from ident.benchmark.metrics.targets import targets
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Circle, Interval
from tests.benchmark.metrics import plain
from tests.benchmark.metrics.representations import ENCODERS, SIZES, grid

SIX = ("beta-vae", "factor-vae", "mig", "dci", "modularity", "sap")
KINDS = (Interval(), Interval(), Interval())
GRID = grid()
NAMES = list(ENCODERS)


def value(metric: str, name: str) -> float:
    """The score of a representation of the grid."""
    return metrics.value(metric, GRID, ENCODERS[name](GRID), seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_information_is_that_of_scikit_learn(name: str) -> None:
    codes = ENCODERS[name](GRID)
    measured = information(GRID, codes, kinds=KINDS)
    assert measured.mutual == pytest.approx(plain.mutual(GRID, codes).T, abs=1e-12)
    assert measured.entropy == pytest.approx(np.log(SIZES))
    if codes.shape[1] > 1:
        assert value("mig", name) == pytest.approx(plain.mig(GRID, codes), abs=1e-12)
    assert value("modularity", name) == pytest.approx(plain.modularity(GRID, codes), abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_who_is_held_is_told_as_by_drawing_anew(name: str) -> None:
    rng = np.random.default_rng(0)
    expected = plain.beta_vae(ENCODERS[name], SIZES, rng, train=1000, test=800)
    assert value("beta-vae", name) == pytest.approx(expected, abs=0.06)
    expected = plain.factor_vae(ENCODERS[name], SIZES, rng, train=800, test=800)
    assert value("factor-vae", name) == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_sap_is_that_of_scikit_learn(name: str) -> None:
    codes = ENCODERS[name](GRID)
    train, test = plain.split(len(GRID), np.random.default_rng(0))
    if codes.shape[1] > 1:
        expected = plain.sap(GRID[train], codes[train], GRID[test], codes[test])
        assert value("sap", name) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["perfect", "duplicated", "one lost", "turned", "more, noise", "some noise"])
def test_dci_is_that_of_scikit_learn(name: str) -> None:
    codes = ENCODERS[name](GRID)
    train, test = plain.split(len(GRID), np.random.default_rng(0))
    matrix, scores = plain.importances(GRID[train], codes[train], GRID[test], codes[test])
    assert value("dci", name) == pytest.approx(plain.disentanglement(matrix), abs=0.03)
    # Of duplicated outputs trees choose one or the other at random.
    near = 0.1 if name == "duplicated" else 0.03
    assert value("dci-completeness", name) == pytest.approx(plain.completeness(matrix), abs=near)
    assert value("dci-informativeness", name) == pytest.approx(scores.mean(), abs=0.03)


def test_trees_are_those_of_scikit_learn() -> None:
    """They differ where splits are as good: of two rows, any output that tells them apart."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(300, 2))
    codes = np.hstack([numbers @ rng.normal(size=(2, 2)), rng.normal(size=(300, 1))])
    classes = np.stack([numbers[:, 0] > 0.3, np.digitize(numbers[:, 1], [-0.6, 0.1, 0.8])], 1).astype(np.float64)
    every = targets(np.hstack([numbers, classes]), [Interval()] * 4)
    trees = boosted(codes, every, codes, rng=rng)
    for number in range(2):
        theirs = GradientBoostingRegressor(random_state=0).fit(codes, numbers[:, number])
        assert trees.importances[:, number] == pytest.approx(theirs.feature_importances_, abs=0.01)
        assert trees.predictions[number][:, 0] == pytest.approx(theirs.predict(codes), abs=0.1)
        theirs = GradientBoostingClassifier(random_state=0).fit(codes, classes[:, number])
        assert trees.importances[:, 2 + number] == pytest.approx(theirs.feature_importances_, abs=0.02)
        assert np.mean(trees.predictions[2 + number].argmax(1) == theirs.predict(codes)) > 0.98


EXACT = {
    "perfect": (1, 1, 1, 1, 1),
    "negated": (1, 1, 1, 1, 1),
    "permuted": (1, 1, 1, 1, 1),
    "shifted": (1, 1, 1, 1, 1),
    "cubed": (1, 1, 1, 1, 1),
    "duplicated": (1, 1, 0, 1, 1),
    "one duplicated": (1, 1, 2 / 3, 1, 1),
    "constant": (None, 0, 0, 0, 0),
    "one lost": (None, None, 2 / 3, None, 2 / 3),
    "two of three": (None, None, 2 / 3, None, 1),
    "one of three": (None, None, 1 / 3, None, 1),
    "more, constant": (1, 1, 1, 1, 0.5),
}
"""Of all combinations, as often each: BetaVAE, FactorVAE, MIG, DCI, modularity."""


@pytest.mark.parametrize("name", EXACT)
def test_scores_that_are_known(name: str) -> None:
    for metric, expected in zip(("beta-vae", "factor-vae", "mig", "dci", "modularity"), EXACT[name], strict=True):
        if expected is not None:
            assert value(metric, name) == pytest.approx(expected, abs=1e-3), metric


@pytest.mark.parametrize("name", ["constant", "noise"])
def test_what_tells_nothing_is_at_chance(name: str) -> None:
    for metric in SIX:
        score = metrics.score(metric, GRID, ENCODERS[name](GRID), seed=0)
        assert score.value == pytest.approx(score.chance, abs=0.2), metric


def test_importances_by_hand() -> None:
    measured = Importances(np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]), np.ones(3))
    half = 1 - np.log(2) / np.log(3)
    assert disentanglement(measured) == pytest.approx((1 + 2 * half) / 3)
    assert completeness(measured) == pytest.approx([1, half, half])
    nothing = Importances(np.zeros((2, 3)), np.zeros(3))
    assert (disentanglement(nothing), *completeness(nothing)) == (0, 0, 0, 0)


def test_continuous_factors() -> None:
    rng = np.random.default_rng(1)
    factors = rng.uniform(-1, 1, (1200, 2))
    for name in ("mig", "dci", "modularity"):
        assert metrics.value(name, factors, factors, seed=0) > 0.9
    correlations = np.corrcoef(factors.T, (factors @ [[1, 0.5], [0, 1]]).T)[:2, 2:] ** 2
    gaps = np.abs(correlations[:, 0] - correlations[:, 1])
    assert sap(factors, factors @ [[1, 0.5], [0, 1]], kinds=KINDS[:2], rng=rng) == pytest.approx(gaps)
    for name in ("beta-vae", "factor-vae"):
        with pytest.raises(Impossible, match="interventions: factor 0 has 1200 values in 1200 rows"):
            metrics.value(name, factors, factors, seed=0)


def test_categories_that_never_recur_leave_the_other_metrics() -> None:
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(3, size=40), np.arange(40)], 1)
    kinds = (Category(tuple("abc")), Category(tuple(map(str, range(40)))))
    names = "beta-vae", "factor-vae", "infom", "infoc", "mig"
    scores = dict(metrics.score_each(names, factors, rng.normal(size=(40, 2)), seed=0, kinds=kinds))
    for name in names[:4]:
        assert isinstance(scores[name], Impossible)
        assert "factor 1 has 40 values in 40 rows" in str(scores[name])
    assert isinstance(scores["mig"], metrics.Score)


def test_an_angle_and_a_category_are_predicted_as_such() -> None:
    rng = np.random.default_rng(1)
    angle = rng.uniform(-1, 1, 900)
    factors = np.stack([angle, rng.integers(6, size=900)], 1)
    codes = np.hstack([np.stack([np.sin(np.pi * angle), np.cos(np.pi * angle)], 1), factors[:, 1:]])
    kinds = (Circle(), Category(tuple("abcdef")))
    informativeness = metrics.load("dci-informativeness")(factors, codes, kinds=kinds, rng=rng)
    assert informativeness[0] > 0.97
    assert informativeness[1] == 1
    assert metrics.load("dci")(factors, codes, kinds=kinds, rng=rng)[0] > 0.97


def test_interventions_hold_one_factor_and_leave_the_others() -> None:
    interventions = Interventions(GRID, KINDS)
    rng = np.random.default_rng(0)
    for number in range(3):
        held = np.full(400, number)
        rows = GRID[interventions.batches(held, 64, rng)]
        assert (rows[:, :, number] == rows[:, :1, number]).all()
        left, right = interventions.pairs(held, 64, rng)
        assert (GRID[left][..., number] == GRID[right][..., number]).all()
        assert (left != right).all()
        others = [other for other in range(3) if other != number]
        for drawn in (rows, GRID[left], GRID[right]):
            for other in others:
                counts = np.bincount(drawn[..., other].astype(int).ravel()) / drawn[..., other].size
                assert counts == pytest.approx(np.full(SIZES[other], 1 / SIZES[other]), abs=0.02)
        agree = (GRID[left][..., others] == GRID[right][..., others]).mean((0, 1))
        assert agree == pytest.approx([1 / SIZES[other] for other in others], abs=0.02)


@pytest.mark.parametrize("metric", ["mig", "modularity", "sap", "beta-vae", "factor-vae", "dci"])
def test_a_factor_with_one_value_is_left_out(metric: str) -> None:
    held = GRID.copy()
    held[:, 1] = 2
    codes = ENCODERS["perfect"](GRID)
    score = metrics.load(metric)(held, codes, kinds=KINDS, rng=np.random.default_rng(0))
    if len(score) == 3:
        assert score[1] == 0
    assert np.isfinite(score).all()
    held[:, 2] = 0
    if metric in ("beta-vae", "factor-vae"):
        with pytest.raises(Impossible, match="interventions: 1 factors vary"):
            metrics.value(metric, held, codes, seed=0)
    else:
        assert 0 <= metrics.value(metric, held, codes, seed=0) <= 1


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6))
def test_what_they_do_not_change_with(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    factors = plain.drawn((3, 5, 2), 200, rng)
    codes = factors @ rng.normal(size=(3, k)) + rng.normal(size=(200, k))
    moved = codes[:, rng.permutation(k)] * rng.choice([-4, 0.5, 2], k)
    for name in ("mig", "modularity"):
        before, after = (metrics.value(name, factors, each, seed=0) for each in (codes, moved))
        assert after == pytest.approx(before, abs=0.02)  # turned around, a value between two bins is in the other
    order = rng.permutation(k)
    for name in ("mig", "modularity", "sap", "factor-vae"):
        permuted = metrics.value(name, factors, codes[:, order], seed=0)
        assert permuted == pytest.approx(metrics.value(name, factors, codes, seed=0), abs=1e-9)
        assert 0 <= permuted <= 1


def test_metrics_that_share_a_fit_have_the_scores_that_they_have_alone() -> None:
    codes = ENCODERS["some noise"](GRID)
    names = ("mig", "r2", "modularity", "mcc")
    alone = [metrics.score(name, GRID, codes, seed=3) for name in names]
    assert list(metrics.score_each(names, GRID, codes, seed=3)) == list(zip(names, alone, strict=True))
    for score in alone:
        assert score.chance < score.low <= score.value <= score.high


def test_too_few_samples_for_a_jackknife() -> None:
    with pytest.raises(Impossible, match=r"^8 samples: a score by mig needs 16 or more$"):
        metrics.score("mig", GRID[:8], GRID[:8], seed=0)
