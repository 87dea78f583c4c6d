"""Pairs of latents: in one direction or both, with hard negatives, alone and from a share of the training on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ident.benchmark.pairs.batch import PositivePairs
from ident.benchmark.pairs.drawn import Drawn
from ident.benchmark.sources.mixed import Latents
from ident.render.errors import Impossible

SOURCE = Latents("sphere(3)", seed=0)
HARD: dict[str, Any] = {"hard": "vmf(50)", "hard_count": 3}


def drawn(**more: Any) -> Drawn:
    return Drawn(SOURCE, "vmf(10)", steps=10, **more)


def test_hard_negatives_come_when_they_are_said_to() -> None:
    plain, later = drawn(), drawn(**HARD, hard_from=0.5)
    for number in range(10):
        before, batch = plain.batch(number, 4), later.batch(number, 4)
        assert torch.equal(before.observations, batch.observations[:8])
        (pairs,) = batch.comparisons
        assert isinstance(pairs, PositivePairs)
        assert (pairs.hard is not None) == (number >= 5)
        assert len(batch.observations) == (20 if number >= 5 else 8)
    around = batch.observations[8:].unflatten(0, (4, 3))
    assert float((around * batch.observations[:4, None]).sum(-1).min()) > 0.5


def test_they_may_be_all_negatives_and_pairs_go_both_ways() -> None:
    (alone,) = drawn(**HARD, only_hard=1).batch(0, 4).comparisons
    (both,) = drawn(both=1).batch(0, 4).comparisons
    assert isinstance(alone, PositivePairs)
    assert isinstance(both, PositivePairs)
    assert (alone.only_hard, alone.hard, both.both, both.hard) == (True, slice(8, 20), True, None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"only_hard": 1}, "only_hard and hard_from: are for hard negatives; give hard and hard_count, too"),
        ({"hard_from": 0.5}, "only_hard and hard_from: are for hard negatives"),
        ({**HARD, "hard_from": 1.0}, "hard_from 1.0: give a share of the training, from 0 to below 1"),
        ({**HARD, "hard_from": "x"}, "hard_from 'x': give a share"),
        ({**HARD, "both": 1}, "both: has no hard negatives of positives; leave out hard, or both"),
    ],
)
def test_the_impossible_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(Impossible, match=says):
        drawn(**more)
