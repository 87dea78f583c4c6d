"""BetaVAE score: how well a linear classifier tells which factor the pairs of a batch share (Higgins et al., 2017)."""

from __future__ import annotations

import numpy as np

from ident.benchmark.metrics.interventions import Interventions
from ident.benchmark.metrics.metric import Metric
from ident.benchmark.metrics.probes import logistic
from ident.render.aliases import Float64s

BATCH, TRAIN, TEST = 64, 10_000, 5_000
"""Pairs that are averaged, and how many averages the classifier is fitted on and tested on."""
AT_ONCE = 1_000


def beta_vae(
    factors: Float64s, representation: Float64s, *, interventions: Interventions, rng: np.random.Generator
) -> float:
    """The accuracy, on averages of |difference| of pairs that share one factor, of a logistic regression for which."""
    del factors  # which `interventions` are of
    held = rng.integers(len(interventions.held), size=TRAIN + TEST)
    features = np.empty((len(held), representation.shape[1]))
    for start in range(0, len(held), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        left, right = interventions.pairs(held[part], BATCH, rng)
        features[part] = np.abs(representation[left] - representation[right]).mean(1)
    return float(logistic(features[:TRAIN], held[:TRAIN]).score(features[TRAIN:], held[TRAIN:]))


BETA_VAE = Metric("beta-vae", beta_vae, needs=("interventions", "rng"), per_factor=False, groups=10, permutations=2)
