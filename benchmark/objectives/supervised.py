"""The topline: factors found by regression."""

from __future__ import annotations

from torch import Tensor, nn

from ident.benchmark.objectives.objective import Encode, Objective
from ident.benchmark.pairs.batch import Batch
from ident.render.errors import Impossible


class Supervised(Objective):
    """The mean squared error of the representation as the factors."""

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The loss of observations with their factors."""
        if batch.factors is None:
            raise Impossible("objective supervised: is told factors; give a row whose pairs are labelled")
        outputs = encode(batch.observations)
        if outputs.shape != batch.factors.shape:
            raise Impossible(
                f"objective supervised: {outputs.shape[1]} outputs of {batch.factors.shape[1]} factors; give a tier "
                "without latents"
            )
        return nn.functional.mse_loss(outputs, batch.factors)


class Told(Objective):
    """The cross-entropy of what is so or not, by the first number of the representation."""

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The loss of observations with factors (n, 1) of 0 and 1."""
        if batch.factors is None or batch.factors.shape[1] != 1:
            raise Impossible("objective told: is told what is so or not; give a row whose pairs are augmented-or-not")
        return nn.functional.binary_cross_entropy_with_logits(encode(batch.observations)[:, :1].float(), batch.factors)
