"""Modularity: whether each output tells of one factor alone (Ridgeway and Mozer, 2018)."""

from __future__ import annotations

import numpy as np

from ident.benchmark.metrics.information import Information, information
from ident.benchmark.metrics.metric import Metric


def modularity(measured: Information) -> float:
    """The mean over outputs of 1 - the squared information on other factors over that on the one it tells most of."""
    squares = measured.mutual.T**2
    largest = squares.max(1)
    others = max(1, squares.shape[1] - 1)
    told = largest > 0
    each = 1 - (squares.sum(1) - largest) / (np.where(told, largest, 1) * others)
    return float(np.where(told, each, 0.0).mean())


MODULARITY = Metric("modularity", modularity, fit=information, needs=("kinds",), per_factor=False, groups=20)
