"""Pairs of latents: in one direction or both, with hard negatives, alone and from a share of the training on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ident.benchmark.objectives.objective import Objective
from ident.benchmark.pairs.batch import Batch, PositivePairs
from ident.benchmark.pairs.drawn import POOL, Drawn
from ident.benchmark.sources.mixed import Latents, Mixed
from ident.benchmark.sources.source import Source
from ident.benchmark.suites.runs import Run
from ident.benchmark.suites.suite import load_suite
from ident.benchmark.suites.task import RowTask
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.train import train
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


def grouped(space: str = "sphere(3)", conditional: str = "vmf(100)", **more: Any) -> Drawn:
    return Drawn(Mixed(space, seed=0), conditional, steps=100, batch_size=64, groups=16, dim=3, **more)


def test_groups_are_of_anchors_that_are_found_alike() -> None:
    """By an encoder that shows one latent alone that is alike in a group, and nothing else."""
    pairs = grouped()
    assert pairs.bank is not None
    pairs.bank.remember(torch.arange(POOL), pairs.pool * torch.tensor([1.0, 0, 0]))
    (_, anchors), _ = (next(pairs.bank.choices(1, Objective().critic)) for _ in range(2))
    assert anchors is not None
    batch = pairs.batch(1, 64, anchors)
    assert batch.images is not None
    assert torch.equal(batch.images, anchors)
    latents = pairs.pool[anchors].unflatten(0, (4, 16))
    torch.testing.assert_close(batch.observations[:64], pairs.source.observe(latents.flatten(0, 1)))
    away = latents.std(1)
    assert away[:, 0].max() < 0.005
    assert away[:, 1:].min() > 0.02
    slices = [(one.anchor, one.positive, one.weight) for one in batch.comparisons if isinstance(one, PositivePairs)]
    assert slices == [(slice(k, k + 16), slice(64 + k, 80 + k), 0.25) for k in range(0, 64, 16)]


def test_plain_batches_are_of_the_pool_with_positives_of_their_own() -> None:
    pairs = grouped()
    one, other = pairs.batch(0, 64), pairs.batch(1, 64)
    assert one.images is not None
    assert other.images is not None
    assert not torch.equal(one.images, other.images)
    torch.testing.assert_close(one.observations[:64], pairs.source.observe(pairs.pool[one.images]))
    again = pairs.batch(2, 64, one.images)
    torch.testing.assert_close(again.observations[:64], one.observations[:64])
    assert not torch.equal(again.observations[64:], one.observations[64:])


def test_plain_batches_go_through_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ident.benchmark.pairs.drawn.POOL", 100)
    pairs = grouped()
    shown = torch.cat([pairs.next_of_pool(number, 64) for number in range(25)]).unflatten(0, (16, 100))
    assert all(torch.equal(one.sort().values, torch.arange(100)) for one in shown)
    assert not torch.equal(shown[0], shown[1])


def test_a_training_by_groups_goes_on_as_it_would_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stopped among its groups, it has the same history and bank at the end."""
    monkeypatch.setattr("ident.benchmark.pairs.drawn.POOL", 128)
    training = Training(steps=24, batch_size=32, learning_rate=1e-3, looks=24)
    tier = replace(load_tier("demo"), unsupervised=training, samples=64, pairs={"groups": 8, "fade": (0.5, 0.9)})
    run = Run("aninfonce", load_suite("aninfonce").row("aninfonce-lambda5"), "unsupervised", 0, tier)

    def go(name: str, stops: int) -> tuple[Any, RowTask]:
        task, groups = RowTask(run, "cpu"), list[bool]()
        loss_of = task.loss

        def loss(batch: Batch) -> torch.Tensor:
            groups.append(len(batch.comparisons) == 4)
            return loss_of(batch)

        def tell(step: int, _: object) -> None:
            if step == stops:
                assert groups[-1]
                raise KeyboardInterrupt

        monkeypatch.setattr(task, "loss", loss)
        return train(task, training, tmp_path / name, "{}", tell, seconds_between=0), task

    through, whole = go("through", 0)
    with pytest.raises(KeyboardInterrupt):
        go("stopped", 9)
    again, rest = go("stopped", 0)
    assert again.history == through.history
    assert all(torch.equal(value, rest.memory.state_dict()[name]) for name, value in whole.memory.state_dict().items())


class Mine(Source):
    """A user's source of latents, which inherits nothing else of ours."""

    def __init__(self) -> None:
        self.seed, self.dim, self.space, self.marginal = 0, 3, SOURCE.space, SOURCE.marginal
        self.factors = SOURCE.factors
        self.generator, self.draw, self.observe = SOURCE.generator, SOURCE.draw, SOURCE.observe

    def labelled(self, number: int, size: int, share: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """As ours."""
        return SOURCE.labelled(number, size, share)

    def samples(self, split: str, n: int) -> tuple[torch.Tensor, Iterator[torch.Tensor]]:
        """As ours."""
        return SOURCE.samples(split, n)


def test_a_source_of_ones_own_draws_latents() -> None:
    ours, mine = (Drawn(source, "vmf(10)").batch(3, 4) for source in (SOURCE, Mine()))
    assert torch.equal(ours.observations, mine.observations)


@pytest.mark.parametrize("more", [{"region": 0.5}, {"parts": 2}, {"hard": "normal(0.1)", "hard_count": 3}])
def test_groups_are_of_anchors_from_everywhere(more: dict[str, Any]) -> None:
    with pytest.raises(Impossible, match="groups: have no regions, parts or hard negatives; leave out those, or"):
        grouped("box(3, 0, 1)", "normal(0.05)", **more)


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
