"""What an objective is: a loss of a batch, by an encoder and by modules of its own."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ident.benchmark.pairs.batch import Batch

Encode = Callable[[Tensor], Tensor]
"""From observations (n, ...) to representations (n, k)."""


class Objective(nn.Module):
    """A loss of a batch. Its parameters are trained with the encoder's."""

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The loss, a tensor of shape ()."""
        raise NotImplementedError

    def learned(self) -> list[float]:
        """What it has learned beside the representation, for the result."""
        return []
