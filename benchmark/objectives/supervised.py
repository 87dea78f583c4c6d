"""The topline: factors found by regression."""

from __future__ import annotations

from torch import Tensor, nn

from ident.benchmark.objectives.objective import Encode, Objective
from ident.benchmark.pairs.batch import Batch


class Supervised(Objective):
    """The mean squared error of the representation as the factors."""

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The loss of observations with their factors."""
        assert batch.factors is not None
        return nn.functional.mse_loss(encode(batch.observations), batch.factors)
