"""How well a representation shows the factors behind it: metrics by name, with intervals and chance.

Importing this takes no PyTorch: a representation is an array.
"""

from __future__ import annotations

from ident.benchmark.metrics.lookup import METRICS, load
from ident.benchmark.metrics.metric import Metric, Score
from ident.benchmark.metrics.scores import score, score_each, value

__all__ = ["METRICS", "Metric", "Score", "load", "score", "score_each", "value"]
