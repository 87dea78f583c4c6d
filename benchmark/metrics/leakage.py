"""Leakage: the share of the fitted map that goes from one block of factors to the outputs of another.

Blocks are factors that may be turned into each other: those of equal precisions (Rusak et al., 2024, theorem 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.orthogonality import linear
from ident.render.aliases import Float64s
from ident.render.errors import Impossible


def leakage(factors: Float64s, representation: Float64s, *, blocks: Sequence[Sequence[int]]) -> float:
    """0 where each output shows one block alone; outputs stand for blocks as it is least, as many as a block has."""
    from scipy.optimize import linear_sum_assignment  # here: it takes half a second

    dim, outputs = factors.shape[1], representation.shape[1]
    if sorted(number for block in blocks for number in block) != list(range(dim)):
        raise Impossible(f"blocks {[list(block) for block in blocks]!r}: give each of {dim} factors in one of them")
    if outputs < dim:
        raise Impossible(f"leakage: {outputs} outputs for {dim} factors: there must be as many, or more")
    squares = linear(factors * (1 / np.where(factors.std(0) > 0, factors.std(0), 1)), representation) ** 2
    if not squares.sum() > 0:
        return 1.0
    of_block = np.stack([squares[:, list(block)].sum(1) for block in blocks], 1)
    places = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    rows, columns = linear_sum_assignment(of_block[:, places], maximize=True)
    kept = of_block[rows, places[columns]].sum()
    return float(np.clip(1 - kept / squares.sum(), 0, 1))


LEAKAGE = Metric("leakage", leakage, needs=("blocks",), per_factor=False, groups=5, permutations=1)
