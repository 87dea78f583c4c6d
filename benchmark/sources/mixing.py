"""The mixing of the synthetic suite: an invertible multi-layer perceptron from latents to observations."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from ident.render.aliases import Float32s

LAYERS, SLOPE, POOL = 3, 0.2, 25_000


class Mixing(nn.Module):
    """Square matrices (Zimmermann et al., 2021, A.3), and a leaky ReLU between each two of them."""

    matrices: Tensor

    def __init__(self, matrices: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrices", matrices)

    def forward(self, z: Tensor) -> Tensor:
        """Observations (n, dim) of latents (n, dim)."""
        for number, matrix in enumerate(self.matrices):
            z = nn.functional.leaky_relu(z, SLOPE) if number else z
            z = z @ matrix.T
        return z

    def inverse(self, x: Tensor) -> Tensor:
        """Latents (n, dim) of observations (n, dim)."""
        for number, matrix in reversed(list(enumerate(self.matrices))):
            x = torch.linalg.solve(matrix, x.T).T
            x = nn.functional.leaky_relu(x, 1 / SLOPE) if number else x
        return x


def mixing(dim: int, *, seed: int, pool: int = POOL) -> Mixing:
    """A mixing of its own for each seed."""
    return Mixing(torch.from_numpy(well_conditioned(dim, seed, LAYERS, pool)))


@cache
def well_conditioned(dim: int, seed: int, layers: int, pool: int) -> Float32s:
    """Matrices (layers, dim, dim) float32: each the best-conditioned of a pool, uniform, with columns of length 1."""
    rng = np.random.default_rng(seed)
    best = []
    for _ in range(layers):
        drawn = rng.uniform(-1, 1, (pool, dim, dim))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        best.append(drawn[np.linalg.cond(drawn).argmin()])
    stacked: Float32s = np.stack(best).astype(np.float32)
    return stacked
