"""ResNets with and without a hidden layer behind them, and projectors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torchvision import models

from ident.benchmark.models import encoders, resnets
from ident.benchmark.suites.tiers import Model
from ident.benchmark.training.seeds import seeded
from ident.render.errors import Impossible


def test_the_usual_one_is_torchvisions_but_for_its_stem() -> None:
    ours, theirs = resnets.resnet18_small(512), models.resnet18()
    theirs.conv1, theirs.maxpool, theirs.fc = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity(), nn.Identity()
    named = list(theirs.state_dict().values())
    assert [tuple(one.shape) for one in ours.state_dict().values()] == [tuple(one.shape) for one in named]
    ours.load_state_dict(dict(zip(ours.state_dict(), named, strict=True)))
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))


def test_a_narrow_one_has_as_many_outputs_as_it_is_told() -> None:
    network = resnets.resnet18_small(16, channels=1)
    assert network(torch.rand(2, 1, 16, 16)).shape == (2, 16)
    with pytest.raises(Impossible, match=r"^encoder resnet18-small: of 10 outputs; give a multiple of 8, as its"):
        resnets.resnet18_small(10)


def test_half_as_wide_without_pooling_it_is_torchvisions_too() -> None:
    ours, theirs = encoders.encoder(10, "unbounded", network="resnet18-narrow"), models.resnet18(num_classes=100)
    theirs.maxpool = nn.Identity()
    shapes = [tuple(one.shape) for one in ours.state_dict().values()]
    halves = [
        tuple(side if side < 64 or side == 100 else side // 2 for side in one.shape)
        for one in theirs.state_dict().values()
    ]
    assert shapes == [*halves, (10, 100), (10,)]
    stages = resnets.residual(theirs.conv1)
    stages.load_state_dict(dict(zip(stages.state_dict(), theirs.state_dict().values(), strict=False)))
    theirs.fc = nn.Identity()
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(stages.eval()(images), theirs.eval()(images))
    assert ours(images).shape == (2, 10)


def test_those_of_fixed_width() -> None:
    assert resnets.resnet18_pooled(512)(torch.rand(1, 3, 64, 64)).shape == (1, 512)
    with pytest.raises(Impossible, match=r"^encoder resnet50-pooled: of 512 outputs; it has 2048, give a projector"):
        resnets.resnet50_pooled(512)


def test_a_network_begins_the_same_with_a_projector() -> None:
    each = list[Any]()
    for projector in ((), (16, 16, 8)):
        with seeded(5):
            each.append(encoders.encoder(16, "sphere", network="resnet18-small", projector=projector)[0].state_dict())
    assert all(torch.equal(value, each[1][name]) for name, value in each[0].items())


@pytest.mark.parametrize("network", ["resnet18", "resnet50", "resnet101", "resnet18-pooled", "resnet50-pooled"])
def test_torchvisions_are_of_colours(network: str) -> None:
    with pytest.raises(Impossible, match=rf"^encoder {network}: takes images of 3 channels, these have 1;"):
        encoders.encoder(512, "unbounded", network=network, shape=(1, 64, 64))


def test_the_convolutional_one_is_of_one_size() -> None:
    with pytest.raises(Impossible, match=r"^encoder conv: takes images of 64 x 64, these have 28 x 28$"):
        encoders.encoder(5, "unbounded", network="conv", shape=(1, 28, 28))


def test_a_projector_stands_between_the_network_and_the_sphere() -> None:
    with seeded(0):
        layers: Any = encoders.encoder(1, "sphere", network="resnet18-small", projector=(8, 12, 6))
    network, projector, sphere = layers
    assert [type(layer).__name__ for layer in projector] == ["Linear", "ReLU", "Linear"]
    images = torch.rand(3, 3, 16, 16)
    features = network.eval()(images)
    first, _, last = projector
    expected = torch.relu(features @ first.weight.T + first.bias) @ last.weight.T + last.bias
    outputs = sphere(projector(features))
    torch.testing.assert_close(outputs, nn.functional.normalize(expected))
    assert outputs.shape == (3, 6)


def test_an_objective_of_several_outputs_has_no_projector() -> None:
    with pytest.raises(Impossible, match=r"^projector: the objective takes 2 outputs for each latent; leave"):
        encoders.encoder(1, "unbounded", network="resnet18-small", projector=(8, 8), outputs=2)


@pytest.mark.parametrize(
    ("widths", "says"),
    [
        ((), r"^projector \[\]: give the width of the encoder's output and those of 1 to 8 layers"),
        ((512,), r"^projector \[512\]: give the width"),
        ((512, 0), r"^projector \[512, 0\]: give the width"),
        ((512, True), r"^projector \[512, True\]: give the width"),
        ((8,) * 10, r"^projector \[8, 8"),
        (512, r"^projector 512: give the width"),
        ((8, 1.5), r"^projector \[8, 1.5\]: give the width"),
    ],
)
def test_projectors_that_cannot_be(widths: object, says: str) -> None:
    with pytest.raises(Impossible, match=says):
        Model(encoder="resnet18-small", projector=widths)  # type: ignore[arg-type]


def test_a_projector_says_how_many_latents_there_are() -> None:
    with pytest.raises(Impossible, match=r"^projector: its last width is the number of latents; leave out latents"):
        Model(encoder="resnet18-small", projector=(8, 8), latents=3)
