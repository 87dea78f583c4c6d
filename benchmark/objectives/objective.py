"""What an objective is: a loss of a batch, by an encoder and by modules of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from ident.benchmark.pairs.batch import Batch

Encode = Callable[[Tensor], Tensor]
"""From observations (n, ...) to representations (n, k)."""


class Objective(nn.Module):
    """A loss of a batch. Its parameters are trained with the encoder's."""

    outputs: ClassVar[int] = 1
    """How many numbers it takes from the encoder for each latent."""
    decode: ClassVar[Callable[..., Tensor] | None] = None
    """Gives images (n, C, H, W) from 0 to 1 of latents (n, k)."""

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The loss, a tensor of shape ()."""
        raise NotImplementedError

    def latents(self, outputs: Tensor) -> Tensor:
        """What of the encoder's outputs (n, outputs * k) stands for the factors: (n, k)."""
        return outputs

    def critic(self, a: Tensor, b: Tensor) -> Tensor:
        """How alike (m, n) all representations (m, k) are to all others (n, k): by default, how near."""
        return -torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist")

    def learned(self) -> list[float]:
        """What it has learned beside the representation, for the result."""
        return []
