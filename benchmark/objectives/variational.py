"""Variational autoencoders. The encoder gives mean and log-variance of each latent; the mean stands for the factor."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ident.benchmark.latents.notation import is_code
from ident.benchmark.losses import variational as losses
from ident.benchmark.models import decoders
from ident.benchmark.models.dense import layers
from ident.benchmark.objectives.objective import Encode, Objective
from ident.benchmark.pairs.batch import Batch, PositivePairs
from ident.benchmark.training import distributed
from ident.benchmark.training.seeds import Stream, generator_of
from ident.render.errors import Impossible


class VAE(Objective):
    """A decoder beside the encoder, and what all of the family share."""

    outputs: ClassVar[int] = 2
    name: ClassVar[str] = "vae"

    def __init__(self, *, dim: int, shape: tuple[int, ...] | None, seed: int, **weights: float) -> None:
        super().__init__()
        for name, value in weights.items():
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise Impossible(f"objective {self.name}: {name} is {value!r}; give a number above 0")
        if distributed.world() > 1:
            raise Impossible(f"objective {self.name}: is trained in one process; leave out --gpus")
        self.dim, self.seed = dim, seed
        self.decoder = decoders.decoder(dim, shape, self.name)

    def latents(self, outputs: Tensor) -> Tensor:
        """The means (n, k) of the posteriors."""
        return outputs[:, : self.dim]

    def decode(self, latents: Tensor) -> Tensor:
        """The images (n, C, H, W) from 0 to 1 of latents (n, k)."""
        return torch.sigmoid(self.decoder(latents))

    def posterior(self, encode: Encode, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean and log-variance (n, k) of all observations."""
        mean, log_variance = encode(batch.observations).float().chunk(2, 1)
        return mean, log_variance

    def drawn(self, mean: Tensor, log_variance: Tensor, batch: Batch) -> Tensor:
        """Latents (n, k) of the posteriors: the same ones whenever a batch of this number is drawn."""
        noise = torch.randn(mean.shape, generator=self.generator(batch, mean.device), device=mean.device)
        return mean + (0.5 * log_variance).exp() * noise

    def generator(self, batch: Batch, device: torch.device) -> torch.Generator:
        """Random numbers of a batch."""
        return generator_of(self.seed, Stream.NOISE, batch.number, device=device)

    def reconstruction(self, latents: Tensor, batch: Batch) -> Tensor:
        """Minus the log-likelihood (n,) of the observations."""
        return losses.bernoulli(batch.observations.float() / 255, self.decoder(latents).float())

    def halves(self, batch: Batch) -> tuple[slice, slice]:
        """Where the anchors are, and where their positives."""
        pairs = batch.comparisons[0] if len(batch.comparisons) == 1 else None
        if not isinstance(pairs, PositivePairs) or pairs.hard is not None:
            raise Impossible(
                f"objective {self.name}: takes anchors and a positive for each; give a row with such pairs"
            )
        return pairs.anchor, pairs.positive


class BetaVAE(VAE):
    """Reconstruction, and beta times the divergence from the prior (Higgins et al., 2017). Pairs are images to it.

    By the code of Klindt et al. (2021), reconstruction counts twice, as in SlowVAE.
    """

    name = "beta-vae"

    def __init__(
        self, beta: float = 8.0, *, convention: str = "paper", dim: int, shape: tuple[int, ...] | None, seed: int
    ) -> None:
        super().__init__(dim=dim, shape=shape, seed=seed, beta=beta)
        self.beta, self.reconstructions = beta, 2 if is_code(convention) else 1

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The mean over images."""
        mean, log_variance = self.posterior(encode, batch)
        divergence = losses.kl_normal(mean, log_variance).sum(1)
        reconstruction = self.reconstruction(self.drawn(mean, log_variance, batch), batch)
        return (self.reconstructions * reconstruction + self.beta * divergence).mean()


class SlowVAE(VAE):
    """A VAE whose latents change by a Laplace distribution from one image of a pair to the other (Klindt et al., 2021).

    2 reconstruction + beta KL(normal) + gamma KL(Laplace), the last one in both directions. By the code of Klindt et
    al. the entropies of both, which these divergences have in them, count as one.
    """

    name = "slow-vae"

    def __init__(
        self,
        beta: float = 1.0,
        gamma: float = 10.0,
        rate: float = 6.0,
        *,
        convention: str = "paper",
        dim: int,
        shape: tuple[int, ...] | None,
        seed: int,
    ) -> None:
        super().__init__(dim=dim, shape=shape, seed=seed, beta=beta, gamma=gamma, rate=rate)
        self.beta, self.gamma, self.rate = beta, gamma, rate
        self.entropies = 1 if is_code(convention) else 2

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The mean over images of reconstruction and normal prior, and over pairs of the Laplace prior."""
        anchor, positive = self.halves(batch)
        mean, log_variance = self.posterior(encode, batch)
        reconstruction = self.reconstruction(self.drawn(mean, log_variance, batch), batch).mean()
        normal = losses.kl_normal(mean, log_variance).sum(1).mean()
        laplace = [
            losses.cross_laplace(mean[one], log_variance[one], mean[other], self.rate).sum(1).mean()
            for one, other in ((anchor, positive), (positive, anchor))
        ]
        divergence = torch.stack(laplace).sum() - self.entropies * losses.entropy(log_variance).sum(1).mean()
        return 2 * reconstruction + self.beta * normal + self.gamma * divergence


class AdaGVAE(VAE):
    """A VAE that finds out which latents a pair shares, and takes the mean of both posteriors there."""

    name = "ada-gvae"

    def __init__(self, beta: float = 1.0, *, dim: int, shape: tuple[int, ...] | None, seed: int) -> None:
        super().__init__(dim=dim, shape=shape, seed=seed, beta=beta)
        self.beta = beta

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The mean over images."""
        mean, log_variance = self.posterior(encode, batch)
        anchor, positive = self.halves(batch)
        both = mean[anchor], log_variance[anchor], mean[positive], log_variance[positive]
        common, common_log_variance, same = losses.shared(*both)
        means, log_variances = torch.empty_like(mean), torch.empty_like(log_variance)
        for part in (anchor, positive):
            means[part] = torch.where(same, common, mean[part])
            log_variances[part] = torch.where(same, common_log_variance, log_variance[part])
        divergence = losses.kl_normal(means, log_variances).sum(1)
        return (self.reconstruction(self.drawn(means, log_variances, batch), batch) + self.beta * divergence).mean()


class Discriminator(nn.Module):
    """Tells latents from those whose columns were permuted, by an optimizer of its own (Kim and Mnih, 2018)."""

    adam_betas = (0.5, 0.9)
    WIDTH, LAYERS, SLOPE = 1000, 6, 0.2

    def __init__(self, dim: int) -> None:
        super().__init__()
        widths = dim, *[self.WIDTH] * (self.LAYERS - 1), 1
        self.layers = nn.Sequential(*layers(*widths, activation=partial(nn.LeakyReLU, self.SLOPE)))

    def forward(self, latents: Tensor) -> Tensor:
        """The log of how much likelier latents (n, k) are jointly than by their marginals."""
        logits: Tensor = self.layers(latents)[:, 0]
        return logits


class FactorVAE(VAE):
    """A VAE with gamma times the total correlation of its latents, which a discriminator estimates.

    The anchors train encoder and decoder, and their positives are the discriminator's second batch.
    """

    name = "factor-vae"

    def __init__(self, gamma: float = 35.0, *, dim: int, shape: tuple[int, ...] | None, seed: int) -> None:
        super().__init__(dim=dim, shape=shape, seed=seed, gamma=gamma)
        self.gamma, self.discriminator = gamma, Discriminator(dim)

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The sum of both losses. Neither has a gradient of what the other trains."""
        anchor, positive = self.halves(batch)
        mean, log_variance = self.posterior(encode, batch)
        latents = self.drawn(mean, log_variance, batch)
        images = Batch(batch.observations[anchor])
        divergence = losses.kl_normal(mean[anchor], log_variance[anchor]).sum(1)
        standing = {name: weights.detach() for name, weights in self.discriminator.named_parameters()}
        correlation: Tensor = functional_call(self.discriminator, standing, (latents[anchor],))
        autoencoder = self.reconstruction(latents[anchor], images) + divergence + self.gamma * correlation
        return autoencoder.mean() + self.discrimination(latents, anchor, positive, batch)

    def discrimination(self, latents: Tensor, anchor: slice, positive: slice, batch: Batch) -> Tensor:
        """The discriminator's loss: the mean of its cross-entropies on latents and on permuted ones."""
        generator = generator_of(self.seed, Stream.PERMUTATIONS, batch.number, device=latents.device)
        joint = self.discriminator(latents[anchor].detach())
        product = self.discriminator(losses.permuted(latents[positive].detach(), generator))
        return (nn.functional.softplus(-joint).mean() + nn.functional.softplus(product).mean()) / 2
