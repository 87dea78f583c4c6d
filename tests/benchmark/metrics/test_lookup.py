"""Metrics by name, and users' own: what they need, what they may give, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from ident.benchmark import metrics
from ident.benchmark.metrics import lookup
from ident.benchmark.metrics.metric import of_function
from ident.render.aliases import Float64s
from ident.render.errors import Failed, Impossible
from ident.render.worlds.factors import Circle, Interval

HERE = "tests.benchmark.metrics.test_lookup"
RNG = np.random.default_rng(0)
FACTORS = RNG.uniform(-1, 1, (200, 3))
RECOVERED = FACTORS + RNG.normal(scale=0.3, size=(200, 3))


def closeness(factors: Float64s, representation: Float64s) -> float:
    """One number for all factors."""
    return float(1 / (1 + np.mean((factors - representation) ** 2)))


def closeness_of_each(factors: Float64s, representation: Float64s) -> Float64s:
    """A number for each factor."""
    each: Float64s = 1 / (1 + np.mean((factors - representation) ** 2, 0))
    return each


def circles(factors: Float64s, representation: Float64s, kinds: Sequence[object]) -> float:
    """The share of factors that are circles."""
    del factors, representation
    return float(np.mean([isinstance(kind, Circle) for kind in kinds]))


def drawn(factors: Float64s, representation: Float64s, rng: np.random.Generator) -> float:
    """A random number."""
    del factors, representation
    return float(rng.random())


CIRCLES = metrics.Metric("circles", circles, needs=("kinds",), per_factor=False)
DRAWN = metrics.Metric("drawn", drawn, needs=("rng",))
MOVED = metrics.Metric("moved", circles, needs=("interventions", "kinds", "labels"))


def test_interventions_are_made_of_the_rows() -> None:
    with pytest.raises(Impossible, match="interventions: are made of the rows"):
        metrics.score("beta-vae", FACTORS, RECOVERED, seed=0, interventions=[])


def test_importing_them_takes_numpy_alone() -> None:
    code = "import sys, ident.benchmark.metrics; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" in loaded
    assert {"torch", "ray", "faiss", "bpy", "scipy", "sklearn", "h5py", "matplotlib"}.isdisjoint(loaded)


@pytest.mark.parametrize("name", metrics.METRICS)
def test_each_is_called_what_it_is_listed_as(name: str) -> None:
    assert metrics.load(name).name == name


@pytest.mark.parametrize("name", ["r2", "mcc", "spearman"])
def test_each_is_what_its_name_says(name: str) -> None:
    metric = metrics.load(name)
    assert (metric.needs, metric.per_factor) == ((), True)
    with pytest.raises(FrozenInstanceError):
        metric.name = "other"  # type: ignore[misc]
    score = metrics.score(name, FACTORS, RECOVERED, seed=0)
    assert score.value == metrics.value(name, FACTORS, RECOVERED, seed=3) == float(np.mean(score.per_latent))
    assert score.chance < score.low <= score.value <= score.high <= metric.range[1]


def test_a_function_is_enough() -> None:
    one = metrics.score(f"{HERE}:closeness", FACTORS, RECOVERED, seed=0)
    each = metrics.score(f"{HERE}:closeness_of_each", FACTORS, RECOVERED, seed=0)
    assert one.value == pytest.approx(closeness(FACTORS, RECOVERED))
    assert (one.per_latent, len(each.per_latent)) == ((), 3)
    for score in (one, each):
        assert score.chance < score.low < score.value < score.high
    values = [
        closeness(FACTORS[rows], RECOVERED[rows]) for rows in np.random.default_rng(5).integers(200, size=(99, 200))
    ]
    assert (one.low, one.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), abs=0.005)
    assert metrics.score(f"{HERE}:closeness", FACTORS, RECOVERED, seed=0) == one


def test_a_metric_is_given_what_it_needs() -> None:
    kinds = (Circle(), Interval(), Circle())
    assert metrics.score(f"{HERE}:CIRCLES", FACTORS, RECOVERED, seed=0, kinds=kinds).value == pytest.approx(2 / 3)
    assert metrics.value(f"{HERE}:CIRCLES", FACTORS, RECOVERED, seed=0) == 0
    by_seed = [metrics.score(f"{HERE}:DRAWN", FACTORS, RECOVERED, seed=seed).value for seed in (1, 1, 2)]
    assert by_seed[0] == by_seed[1] != by_seed[2]
    with pytest.raises(Impossible, match=r"^metric moved: needs labels; give it by name$"):
        metrics.score(MOVED, FACTORS, RECOVERED, seed=0)
    with pytest.raises(Impossible, match=r"^2 kinds of 3 factors: give one for each$"):
        metrics.score("r2", FACTORS, RECOVERED, seed=0, kinds=kinds[:2])


def test_what_a_source_has_not_is_refused() -> None:
    lookup.check(["r2", f"{HERE}:CIRCLES", f"{HERE}:DRAWN"], (), "mine")
    lookup.check([f"{HERE}:MOVED"], ("labels", "interventions"), "mine")
    with pytest.raises(Impossible) as error:
        lookup.check(["mcc", f"{HERE}:MOVED"], ("labels",), "mine")
    assert str(error.value) == f"mine: metric {HERE}:MOVED needs interventions, which its source has not; leave it out"


def test_what_is_stored_and_what_is_taken_on_the_way() -> None:
    assert lookup.of_run(["mcc"]) == ("r2", "mcc", "spearman")
    assert lookup.of_run(["m:x", "r2"]) == ("r2", "mcc", "spearman", "m:x")
    assert lookup.on_the_way(["m:x", "r2"]) == ("r2", "mcc", "m:x")
    assert lookup.on_the_way(["spearman", "m:x"]) == ("r2", "mcc", "spearman")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mmc", "metric 'mmc': choose from {}, or module:name of yours; did you mean mcc?"),
        ("likelihood", "metric 'likelihood': choose from {}, or module:name of yours"),
        (3, "metric 3: choose from {}, or module:name of yours"),
    ],
)
def test_a_metric_that_nobody_knows(name: Any, says: str) -> None:
    with pytest.raises(Impossible) as error:
        lookup.check_name(name)
    assert str(error.value) == says.format(", ".join(metrics.METRICS))


@pytest.mark.parametrize("name", ["nowhere:x", f"{HERE}:nothing", f"{HERE}:HERE"])
def test_a_module_or_a_name_that_is_not_there(name: str) -> None:
    with pytest.raises(Impossible, match=f"^{name}: "):
        metrics.load(name)


@pytest.mark.parametrize(
    ("compute", "says"),
    [
        (lambda x, _: x, r"metric mine: gave float64 \(200, 3\); it must give numbers \(3,\) or \(\) or \(1,\)"),
        (lambda x, _: x.mean(0)[:2], r"gave float64 \(2,\)"),
        (lambda *_: "good", r"gave <U4 \(\)"),
        (lambda *_: None, r"gave object \(\)"),
        (lambda *_: float("nan"), "metric mine: gave nan; its range is -inf to inf"),
        (lambda *_: np.array([0, np.inf, 0]), "metric mine: gave inf; its range is -inf to inf"),
    ],
)
def test_what_is_no_score(compute: Callable[..., Any], says: str) -> None:
    with pytest.raises(Failed, match=says):
        metrics.score(of_function("mine", compute), FACTORS, RECOVERED, seed=0)


def test_a_score_outside_its_range_and_a_range_that_is_none() -> None:
    metric = metrics.Metric("mine", lambda *_: 1.5)
    with pytest.raises(Failed, match=r"^metric mine: gave 1\.5; its range is 0 to 1$"):
        metrics.score(metric, FACTORS, RECOVERED, seed=0)
    with pytest.raises(Failed, match=r"gave float64 \(\); it must give numbers \(3,\)$"):
        metrics.score(replace(metric, per_factor=True), FACTORS, RECOVERED, seed=0)
    with pytest.raises(Impossible, match=r"^metric mine: its range is \(1, 0\); give a lower and then an upper bound$"):
        replace(metric, range=(1, 0))
    with pytest.raises(Impossible, match=r"^metric mine: permutations 0; give a number from 1 on$"):
        replace(metric, permutations=0)
    with pytest.raises(Impossible, match=r"^metric mine: groups 1; give 2 or more for the jackknife, or 0$"):
        replace(metric, groups=1)


@pytest.mark.parametrize(
    ("name", "value", "chance", "says"),
    [
        ("r2", 0.5, -0.02, ""),
        ("r2", 0.0, -0.02, ""),
        ("r2", -0.25, -0.1, "r2 -25.00, below 0: worse than the mean of the factors; it has not learned them"),
        (
            "r2",
            -0.25,
            -0.6,
            "r2 -25.00, below 0: worse than the mean of the factors; 64 samples are too few for 10 factors",
        ),
        ("mcc", 0.3, 0.2, ""),
        ("mcc", 0.2, 0.25, "mcc 20.00, by chance 25.00; it has not learned them"),
        ("mine:own", 0.2, 0.25, "mine:own 20.00, by chance 25.00; it has not learned them"),
    ],
)
def test_verdicts(name: str, value: float, chance: float, says: str) -> None:
    assert lookup.known(name).verdict(value, chance, samples=64, dim=10) == says
