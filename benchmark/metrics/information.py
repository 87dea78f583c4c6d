"""Mutual information of factors and outputs, counted in classes and bins: what MIG and modularity are computed of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ident.benchmark.metrics.arrays import binned, classes
from ident.render.aliases import Float64s, Int64s
from ident.render.worlds.factors import Kind


@dataclass(frozen=True)
class Information:
    """In nats: the mutual information (d, k) of each factor and each output, and the entropy (d,) of each factor."""

    mutual: Float64s
    entropy: Float64s


def information(factors: Float64s, representation: Float64s, *, kinds: Sequence[Kind]) -> Information:
    """The information of factors (n, d), in classes, or in bins if they are continuous, and outputs (n, k) in bins."""
    columns = [labels_of(column, kind) for column, kind in zip(factors.T, kinds, strict=True)]
    codes = [binned(column) for column in representation.T]
    entropies = np.array([entropy(column) for column in columns])
    of_codes = np.array([entropy(code) for code in codes])
    joint = np.array([[entropy(column * (code.max() + 1) + code) for code in codes] for column in columns])
    return Information(np.maximum(entropies[:, None] + of_codes - joint, 0), entropies)


def labels_of(factor: Float64s, kind: Kind) -> Int64s:
    """The class of each row by a factor, or its bin."""
    labels = classes(factor, kind)
    return binned(factor) if labels is None else labels


def entropy(labels: Int64s) -> float:
    """The entropy in nats of how often each label (n,) occurs; exactly 0 of one label."""
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    return float(np.log(len(labels)) - (counts * np.log(counts)).sum() / len(labels)) if len(counts) > 1 else 0.0
