"""TriCL with InfoNCE (Zhang et al., 2023): dot products with a learned scale of each latent, and decorrelation."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ident.benchmark.losses.contrastive import check_dim, check_temperature, full, info_nce
from ident.benchmark.losses.similarities import Dot
from ident.render.errors import Impossible


def decorrelation(z: Tensor) -> Tensor:
    """The mean square of what Z'Z / n has otherwise than the identity, of points (n, d)."""
    with torch.autocast(z.device.type, enabled=False):
        z = full(z)
        correlation = z.T @ z / len(z)
        return (correlation - torch.eye(z.shape[1], device=z.device, dtype=z.dtype)).square().mean()


class TriCL(nn.Module):
    """InfoNCE by z' diag(s) z / temperature, and `weight` times the decorrelation of all points of pairs.

    Scales s begin at 1; with `softplus`, as in TriCL's code, they are softplus of numbers that begin as 0.1 N(0, 1).
    """

    times_the_rate = 10.0
    """As that of AnInfoNCE's precisions, which these are compared with."""

    def __init__(self, dim: int, temperature: float = 0.1, weight: float = 1.0, *, softplus: bool = False) -> None:
        super().__init__()
        check_dim(dim)
        check_temperature(temperature)
        if not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise Impossible(f"weight {weight!r} of the decorrelation: give a number from 0 on")
        self.temperature, self.weight, self.softplus = temperature, weight, bool(softplus)
        if self.softplus:
            self.raw_scales = nn.Parameter(0.1 * torch.randn(dim))
        else:
            self.log_scales = nn.Parameter(torch.zeros(dim))

    @property
    def scales(self) -> Tensor:
        """The diagonal (dim,)."""
        return nn.functional.softplus(self.raw_scales) if self.softplus else self.log_scales.exp()

    def forward(
        self,
        anchor: Tensor,
        positive: Tensor,
        negatives: Tensor | None = None,
        *,
        scaled: int | None = None,
        names: Any = None,
        **more: Any,
    ) -> Tensor:
        """The loss. With `scaled` so many of the first anchors have scales, and the others the plain dot product."""
        if negatives is None:
            negatives, names = anchor, 0
        scales = self.scales.expand(anchor.shape)
        if scaled is not None:
            scales = torch.cat([scales[:scaled], torch.ones_like(scales[scaled:])])
        loss = info_nce(
            scales * anchor, positive, negatives, similarity=Dot(), temperature=self.temperature, names=names, **more
        )
        return loss + self.weight * decorrelation(torch.cat([anchor, positive]))

    def critic(self, a: Tensor, b: Tensor) -> Tensor:
        """The similarities (m, n) over the temperature of all points (m, dim) with all points (n, dim)."""
        return (self.scales * a) @ b.T / self.temperature
