"""The bank: groups are the nearest by brute force, choices follow from what was remembered, sizes are bounded."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ident.benchmark.objectives.contrastive import AnInfoNCE, Contrastive, Ensemble
from ident.benchmark.objectives.objective import Objective
from ident.benchmark.pairs import bank
from ident.benchmark.pairs.bank import Bank, Groups
from ident.render.errors import Impossible

SIZES: dict[str, Any] = {"images": 40, "dim": 3, "batch_size": 12, "steps": 100, "ahead": 3, "seed": 0}
GROUPS = Groups(4, (0.5, 0.9))
nearness = Objective().critic


def filled(groups: Groups = GROUPS, **changes: Any) -> Bank:
    """A bank that has seen all images."""
    sizes = SIZES | changes
    full = Bank(groups, **sizes)
    points = torch.randn(sizes["images"], sizes["dim"], generator=torch.Generator().manual_seed(1))
    full.remember(torch.arange(sizes["images"]), points)
    return full


@given(st.integers(0, 39), st.integers(0, 2**32))
def test_groups_are_the_nearest_by_brute_force(image: int, seed: int) -> None:
    full = filled()
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(seed))
    full.remember(torch.arange(40), points)
    (group,) = full.alike(torch.tensor([image]), nearness)
    away = (points - points[image]).norm(dim=1)
    assert int(group[0]) == image
    assert set(group.tolist()) == set(away.argsort()[:4].tolist())


def test_alike_is_what_the_objective_makes_of_it() -> None:
    full, objective = filled(), AnInfoNCE(dim=3)
    precisions = torch.tensor([0.01, 1.0, 100.0])
    objective.losses[0].get_parameter("log_precisions").data.copy_(precisions.log())
    with torch.no_grad():
        groups = full.alike(torch.arange(40), objective.critic)
    away = ((full.points[:, None] - full.points).square() * precisions).sum(-1)
    assert torch.equal(groups.sort().values, away.topk(4, largest=False).indices.sort().values)
    assert not torch.equal(groups.sort().values, full.alike(torch.arange(40), nearness).sort().values)


def test_of_several_losses_alike_is_their_mean_and_without_a_critic_what_is_near() -> None:
    a, b = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    both = Ensemble(dim=3, conditionals=2)
    both.losses[1].get_parameter("log_precisions").data.add_(2)
    one, other = (loss.critic(a, b) for loss in both.losses)  # type: ignore[operator]
    torch.testing.assert_close(both.critic(a, b), (one + other) / 2)
    torch.testing.assert_close(Contrastive([torch.nn.Identity()]).critic(a, b), -torch.cdist(a, b))


def test_what_was_not_seen_is_in_no_group() -> None:
    full = filled()
    full.seen[::3] = False
    assert bool(full.seen[full.alike(full.seen.nonzero()[:, 0], nearness)].all())


def test_of_an_image_that_is_there_twice_the_last_is_kept() -> None:
    full = filled()
    full.remember(torch.tensor([5, 6, 5]), torch.tensor([[1.0] * 3, [2.0] * 3, [3.0] * 3]))
    assert full.points[5].tolist() == [3.0] * 3
    assert full.points[6].tolist() == [2.0] * 3


def test_groups_wait_for_the_bank_and_give_way_to_plain_batches() -> None:
    empty = Bank(GROUPS, **SIZES)
    empty.remember(torch.arange(35), torch.ones(35, 3))
    # 35 of 40 are not nine tenths.
    assert all(anchors is None for _, anchors in islice(empty.choices(0, nearness), 50))
    kinds = [anchors is not None for _, anchors in islice(filled().choices(0, nearness), 100)]
    assert all(kinds[:50])
    assert not any(kinds[90:])
    assert 0 < sum(kinds[50:90]) < 40
    assert GROUPS.share(0.7) == pytest.approx(0.5)
    assert [Groups(4, (0.5, 0.5)).share(progress) for progress in (0.4, 0.5, 0.6)] == [1, 0, 0]


def test_anchors_that_are_not_chosen_ahead_follow_from_all_that_was_remembered() -> None:
    full = filled(ahead=0)
    for number, anchors in islice(full.choices(20, nearness), 10):
        again = full.choose(number, nearness)
        assert anchors is not None
        assert again is not None
        assert torch.equal(anchors, again)
        full.remember(anchors, torch.randn(12, 3, generator=torch.Generator().manual_seed(number)))


def test_anchors_are_chosen_so_many_steps_ahead_and_the_same_after_a_stop() -> None:
    def train(one: Bank, first: int, steps: int, chosen: list[Any]) -> None:
        """As a loop that asks for batches ahead, and remembers what each step has seen."""
        waiting = list[Any]()
        for number, anchors in one.choices(first, nearness):
            waiting.append((number, anchors))
            if len(waiting) > one.ahead:
                step, anchors = waiting.pop(0)
                chosen.append(anchors)
                points = torch.randn(40, 3, generator=torch.Generator().manual_seed(step))
                one.remember(torch.arange(40), points)
                if step + 1 == steps:
                    return

    through, halves = list[Any](), list[Any]()
    train(filled(), 0, 30, through)
    first = filled()
    train(first, 0, 17, halves)
    second = filled()
    second.load_state_dict(first.state_dict())
    train(second, 17, 30, halves)
    assert len(through) == len(halves) == 30
    assert all(torch.equal(one, other) for one, other in zip(through, halves, strict=True))
    assert not torch.equal(through[4], through[5])


@pytest.mark.parametrize(
    ("groups", "changes", "says"),
    [
        (GROUPS, {"batch_size": 10}, "groups of 4 pairs: do not divide a batch of 10"),
        (GROUPS, {"images": 3}, "groups of 4 pairs: there are 3 images; give fewer"),
        (
            GROUPS,
            {"images": 10**15},
            r"a bank of 1,000,000,000,000,000 representations takes 12107193\.5 GB of memory",
        ),
    ],
)
def test_banks_that_cannot_be(groups: Groups, changes: dict[str, int], says: str) -> None:
    with pytest.raises(Impossible, match=says):
        Bank(groups, **SIZES | changes)


def test_a_bank_is_bounded_by_the_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank, "memory", lambda: 40 * 13)
    Bank(GROUPS, **SIZES)
    monkeypatch.setattr(bank, "memory", lambda: 40 * 13 - 1)
    with pytest.raises(Impossible, match="leave groups out of the tier, or take fewer images"):
        Bank(GROUPS, **SIZES)


@pytest.mark.parametrize(
    "wrong", [{"size": 1}, {"size": True}, {"size": 4.0}, {"fade": (0.9, 0.5)}, {"fade": (0.5,)}, {"fade": ("a", 1)}]
)
def test_groups_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(Impossible, match="give"):
        replace(GROUPS, **wrong)
