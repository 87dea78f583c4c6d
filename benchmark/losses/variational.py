"""What variational autoencoders are trained by: reconstruction, and divergences from priors, in nats."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def bernoulli(images: Tensor, logits: Tensor) -> Tensor:
    """Minus the log-likelihood (n,) of images (n, C, H, W) from 0 to 1, of the logits of their pixels."""
    each = functional.binary_cross_entropy_with_logits(logits, images, reduction="none")
    return each.flatten(1).sum(1)


def kl_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    """The divergence (n, k) of normal posteriors from the standard normal distribution."""
    return 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance)


def entropy(log_variance: Tensor) -> Tensor:
    """The entropy (n, k) of normal distributions, in nats."""
    return 0.5 * (log_variance + math.log(2 * math.pi) + 1)


def absolute(mean: Tensor, log_variance: Tensor) -> Tensor:
    """The mean absolute value (n, k) of normal distributions, the folded ones' mean."""
    sd = (0.5 * log_variance).exp()
    near = sd * math.sqrt(2 / math.pi) * torch.exp(-(mean**2) / (2 * sd**2))
    return near + mean * torch.erf(mean / (sd * math.sqrt(2)))


def cross_laplace(mean: Tensor, log_variance: Tensor, around: Tensor, rate: float) -> Tensor:
    """The cross-entropy (n, k) of normal posteriors and Laplace distributions around others, of a rate."""
    return rate * absolute(mean - around, log_variance) - math.log(rate / 2)


def kl_between(mean: Tensor, log_variance: Tensor, other_mean: Tensor, other_log_variance: Tensor) -> Tensor:
    """The divergence (n, k) of normal posteriors from other ones."""
    apart = (mean - other_mean) ** 2 + log_variance.exp()
    return 0.5 * (apart / other_log_variance.exp() - 1 + other_log_variance - log_variance)


def shared(
    mean: Tensor, log_variance: Tensor, other_mean: Tensor, other_log_variance: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Both posteriors' mean and log-variance where a pair shares a latent, and where it does (n, k).

    It shares those whose divergence is below the middle of its smallest and its largest (Locatello et al., 2020).
    """
    apart = kl_between(mean, log_variance, other_mean, other_log_variance).detach()
    middle = (apart.amin(1, keepdim=True) + apart.amax(1, keepdim=True)) / 2
    variance = (log_variance.exp() + other_log_variance.exp()) / 2
    return (mean + other_mean) / 2, variance.log(), apart < middle


def permuted(latents: Tensor, generator: torch.Generator) -> Tensor:
    """Latents (n, k) with each column in an order of its own: draws of the product of their marginals."""
    order = torch.rand(latents.shape, generator=generator, device=latents.device).argsort(0)
    return latents.gather(0, order)
