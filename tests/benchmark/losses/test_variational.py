"""Divergences and likelihoods against PyTorch's distributions, integrals and loops; L_AU against its equations."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from ident.benchmark.losses import contrastive, variational
from ident.benchmark.losses.similarities import Distance
from ident.benchmark.objectives.contrastive import AU
from ident.benchmark.pairs.batch import Batch, PositivePairs
from ident.render.errors import Impossible


def posteriors(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def test_divergences_of_normal_distributions() -> None:
    (mean, log_variance), (other, other_log_variance) = posteriors(5, 3), posteriors(5, 3, seed=1)
    one, two = Normal(mean, (log_variance / 2).exp()), Normal(other, (other_log_variance / 2).exp())
    torch.testing.assert_close(variational.kl_normal(mean, log_variance), kl_divergence(one, Normal(0, 1)))
    torch.testing.assert_close(
        variational.kl_between(mean, log_variance, other, other_log_variance), kl_divergence(one, two)
    )
    torch.testing.assert_close(variational.entropy(log_variance), one.entropy())


@pytest.mark.parametrize(("mean", "log_variance"), [(0.0, 0.0), (1.3, -2.0), (-0.4, 1.0), (3.0, -6.0)])
def test_laplace_prior_by_integrals(mean: float, log_variance: float) -> None:
    sd, around, rate = math.exp(log_variance / 2), 0.25, 6.0

    def density(z: float) -> float:
        return math.exp(-(((z - mean) / sd) ** 2) / 2) / (sd * math.sqrt(2 * math.pi))

    def integral(function: Callable[[float], float]) -> float:
        points = [0.0, around, mean]
        value, _ = quad(function, mean - 12 * sd, mean + 12 * sd, points=points, limit=400)
        return float(value)

    folded = integral(lambda z: density(z) * abs(z))
    tensors = torch.tensor(mean).double(), torch.tensor(log_variance).double()
    assert float(variational.absolute(*tensors)) == pytest.approx(folded, rel=1e-6)
    log_laplace = math.log(rate / 2)
    divergence = integral(
        lambda z: density(z) * (math.log(max(density(z), 1e-300)) - log_laplace + rate * abs(z - around))
    )
    cross = variational.cross_laplace(*tensors, torch.tensor(around), rate)
    assert float(cross - variational.entropy(tensors[1])) == pytest.approx(divergence, rel=1e-5)


def test_likelihood_pixel_by_pixel() -> None:
    images, logits = torch.rand(3, 1, 4, 4), torch.randn(3, 1, 4, 4)
    expected = []
    for image, logit in zip(images.flatten(1).tolist(), logits.flatten(1).tolist(), strict=True):
        shares = [1 / (1 + math.exp(-y)) for y in logit]
        each = [x * math.log(p) + (1 - x) * math.log(1 - p) for x, p in zip(image, shares, strict=True)]
        expected.append(-sum(each))
    torch.testing.assert_close(variational.bernoulli(images, logits), torch.tensor(expected), rtol=1e-5, atol=1e-4)


def test_what_a_pair_shares() -> None:
    one, two = posteriors(6, 4), posteriors(6, 4, seed=1)
    common, common_log_variance, same = variational.shared(*one, *two)
    for row in range(6):
        normals = [
            [Normal(mean[row, k], (log_variance[row, k] / 2).exp()) for k in range(4)]
            for mean, log_variance in (one, two)
        ]
        apart = [float(kl_divergence(first, second)) for first, second in zip(*normals, strict=True)]
        assert same[row].tolist() == [each < (min(apart) + max(apart)) / 2 for each in apart]
    torch.testing.assert_close(common, (one[0] + two[0]) / 2)
    torch.testing.assert_close(common_log_variance.exp(), (one[1].exp() + two[1].exp()) / 2)


def test_permuted_columns() -> None:
    latents = torch.randn(50, 3)
    first, again, other = (variational.permuted(latents, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.sort(0).values, latents.sort(0).values)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first[:, 0].argsort(), first[:, 1].argsort())


@pytest.mark.parametrize(("alpha", "p"), [(0.9, 1), (0.999, 1), (0.5, 2), (0.25, 3)])
def test_align_and_uniform_by_their_equations(alpha: float, p: int) -> None:
    anchor, positive = posteriors(6, 3)
    uniform = torch.stack(
        [
            torch.stack([(-((anchor[i] - anchor[j]).abs() ** p).sum()).exp() for j in range(6) if j != i]).mean().log()
            for i in range(6)
        ]
    ).mean()
    align = ((anchor - positive).abs() ** p).sum(1).mean()
    expected = alpha * uniform + (1 - alpha) * align
    loss = contrastive.align_uniform(anchor, positive, similarity=Distance(p), alpha=alpha)
    torch.testing.assert_close(loss, expected)
    batch = Batch(torch.cat([anchor, positive]), (PositivePairs(slice(6), slice(6, 12)),))
    torch.testing.assert_close(AU(alpha, p)(lambda points: points, batch), expected)


@pytest.mark.parametrize("alpha", [-0.1, 1.5, float("nan"), "much"])
def test_a_share_that_is_none(alpha: float) -> None:
    with pytest.raises(Impossible, match=r"alpha .* of the uniformity"):
        AU(alpha, 1)
