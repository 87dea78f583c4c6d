"""The mixing is invertible and well-conditioned, encoders end in their space."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from ident.benchmark import metrics
from ident.benchmark.latents.spaces import Box, Sphere
from ident.benchmark.models import dense, encoders
from ident.benchmark.sources.mixing import mixing, well_conditioned


@pytest.mark.parametrize("dim", [2, 10, 20])
def test_the_inverse_gives_the_latents_back(dim: int) -> None:
    mixed = mixing(dim, seed=0, pool=500).double()
    z = torch.randn(200, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(mixed.inverse(mixed(z)), z, atol=1e-10)
    assert not torch.allclose(mixed(z), z @ mixed.matrices[0].T)


def test_the_matrices_are_the_best_of_their_pool() -> None:
    found = well_conditioned(10, 0, 3, 25_000)
    assert found.shape == (3, 10, 10)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)
    few = well_conditioned(10, 0, 3, 10)
    assert np.linalg.cond(found).max() < 5 < np.linalg.cond(few).min()
    assert np.array_equal(mixing(10, seed=0).matrices, found)
    assert not np.array_equal(mixing(10, seed=1).matrices, found)


def test_by_hand() -> None:
    mixed = mixing(2, seed=3, pool=10)
    x = torch.tensor([0.3, -2.0])
    for number, matrix in enumerate(mixed.matrices):
        if number:
            x = torch.tensor([value if value > 0 else 0.2 * value for value in x])
        x = torch.stack([sum(matrix[i, j] * x[j] for j in range(2)) for i in range(2)])
    assert torch.allclose(mixed(torch.tensor([[0.3, -2.0]]))[0], x)


def test_it_mixes_as_much_as_the_papers_do() -> None:
    """Identity scores of the tables: 66.98 +- 2.79 on the sphere, 67.93 +- 7.40 in the box, by MCC 46.55 +- 1.34."""
    generator = torch.Generator().manual_seed(0)
    on_sphere, in_box, by_permutation = [], [], []
    for seed in range(5):
        mixed, z = mixing(10, seed=seed), Sphere(10).uniform(8192, generator=generator)
        on_sphere.append(metrics.value("r2", z, mixed(z), seed=0))
        z = Box(10, 0, 1).uniform(8192, generator=generator)
        in_box.append(metrics.value("r2", z, mixed(z), seed=0))
        by_permutation.append(metrics.value("mcc", z, mixed(z), seed=0))
    assert np.mean(on_sphere) == pytest.approx(0.67, abs=0.04)
    assert np.mean(in_box) == pytest.approx(0.68, abs=0.08)
    assert np.mean(by_permutation) == pytest.approx(0.4655, abs=0.04)


def test_encoders_end_in_their_space() -> None:
    x = 5 * torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(encoders.ToSphere(2.5)(x).norm(dim=-1), torch.tensor(2.5))
    in_box = encoders.ToBox(4, 3.0)(x)
    assert ((in_box >= 0) & (in_box <= 3.0 + 1e-6)).all()
    assert in_box.max() > 2.9
    assert torch.equal(encoders.ToUnbounded()(x), x)
    for space in encoders.OUTPUTS:
        assert encoders.encoder(4, space)(x).shape == (300, 4)


def test_the_encoder_is_that_of_the_paper() -> None:
    widths = [layer.out_features for layer in dense.mlp(10) if isinstance(layer, torch.nn.Linear)]
    assert widths == [100, 500, 500, 500, 500, 100, 10]


@pytest.mark.parametrize("learnable", [False, True])
def test_bounds_move_and_are_saved_with_the_model(learnable: bool) -> None:
    for module, name in (
        (encoders.ToSphere(2.0, learnable=learnable), "log_radius"),
        (encoders.ToBox(3, 2.0, learnable=learnable), "log_sides"),
    ):
        assert list(module.state_dict()) == [name]
        assert [name for name, _ in module.named_parameters()] == ([name] if learnable else [])
        there = copy.deepcopy(module).to(torch.float64)
        assert there.state_dict()[name].dtype == torch.float64
        assert module.state_dict()[name] == pytest.approx(math.log(2))
        if learnable:
            module(torch.ones(5, 3)).sum().backward()
            assert all(parameter.grad is not None for parameter in module.parameters())


def test_whitened_encoders_see_and_begin_with_what_is_uncorrelated() -> None:
    x = mixing(10, seed=0, pool=100)(Box(10, 0, 1).uniform(4000, generator=torch.Generator().manual_seed(0)))
    white, network, _ = encoders.whitened(encoders.encoder(10, "unbounded"), x)
    for seen in (white(x), network(white(x)).detach()):
        assert seen.mean(0).abs().max() < 1e-3
        assert torch.allclose(torch.cov(seen.T), torch.eye(10), atol=1e-2)
    with torch.autocast("cpu", torch.bfloat16):
        assert white(x).dtype == torch.float32
    assert sorted(white.state_dict()) == ["matrix", "mean"]
