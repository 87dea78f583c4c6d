"""Scores against scikit-learn, scipy, brute force over permutations, and what they must not change with."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from ident.benchmark import metrics
from ident.benchmark.metrics.mcc import mcc, spearman
from ident.benchmark.metrics.r2 import r2
from ident.render.aliases import Float64s
from ident.render.errors import Impossible


def sample(n: int = 400, d: int = 4, noise: float = 0.5, seed: int = 0) -> tuple[Float64s, Float64s]:
    """Latents, and what is recovered of them: mixed, bent and with noise."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1, 1, (n, d))
    return z, np.tanh(z @ rng.normal(size=(d, d))) + noise * rng.normal(size=(n, d))


@pytest.mark.parametrize("width", [2, 4, 6])
def test_r2_is_that_of_scikit_learn(width: int) -> None:
    z, found = sample()
    found = np.hstack([found, found**2])[:, :width]
    fitted = LinearRegression().fit(found[:200], z[:200])
    expected = r2_score(z[200:], fitted.predict(found[200:]), multioutput="raw_values")
    assert r2(z, found) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("ranks", [False, True])
def test_mcc_is_the_best_of_all_permutations(ranks: bool) -> None:
    for seed in range(5):
        z, found = sample(seed=seed)
        if ranks:
            each = np.abs(np.asarray(spearmanr(z, found).statistic)[:4, 4:])
        else:
            each = np.abs(np.corrcoef(z.T, found.T)[:4, 4:])
        best = max(itertools.permutations(range(4)), key=lambda order: sum(each[i, j] for i, j in enumerate(order)))
        expected = [each[i, j] for i, j in enumerate(best)]
        assert mcc(z, found, ranks=ranks) == pytest.approx(expected, abs=1e-10)
        assert metrics.load("spearman" if ranks else "mcc")(z, found) == pytest.approx(expected, abs=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 5))
def test_what_they_do_not_change_with(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    z, found = sample(100, d, seed=seed)
    stretched = found * rng.choice([-3, -0.1, 0.5, 20], d) + rng.normal(size=d)
    order = rng.permutation(d)
    assert mcc(z, stretched[:, order]) == pytest.approx(mcc(z, found), abs=1e-9)
    assert spearman(z, np.exp(found)[:, order]) == pytest.approx(spearman(z, found), abs=1e-9)
    turned = stretched @ rng.normal(size=(d, d))
    assert r2(z, turned) == pytest.approx(r2(z, found), abs=1e-6)


def test_the_best_and_the_worst() -> None:
    z, _ = sample()
    assert r2(z, z[:, ::-1] * 2 + 1) == pytest.approx(1)
    assert mcc(z, -z[:, ::-1]) == pytest.approx(1)
    assert r2(z, np.zeros_like(z)) == pytest.approx(0, abs=0.03)
    assert mcc(z, np.full_like(z, 0.1)) == pytest.approx(0)  # which does not vary
    assert r2(np.ones_like(z), z) == pytest.approx(0)


def test_chance_and_intervals_say_how_much_a_small_sample_flatters() -> None:
    rng = np.random.default_rng(0)
    for n in (40, 4000):
        z, noise = rng.uniform(size=(n, 10)), rng.normal(size=(n, 10))
        found = metrics.score("mcc", z, noise, seed=0)
        assert found.value == pytest.approx(found.chance, abs=0.1)
        assert found.chance > (0.2 if n == 40 else 0.01)
    z, recovered = sample(2000)
    small = metrics.score("r2", z[:200], recovered[:200], seed=0)
    large = metrics.score("r2", z, recovered, seed=0)
    assert large.low <= large.value <= large.high
    assert small.high - small.low > 2 * (large.high - large.low)
    assert large.per_latent == tuple(r2(z, recovered))
    assert large.value == pytest.approx(np.mean(large.per_latent))
    assert large.chance < 0.01
    assert metrics.score("r2", z, recovered, seed=0) == large
    assert metrics.score("r2", z, recovered, seed=1) != large


@pytest.mark.parametrize("name", ["r2", "mcc", "spearman"])
def test_an_interval_covers_the_truth(name: str) -> None:
    """Of 60 samples, some 57 of the intervals hold the score of a very large one."""
    metric = metrics.load(name)
    truth = float(metric(*fixed(200_000, 99)).mean())
    inside = 0
    for seed in range(60):
        found = metrics.score(metric, *fixed(1000, seed), seed=seed)
        inside += found.low <= truth <= found.high
    assert inside >= 50


def test_an_interval_is_of_a_metric_that_there_is() -> None:
    z, found = fixed(100, 0)
    with pytest.raises(
        Impossible,
        match=r"^metric 'spearmen': choose from r2, mcc, spearman, .*; did you mean spearman",
    ):
        metrics.score("spearmen", z, found, seed=0)
    with pytest.raises(Impossible, match="resamples 0"):
        metrics.score("mcc", z, found, seed=0, resamples=0)


def test_an_interval_does_not_change_with_an_offset() -> None:
    z, found = fixed(400, 0)
    plain, far = (metrics.score("r2", z + offset, found, seed=0) for offset in (0, 1e6))
    assert (far.low, far.high) == pytest.approx((plain.low, plain.high), abs=1e-4)
    constant = metrics.score("r2", np.full((100, 1), 0.1), found[:100], seed=0)
    assert (constant.value, constant.low, constant.high) == (0, 0, 0)


def fixed(n: int, seed: int) -> tuple[Float64s, Float64s]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    return z, z * np.array([1, 2, 3]) + rng.normal(size=(n, 3))


@pytest.mark.parametrize(
    ("true", "recovered", "says"),
    [
        (np.zeros((10, 2)), np.zeros((9, 2)), r"\(10, 2\).*\(9, 2\)"),
        (np.zeros(10), np.zeros((10, 2)), r"\(10,\)"),
        (np.zeros((5, 2)), np.zeros((5, 2)), "5 samples"),
        (np.zeros((10, 2)), np.full((10, 2), math.nan), "finite"),
        (np.zeros((10, 3)), np.zeros((10, 2)), "2 recovered latents for 3"),
        (np.zeros((10, 1)), torch.zeros(10, 1, requires_grad=True), "recovered: cannot be read as an array .*detach"),
        ([["a"]] * 10, np.zeros((10, 1)), "latents: cannot be read as an array of numbers"),
    ],
)
def test_the_impossible_is_refused(true: Float64s, recovered: Float64s, says: str) -> None:
    with pytest.raises(Impossible, match=says):
        mcc(true, recovered)
