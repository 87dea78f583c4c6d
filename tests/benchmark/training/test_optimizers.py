"""LARS against its equations, and the schedule that it is used with."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from ident.benchmark.losses.contrastive import AnInfoNCE
from ident.benchmark.training.optimizers import LARS, optimizers_of
from ident.benchmark.training.schedule import Training
from ident.render.errors import Impossible

RATES = [0.1, 0.3, 0.2]
DECAY = 0.05


def test_lars_is_its_equations() -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(*shape, generator=generator) for shape in ((3, 4), (2, 3, 2, 2), (4,))]
    slopes = [[torch.randn(one.shape, generator=generator) for one in start] for _ in RATES]
    weights = [nn.Parameter(one.clone()) for one in start]
    optimizer = LARS(weights, DECAY)
    expected = [one.double().numpy().copy() for one in start]
    momenta = [np.zeros(one.shape) for one in start]
    for rate, gradients in zip(RATES, slopes, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        for number, gradient in enumerate(gradients):
            weights[number].grad = gradient.clone()
            step = gradient.double().numpy()
            if step.ndim > 1:
                step = step + DECAY * expected[number]
                lengths = [math.sqrt(float((x**2).sum())) for x in (expected[number], step)]
                step = 0.001 * lengths[0] / lengths[1] * step
            momenta[number] = 0.9 * momenta[number] + rate * step
            expected[number] = expected[number] - momenta[number]
        optimizer.step()
    for weight, numbers in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight.detach().numpy(), numbers, atol=1e-6)


def test_lars_of_nothing_to_scale_by() -> None:
    zero, still, unused = (
        nn.Parameter(torch.zeros(2, 2)),
        nn.Parameter(torch.ones(2, 2)),
        nn.Parameter(torch.ones(2, 2)),
    )
    optimizer = LARS([zero, still, unused], 0.0)
    optimizer.param_groups[0]["lr"] = 0.1
    zero.grad, still.grad = torch.ones(2, 2), torch.zeros(2, 2)
    optimizer.step()
    assert torch.equal(zero.detach(), torch.full((2, 2), -0.1))
    assert torch.equal(still.detach(), torch.ones(2, 2))
    assert torch.equal(unused.detach(), torch.ones(2, 2))


def test_lars_goes_on_from_its_state() -> None:
    weights = [nn.Parameter(torch.ones(2, 3)) for _ in range(2)]
    one, two = (LARS([weight], 0.1) for weight in weights)
    for optimizer, weight in ((one, weights[0]), (two, weights[1])):
        optimizer.param_groups[0]["lr"] = 1.0
        weight.grad = torch.arange(6.0).reshape(2, 3)
        optimizer.step()
    again = LARS([weights[1]], 0.1)
    again.load_state_dict(two.state_dict())
    one.step()
    again.step()
    assert torch.equal(weights[0], weights[1])


def test_lars_moves_all_and_precisions_faster() -> None:
    model = nn.ModuleList([nn.Linear(3, 3), AnInfoNCE(3)])
    moved = optimizers_of(model, Training(4, 8, 0.3, optimizer="lars", weight_decay=1e-6))
    assert all(isinstance(optimizer, LARS) for optimizer, _ in moved)
    assert sorted(rate for _, rate in moved) == pytest.approx([0.3, 3.0])
    assert sum(len(group["params"]) for optimizer, _ in moved for group in optimizer.param_groups) == 3


def test_a_cosine_falls_from_the_warm_up_on() -> None:
    training = Training(110, 8, 0.3, optimizer="lars", warm_up=10, decay="cosine")
    rates = [training.rate(step) for step in range(110)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10:] == pytest.approx([0.5 * (1 + math.cos(math.pi * step / 100)) for step in range(100)])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"decay": "step"}, "decay 'step': choose from linear, cosine"),
        ({"decay": "cosine", "constant": 0.5}, "constant 0.5: is of a linear decay, this is cosine; leave it out"),
        ({"weight_decay": 1e-6}, "weight_decay 1e-06: is of lars, this is adam; leave it out"),
        ({"optimizer": "lars", "weight_decay": -1}, "weight_decay -1: give a number from 0 on"),
        ({"optimizer": "lars", "weight_decay": math.nan}, "weight_decay nan: give a number from 0 on"),
        ({"optimizer": "sgd"}, "optimizer 'sgd': choose from adam, muon, lars"),
    ],
)
def test_trainings_that_cannot_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(Impossible) as error:
        Training(1, 2, 0.1, **settings)  # type: ignore[arg-type]
    assert str(error.value) == says


def test_what_came_later_is_described_where_it_is_used() -> None:
    assert set(Training(1, 2, 0.1).described()) == {
        "steps", "batch_size", "learning_rate", "optimizer", "warm_up", "constant", "precision", "looks",
    }  # fmt: skip
    assert Training(1, 2, 0.1, decay="cosine").described()["decay"] == "cosine"
