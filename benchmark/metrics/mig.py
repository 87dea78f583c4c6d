"""MIG, the mutual information gap: by how much one output leads in what it says of a factor (Chen et al., 2018)."""

from __future__ import annotations

import numpy as np

from ident.benchmark.metrics.information import Information, information
from ident.benchmark.metrics.metric import Metric
from ident.render.aliases import Float64s


def gaps(measured: Information) -> Float64s:
    """Of each factor (d,): the largest mutual information less the second, over the factor's entropy."""
    d = len(measured.entropy)
    best = np.sort(np.hstack([np.zeros((d, 1)), measured.mutual]), axis=1)  # of one output the second is nothing
    known = measured.entropy > 0
    return np.where(known, (best[:, -1] - best[:, -2]) / np.where(known, measured.entropy, 1), 0.0)


MIG = Metric("mig", gaps, fit=information, needs=("kinds",), per_factor=True, groups=20)
