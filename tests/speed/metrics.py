"""All metrics of disentanglement on 10,000 samples of dSprites' factors, against their definitions written plainly.

The plain way draws pairs and batches a sample at a time, counts information pair by pair, and fits scikit-learn's
estimators to each factor, as in tests/benchmark/metrics/plain.py, which the tests hold ours against.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ident.benchmark import metrics
from ident.render.aliases import Float64s
from tests.benchmark.metrics import plain

N, OUTPUTS, SEEDS = 10_000, 10, 3
SIZES = (3, 6, 40, 32, 32)
BAR = 5.0
NAMES = ("beta-vae", "factor-vae", "mig", "dci", "modularity", "sap")
MIXING = np.random.default_rng(0).normal(size=(len(SIZES), OUTPUTS)) * (np.random.default_rng(1).random(OUTPUTS) < 0.5)
MIXING[:, : len(SIZES)] += 3 * np.eye(len(SIZES))
"""Each factor has an output that shows it most, and is mixed into others."""


def encode(factors: Float64s) -> Float64s:
    """Outputs (n, OUTPUTS) of factors (n, d), bent and with noise that follows from them."""
    centred = factors / (np.array(SIZES) - 1) - 0.5
    noise = np.sin(1e4 * (centred @ MIXING + centred.sum(1, keepdims=True)))
    bent: Float64s = np.tanh(centred @ MIXING) + 0.1 * noise
    return bent


def by_definition(factors: Float64s, seed: int) -> dict[str, float]:
    """The scores of the plain way."""
    rng, codes = np.random.default_rng(seed), encode(factors)
    train, test = plain.split(len(factors), rng)
    parts = factors[train], codes[train], factors[test], codes[test]
    return {
        "beta-vae": plain.beta_vae(encode, SIZES, rng),
        "factor-vae": plain.factor_vae(encode, SIZES, rng),
        "mig": plain.mig(factors, codes),
        "dci": plain.disentanglement(plain.importances(*parts)[0]),
        "modularity": plain.modularity(factors, codes),
        "sap": plain.sap(*parts),
    }


def ours(factors: Float64s, seed: int) -> dict[str, float]:
    """The scores of `ident.benchmark.metrics`."""
    return {name: metrics.value(name, factors, encode(factors), seed=seed) for name in NAMES}


def timed(score: Callable[[Float64s, int], dict[str, float]], seed: int) -> tuple[float, dict[str, float]]:
    """Seconds, and the scores of samples drawn by a seed."""
    factors = plain.drawn(SIZES, N, np.random.default_rng(seed))
    start = time.perf_counter()
    scores = score(factors, seed)
    return time.perf_counter() - start, scores


def measure() -> Iterator[dict[str, Any]]:
    """The ratio of one plain round, which takes minutes, to the median of ours; and how far their scores are apart."""
    timed(ours, SEEDS)  # Numba compiles
    seconds, scores = timed(by_definition, 0)
    rounds = [timed(ours, seed) for seed in range(SEEDS)]
    ours_seconds = float(np.median([each for each, _ in rounds]))
    apart = {name: abs(scores[name] - rounds[0][1][name]) for name in NAMES}
    noise = {name: float(np.ptp([each[name] for _, each in rounds])) for name in NAMES}
    each = ", ".join(
        f"{name} {100 * rounds[0][1][name]:.1f} against {100 * scores[name]:.1f} (seeds {100 * noise[name]:.1f} apart)"
        for name in NAMES
    )
    yield {
        "name": "metrics.all",
        "ratio": round(seconds / ours_seconds, 1),
        "bar": BAR,
        "quality": round(max(apart.values()), 4),
        "unit": f"times the definitions on {N} samples of {len(SIZES)} factors and {OUTPUTS} outputs",
        "note": f"{ours_seconds:.1f} s, the median of {SEEDS}, against {seconds:.1f} s; quality: largest difference "
        f"of scores (bar 0.03); {each}",
    }
