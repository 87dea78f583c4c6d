"""The probe that several metrics fit: a logistic regression."""

from __future__ import annotations

import warnings
from typing import Any

from ident.render.aliases import Float64s, Int64s


def logistic(outputs: Float64s, labels: Int64s | None, **how: Any) -> Any:
    """A logistic regression of labels (n,) on outputs (n, k), with settings of scikit-learn's.

    It ends without a word where no step is an improvement, and where classes can be told apart without error: then
    there is no optimum.
    """
    from sklearn.exceptions import ConvergenceWarning  # here: it takes a second
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(**how).fit(outputs, labels)
