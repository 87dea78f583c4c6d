"""Metrics by name: loaded, checked and chosen. The names are in benchmark/registry.py; a user's is module:name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from ident.benchmark import registry
from ident.benchmark.metrics.metric import Metric, of_function
from ident.render import plugins
from ident.render.errors import Impossible

METRICS: Mapping[str, str] = registry.METRICS.entries
CHECKS: Mapping[str, str] = registry.CHECKS.entries
"""Metrics that say how far a training is from what a theorem says."""


def check_name(name: object) -> None:
    """Refuse what names neither a metric of ours nor, as module:name, one of the user's. Nothing is imported."""
    registry.METRICS.check(name)


def load(name: str) -> Metric:
    """The metric of a name. A user's is a `Metric`, or a function of factors (n, d) and a representation (n, k)."""
    if name not in CHECKS:
        check_name(name)
    metric = plugins.load({**METRICS, **CHECKS}.get(name, name))
    if not isinstance(metric, Metric) and not callable(metric):
        raise Impossible(f"{name}: is neither a Metric nor a function")
    return metric if isinstance(metric, Metric) else of_function(name, metric)


def known(name: str) -> Metric:
    """What is known of a metric without importing anything of a user's, whose functions may give any number."""
    return load(name) if name in METRICS or name in CHECKS else of_function(name, np.mean)


def check(names: Iterable[str], has: Collection[str], what: str) -> None:
    """Refuse metrics that need what a source has not: what it has beside factors, like interventions or labels."""
    for name in names:
        if lacks := " and ".join(load(name).lacks(has)):
            raise Impossible(f"{what}: metric {name} needs {lacks}, which its source has not; leave it out")


def of_run(reported: Iterable[str], has: Collection[str] = ()) -> tuple[str, ...]:
    """The metrics that are stored with a run: those that all have whose source has these, and its suite's."""
    every = [name for name in METRICS if load(name).everywhere and not load(name).lacks(has)]
    return tuple(dict.fromkeys([*every, *reported]))


def on_the_way(reported: Sequence[str]) -> tuple[str, ...]:
    """The metrics that are taken at each look of a training: those that all runs have, and the first of its suite's."""
    every = [name for name in METRICS if load(name).on_the_way]
    return tuple(dict.fromkeys([*every, *reported[:1]]))
