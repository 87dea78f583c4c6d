"""Factors that check themselves, and come back from dataset.json as they went."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Circle, Factor, Interval, Kind, check_raw, factor_of
from ident.render.worlds.world import World

texts = st.text(st.characters(exclude_categories=("C", "Z")), max_size=20)
names = texts.filter(bool)
bound = st.floats(-1e6, 1e6, width=32)
bounds = st.tuples(bound, bound).filter(lambda both: both[0] < both[1])
kinds: st.SearchStrategy[Kind] = st.one_of(
    bounds.map(lambda both: Interval(*both)),
    bounds.map(lambda both: Circle(*both)),
    st.lists(names, min_size=1, max_size=9, unique=True).map(lambda each: Category(tuple(each))),
)
scales = st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3)
factors = st.builds(Factor, names, kinds, texts, texts, scales)


@given(factor=factors)
def test_factors_come_back_as_they_went(factor: Factor) -> None:
    assert factor_of(json.loads(json.dumps(factor.describe()))) == factor


@given(each=st.lists(factors, min_size=1, max_size=9, unique_by=lambda factor: factor.name), seed=st.integers(0, 9))
def test_what_a_world_draws_passes_its_check(each: list[Factor], seed: int) -> None:
    world = World("any", tuple(each))
    raw = world.draw(seed=seed, split="train", start=10**6, n=20)
    assert np.array_equal(world.check(raw), raw)
    assert np.array_equal(world.check(raw.astype(np.float64)), raw)
    assert world.values(raw).shape == raw.shape


anything = st.none() | st.booleans() | st.binary() | st.floats() | st.lists(st.integers()) | texts
changed = st.sampled_from(["name", "kind", "meaning", "unit", "scale", "low", "high", "names", "later"])


@given(factor=factors, change=st.dictionaries(changed, anything, min_size=1))
def test_nothing_else_comes_back(factor: Factor, change: dict[str, Any]) -> None:
    """What was changed is refused, or is a factor that says of itself what was said."""
    told = {**factor.describe(), **change}
    try:
        described = factor_of(told).describe()
    except Impossible:
        return
    assert described == told


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Interval(1, 1), r"from 1\.0 to 1\.0: give two numbers, the lower one first"),
        (lambda: Interval(1, 1 + 1e-12), "give two numbers"),
        (lambda: Circle(float("nan"), 1), "low is nan: give a number"),
        (lambda: Interval(0, True), "high is True: give a number"),
        (lambda: Interval(0, 1e7), r"high is 10000000\.0: give a number from -1e\+06"),
        (lambda: Category(()), "0 names of a category: give 1 to 65536"),
        (lambda: Category("red"), "names 'red': give a list"),  # type: ignore[arg-type]
        (lambda: Category(("red", "red")), "names red, red: give each once"),
        (lambda: Category(("red", 1)), "the name of a category is 1"),  # type: ignore[arg-type]
        (lambda: Factor("", Interval()), "the name of a factor is ''"),
        (lambda: Factor("x", "interval"), "kind 'interval' of x: give an Interval, a Circle or a Category"),  # type: ignore[arg-type]
        (lambda: Factor("x", Interval(), scale=0), "the scale of x is 0: give another number"),
        (lambda: Factor("x\x1b", Interval()), "the name of a factor is"),
    ],
)
def test_factors_that_cannot_be(wrong: Any, said: str) -> None:
    with pytest.raises(Impossible, match=said):
        wrong()


def test_raw_latents_are_checked_by_their_kinds() -> None:
    kinds = (Factor("a", Interval(0, 0.1)), Factor("b", Category(("red", "blue"))))
    assert check_raw(np.array([[0.1, 1]], np.float32), kinds).dtype == np.float32  # 0.1 of 32 bits is above 0.1
    for raw, said in (
        ([[0.05, 0.5]], r"row 0, b is 0\.5, not a whole number in \[0, 1\]"),
        ([[0.05, 0], [0.05, 2]], r"row 1, b is 2\.0, not a whole number"),
        ([[-0.1, 0]], r"row 0, a is -0\.1, not in \[0, 0\.1\]"),
        ([[np.nan, 0]], "row 0, a is nan"),
        ([[0.0]], r"the shape is \(1, 1\), not \(N, 2\)"),
    ):
        with pytest.raises(Impossible, match=said):
            check_raw(np.array(raw), kinds)
