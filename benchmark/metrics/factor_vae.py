"""FactorVAE score: how well the output that varies least tells which factor a batch shares (Kim and Mnih, 2018)."""

from __future__ import annotations

import numpy as np

from ident.benchmark.metrics.interventions import Interventions
from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s

BATCH, TRAIN, TEST = 64, 10_000, 5_000
"""Rows of a batch, and how many batches vote for a factor of each output and are then told by it."""
LEAST_DEVIATION = 0.05
"""Outputs whose standard deviation is smaller have collapsed, and are left out."""
AT_ONCE = 1_000


def factor_vae(
    factors: Float64s, representation: Float64s, *, interventions: Interventions, rng: np.random.Generator
) -> float:
    """The accuracy of the majority vote: which factor is held where an output varies least, relative to all rows."""
    del factors  # which `interventions` are of
    deviation = representation.std(0, ddof=1)
    representation = (representation / np.where(deviation > 0, deviation, 1))[:, deviation >= LEAST_DEVIATION]
    outputs = representation.shape[1]
    if not outputs:
        return 0.0
    held = rng.integers(len(interventions.held), size=TRAIN + TEST)
    least = np.empty(len(held), np.int64)
    for start in range(0, len(held), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        rows = interventions.batches(held[part], BATCH, rng)
        least[part] = representation[rows].var(1, ddof=1).argmin(1)
    votes = np.zeros((outputs, len(interventions.held)), np.int64)
    np.add.at(votes, (least[:TRAIN], held[:TRAIN]), 1)
    return float(np.mean(votes.argmax(1)[least[TRAIN:]] == held[TRAIN:]))


FACTOR_VAE = Metric(
    "factor-vae", factor_vae, needs=("interventions", "rng"), per_factor=False, groups=10, permutations=2
)
