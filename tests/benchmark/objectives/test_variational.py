"""Variational objectives against losses that are written out, and what cannot be one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Laplace, Normal, kl_divergence

from ident.benchmark.models import convolutional, encoders
from ident.benchmark.objectives import variational
from ident.benchmark.objectives.variational import VAE, AdaGVAE, BetaVAE, FactorVAE, SlowVAE
from ident.benchmark.pairs.batch import Batch, PositivePairs
from ident.benchmark.registry import OBJECTIVES, read_slot
from ident.benchmark.training.optimizers import optimizers_of
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.seeds import Stream, generator_of
from ident.render.errors import Impossible

DIM, PAIRS = 3, 4
SHAPE = 1, 64, 64


@pytest.fixture(scope="module")
def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(2, (2 * PAIRS, *SHAPE), generator=generator, dtype=torch.uint8) * 255
    return Batch(images, (PositivePairs(slice(PAIRS), slice(PAIRS, 2 * PAIRS)),), number=7)


def encode(images: Tensor) -> Tensor:
    """Means and log-variances that depend on the pixels."""
    return images[:, 0, :3, : 2 * DIM : 3].float().flatten(1) / 255 - 0.3


def written_out(objective: VAE, batch: Batch, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Minus the log-likelihood of each image, by PyTorch's distributions and the noise of the batch."""
    noise = torch.randn(mean.shape, generator=generator_of(objective.seed, Stream.NOISE, batch.number))
    logits = objective.decoder(mean + (log_variance / 2).exp() * noise)
    distribution = torch.distributions.Bernoulli(logits=logits, validate_args=False)
    likelihood: Tensor = distribution.log_prob(batch.observations.float() / 255)
    return -likelihood.flatten(1).sum(1)


@pytest.mark.parametrize(("convention", "times"), [("paper", 1), ("code", 2)])
def test_beta_vae(batch: Batch, convention: str, times: int) -> None:
    objective = BetaVAE(8, convention=convention, dim=DIM, shape=SHAPE, seed=5)
    mean, log_variance = encode(batch.observations).chunk(2, 1)
    divergence = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0, 1)).sum(1)
    expected = (times * written_out(objective, batch, mean, log_variance) + 8 * divergence).mean()
    torch.testing.assert_close(objective(encode, batch), expected)
    torch.testing.assert_close(objective.latents(encode(batch.observations)), mean)


@pytest.mark.parametrize("convention", ["paper", "code"])
def test_slow_vae(batch: Batch, convention: str) -> None:
    objective = SlowVAE(1, 10, 6, convention=convention, dim=DIM, shape=SHAPE, seed=5)
    mean, log_variance = encode(batch.observations).double().chunk(2, 1)
    posterior = Normal(mean, (log_variance / 2).exp())
    noise = torch.randn(100_000, *mean.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    draws = mean + posterior.stddev * noise
    slow = torch.zeros(())
    for one, other in ((slice(PAIRS), slice(PAIRS, 2 * PAIRS)), (slice(PAIRS, 2 * PAIRS), slice(PAIRS))):
        each = Normal(mean[one], posterior.stddev[one]).log_prob(draws[:, one])
        each = each - Laplace(mean[other], 1 / 6).log_prob(draws[:, one])
        slow = slow + each.mean(0).sum(1).mean()
    if convention == "code":  # the entropy of an image once, not of both directions
        slow = slow + posterior.entropy().sum(1).mean()
    normal = kl_divergence(posterior, Normal(0.0, 1.0)).sum(1).mean()
    with torch.no_grad():
        likelihood = written_out(objective, batch, mean.float(), log_variance.float()).mean()
        loss = float(objective(encode, batch))
    assert loss == pytest.approx(float(2 * likelihood + normal + 10 * slow), rel=1e-4)


def test_ada_gvae(batch: Batch) -> None:
    objective = AdaGVAE(dim=DIM, shape=SHAPE, seed=5)
    mean, log_variance = encode(batch.observations).chunk(2, 1)
    means, variances = mean.clone(), log_variance.exp()
    for i in range(PAIRS):
        j = i + PAIRS
        apart = kl_divergence(
            Normal(mean[i], (log_variance[i] / 2).exp()), Normal(mean[j], (log_variance[j] / 2).exp())
        )
        for k in range(DIM):
            if apart[k] < (apart.min() + apart.max()) / 2:
                means[i, k] = means[j, k] = (mean[i, k] + mean[j, k]) / 2
                variances[i, k] = variances[j, k] = (log_variance[i, k].exp() + log_variance[j, k].exp()) / 2
    divergence = kl_divergence(Normal(means, variances.sqrt()), Normal(0, 1)).sum(1)
    expected = (written_out(objective, batch, means, variances.log()) + divergence).mean()
    torch.testing.assert_close(objective(encode, batch), expected)


def test_factor_vae(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variational.Discriminator, "WIDTH", 16)
    objective = FactorVAE(35, dim=DIM, shape=SHAPE, seed=5)
    mean, log_variance = encode(batch.observations).chunk(2, 1)
    noise = torch.randn(mean.shape, generator=generator_of(5, Stream.NOISE, 7))
    latents = mean + (log_variance / 2).exp() * noise
    likelihood = written_out(objective, batch, mean, log_variance)[:PAIRS]
    divergence = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0, 1)).sum(1)[:PAIRS]
    logits = objective.discriminator(latents[:PAIRS])
    autoencoder = (likelihood + divergence + 35 * logits).mean()
    order = torch.rand((PAIRS, DIM), generator=generator_of(5, Stream.PERMUTATIONS, 7)).argsort(0)
    mixed = torch.stack([latents[PAIRS:][order[:, k], k] for k in range(DIM)], 1)
    told = nn.functional.binary_cross_entropy_with_logits(logits, torch.ones(PAIRS))
    told = told + nn.functional.binary_cross_entropy_with_logits(objective.discriminator(mixed), torch.zeros(PAIRS))
    torch.testing.assert_close(objective(encode, batch), autoencoder + told / 2)


def test_neither_of_two_adversaries_is_trained_by_the_other(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variational.Discriminator, "WIDTH", 16)
    gradients = []
    for gamma in (1.0, 50.0):
        torch.manual_seed(0)
        objective = FactorVAE(gamma, dim=DIM, shape=SHAPE, seed=5)
        outputs = encode(batch.observations).requires_grad_()
        objective(lambda _, outputs=outputs: outputs, batch).backward()
        assert outputs.grad is not None
        gradients.append((objective.discriminator.layers[0].weight.grad.clone(), outputs.grad[PAIRS:].clone()))  # type: ignore[union-attr,operator]
    torch.testing.assert_close(gradients[0][0], gradients[1][0])  # gamma weighs the encoder's loss alone
    assert not gradients[0][1].any()  # the discriminator's second batch moves no encoder


def test_two_optimizers() -> None:
    objective = FactorVAE(dim=DIM, shape=SHAPE, seed=5)
    for name, count in (("adam", 2), ("muon", 3)):
        made = optimizers_of(objective, Training(10, 4, 1e-3, optimizer=name))
        assert len(made) == count
        last = made[-1][0].param_groups[0]
        assert last["betas"] == (0.5, 0.9)
        assert {id(one) for one in last["params"]} == {id(one) for one in objective.discriminator.parameters()}
        every = [
            parameter for optimizer, _ in made for group in optimizer.param_groups for parameter in group["params"]
        ]
        assert len(every) == len(list(objective.parameters()))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_decoder_mirrors_the_encoder(channels: int) -> None:
    encoder, decoder = (
        convolutional.conv(5, (channels, 64, 64)),
        convolutional.decoder(5, (channels, 64, 64), "beta-vae"),
    )
    images = torch.rand(2, channels, 64, 64)
    assert encoder(images).shape == (2, 5)
    assert decoder(encoder(images)).shape == images.shape
    inward = [tuple(module.weight.shape[:2]) for module in encoder if isinstance(module, nn.Conv2d)]
    outward = [tuple(module.weight.shape[:2]) for module in decoder if isinstance(module, nn.ConvTranspose2d)]
    assert outward == inward[::-1]
    assert inward == [(32, channels), (32, 32), (64, 32), (64, 64), (256, 64)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: BetaVAE(dim=3, shape=None, seed=0),
            "objective beta-vae: decodes images, and this row's source has none",
        ),
        (
            lambda: BetaVAE(dim=3, shape=(2, 64, 64), seed=0),
            "has no decoder of images 2 x 64 x 64; give a source of 1 x",
        ),
        (lambda: SlowVAE(dim=3, shape=(1, 16, 16), seed=0), "objective slow-vae: has no decoder of images 1 x 16 x 16"),
        (lambda: SlowVAE(1, 0, dim=3, shape=SHAPE, seed=0), "objective slow-vae: gamma is 0; give a number above 0"),
        (lambda: BetaVAE(float("nan"), dim=3, shape=SHAPE, seed=0), "objective beta-vae: beta is nan"),
        (lambda: SlowVAE(convention="mine", dim=3, shape=SHAPE, seed=0), "convention 'mine': choose from paper, code"),
        (
            lambda: encoders.encoder(3, "box", network="conv", outputs=2, shape=(1, 64, 64)),
            "space box: the objective takes 2",
        ),
    ],
)
def test_what_cannot_be(make: Callable[[], object], said: str) -> None:
    with pytest.raises(Impossible, match=said):
        make()


def test_pairs_that_it_does_not_take(batch: Batch) -> None:
    objective = OBJECTIVES.make(read_slot("slow-vae(1, 10, 6)"), dim=DIM, shape=SHAPE, seed=0, conditionals=0)
    with pytest.raises(Impossible, match="slow-vae: takes anchors and a positive for each"):
        objective(encode, Batch(batch.observations))
