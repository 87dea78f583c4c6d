"""The log-partition of powers of distances, and its gradients, on CPUs: a block of pairs stays in a core's cache.

In PyTorch each operation is a pass over memory, several for each latent. Here Numba compiles the loops over pairs on
their first use, which takes a second and no compiler of the machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ident.benchmark.losses.similarities import Distance, Similarity

BLOCK = 2**16
"""Pairs whose logits are kept at a time."""
PARTS = 16
"""Anchors are split into so many, whichever thread takes them: sums have the same order for any number of threads."""
HIGHEST = 8
"""The highest power whose multiplications are written out."""


def power(similarity: Similarity, *tensors: Tensor) -> int | None:
    """The power of a similarity of tensors that has a kernel: a whole one of distances, on a CPU."""
    if not isinstance(similarity, Distance) or not (similarity.power or similarity.p == 1):
        return None
    near = similarity.p in range(1, HIGHEST + 1) and all(x.device.type == "cpu" for x in tensors)
    return int(similarity.p) if near else None


def log_partition(
    anchor: Tensor,
    points: Tensor,
    more: Tensor,
    names: tuple[Tensor, Tensor] | int | None,
    p: int,
    temperature: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The log-partition (batch,) of each anchor, and the gradients of their mean by anchor, points and more."""
    logits_of, add_slopes = kernels(p)
    a, b = np.ascontiguousarray(anchor.detach()), np.ascontiguousarray(points.detach().T)
    extra = more.detach().numpy()
    rows = max(1, BLOCK // max(1, b.shape[1]))
    logs, grad_a, grad_extra = np.empty_like(extra), np.zeros_like(a), np.empty_like(extra)

    @np.errstate(all="ignore")  # what is not finite is found in the loss
    def part(anchors: range) -> NDArray[Any]:
        """Fill in what belongs to some anchors; gives their part of the gradients of points."""
        grad_b = np.zeros_like(b)
        for start in anchors[::rows]:
            block = slice(start, min(start + rows, anchors.stop))
            logits = logits_of(a[block], b, a.dtype.type(temperature))
            if isinstance(names, int):
                np.fill_diagonal(logits[:, start + names :], -np.inf)
            elif names is not None:
                logits[(names[0][block, None] == names[1]).numpy()] = -np.inf
            highest = np.maximum(logits.max(1, initial=-np.inf), extra[block]).clip(np.finfo(a.dtype).min)
            logits -= highest[:, None]
            weights, own = np.exp(logits, out=logits), np.exp(extra[block] - highest)
            sums = weights.sum(1) + own
            logs[block] = highest + np.log(sums)
            scale = 1 / (len(a) * sums)
            grad_extra[block] = own * scale
            add_slopes(a[block], b, weights, scale * a.dtype.type(p / temperature), grad_a[block], grad_b)
        return grad_b

    size = max(1, -(-len(a) // PARTS))
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        parts = pool.map(part, [range(start, min(start + size, len(a))) for start in range(0, len(a), size)])
        grad_b: NDArray[Any] = sum(parts, np.zeros_like(b))
    grad_points = np.ascontiguousarray(grad_b.T)
    return torch.from_numpy(logs), torch.from_numpy(grad_a), torch.from_numpy(grad_points), torch.from_numpy(grad_extra)


@cache
def kernels(p: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Loops over pairs of anchors (m, d) and points (d, n): of their logits (m, n), and of the gradients.

    They let other threads run. Sums may be taken in any order and products be fused with them, nothing else is relaxed.
    """
    import numba  # takes half a second

    def logits_of(anchor: Any, points: Any, temperature: Any) -> Any:
        logits = np.zeros((len(anchor), points.shape[1]), anchor.dtype)
        for i in range(len(anchor)):
            for k in range(len(points)):
                for j in range(points.shape[1]):
                    logits[i, j] -= abs(anchor[i, k] - points[k, j]) ** p
            for j in range(points.shape[1]):
                logits[i, j] /= temperature
        return logits

    def add_slopes(anchor: Any, points: Any, weights: Any, scale: Any, grad_anchor: Any, grad_points: Any) -> None:
        for i in range(len(anchor)):
            for k in range(len(points)):
                total = scale[i] * 0
                for j in range(points.shape[1]):
                    x = anchor[i, k] - points[k, j]
                    slope = scale[i] * weights[i, j] * (np.sign(x) if p == 1 else x * abs(x) ** (p - 2))
                    total += slope
                    grad_points[k, j] += slope
                grad_anchor[i, k] = -total

    compiled = numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
    return compiled(logits_of), compiled(add_slopes)
