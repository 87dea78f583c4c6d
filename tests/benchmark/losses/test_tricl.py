"""TriCL's loss against a written-out loop, in the form of its paper and of its code."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ident.benchmark.losses.tricl import TriCL, decorrelation
from ident.benchmark.objectives import contrastive as objectives
from ident.benchmark.pairs.batch import Batch, PairsAmong, PositivePairs
from ident.render.errors import Impossible


def points(count: int, seed: int) -> Tensor:
    drawn = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn, dim=1)


def by_hand(first: Tensor, second: Tensor, scales: list[float], temperature: float, weight: float, half: bool) -> float:
    """Both views as anchors, all but the anchor's own pair as negatives; with `half` the second ones are not scaled."""
    views, n = torch.cat([first, second]).tolist(), len(first)

    def alike(i: int, j: int) -> float:
        own = [1.0] * 3 if half and i >= n else scales
        return math.exp(sum(s * a * b for s, a, b in zip(own, views[i], views[j], strict=True)) / temperature)

    total = 0.0
    for i in range(2 * n):
        partner = (i + n) % (2 * n)
        others = sum(alike(i, j) for j in range(2 * n) if j % n != i % n)
        total -= math.log(alike(i, partner) / (alike(i, partner) + others)) / (2 * n)
    apart = 0.0
    for a in range(3):
        for b in range(3):
            mean = sum(view[a] * view[b] for view in views) / (2 * n)
            apart += (mean - (a == b)) ** 2 / 9
    return total + weight * apart


@pytest.mark.parametrize("form", ["paper", "code"])
@pytest.mark.parametrize("softplus", [False, True])
def test_both_forms_are_as_written_out(form: str, softplus: bool) -> None:
    objective = objectives.TriCL(dim=3, convention=form, temperature=0.3, weight=0.7, softplus=softplus).double()
    (numbers,) = objective.losses[0].parameters()
    numbers.data += torch.tensor([0.5, -1.0, 2.0])
    scales = (torch.nn.functional.softplus(numbers) if softplus else numbers.exp()).tolist()
    first, second = points(5, 1), points(5, 2)
    pairs = PositivePairs(slice(5), slice(5, 10), both=True)
    loss = objective(lambda z: z, Batch(torch.cat([first, second]), (pairs,)))
    assert loss.item() == pytest.approx(by_hand(first, second, scales, 0.3, 0.7, form == "code"), rel=1e-6)
    assert objective.learned() == pytest.approx([scale / 0.3 for scale in scales])


def test_one_direction_has_the_other_anchors_as_negatives() -> None:
    loss, first, second = TriCL(3, 0.5, 0.0).double(), points(4, 1), points(4, 2)
    logits = (loss.scales * first) @ first.T / 0.5
    own = (loss.scales * first * second).sum(1) / 0.5
    logits[range(4), range(4)] = own
    expected = (torch.logsumexp(logits, 1) - own).mean()
    torch.testing.assert_close(loss(first, second), expected, rtol=1e-6, atol=1e-6)


def test_decorrelation_is_none_of_white_points() -> None:
    assert float(decorrelation(math.sqrt(3) * torch.eye(3).repeat(4, 1))) == pytest.approx(0, abs=1e-12)
    assert float(decorrelation(torch.zeros(5, 2))) == pytest.approx(0.5)


def test_decorrelation_is_as_exact_in_a_training_of_half_precision() -> None:
    z = points(50, 3).float()
    with torch.autocast("cpu", torch.bfloat16):
        inside = decorrelation(z)
    assert torch.equal(inside, decorrelation(z))


def test_what_it_is_not_for() -> None:
    batch = Batch(points(4, 1), (PairsAmong(slice(None), torch.tensor([[0, 1]])),))
    with pytest.raises(Impossible, match=r"tricl: takes anchors and a positive for each"):
        objectives.TriCL(dim=3)(lambda z: z, batch)
    one_way = Batch(points(4, 1), (PositivePairs(slice(2), slice(2, 4)),))
    with pytest.raises(Impossible, match=r"convention=code: scales one of two directions; give pairs with both=1"):
        objectives.TriCL(dim=3, convention="code")(lambda z: z, one_way)
    for wrong, says in (
        ({"temperature": 0}, "temperature 0: give a number from 1e-06 on"),
        ({"weight": -1}, "weight -1 of the decorrelation"),
        ({"convention": "cod"}, "convention 'cod': choose from paper, code; did you mean code"),
    ):
        with pytest.raises(Impossible, match=says):
            objectives.TriCL(dim=3, **wrong)
