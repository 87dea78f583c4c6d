"""Our losses as other libraries call theirs: lightly's are called like our modules, with anchors and positives."""

from __future__ import annotations

from torch import Tensor, nn

from ident.benchmark.losses import similarities
from ident.benchmark.losses.contrastive import alignment, uniformity
from ident.benchmark.losses.similarities import Similarity
from ident.render.errors import Impossible


class ForMetricLearning(nn.Module):
    """A loss as pytorch-metric-learning calls its own: what has the same label is positive, all else negative."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss over all pairs of embeddings, or of embeddings with reference ones."""
        if indices_tuple is not None:
            raise Impossible("indices_tuple: miners choose pairs; this loss takes all that the labels say")
        if (ref_emb is None) != (ref_labels is None):
            raise Impossible("ref_emb and ref_labels: give both or neither")
        others, names = (embeddings, labels) if ref_emb is None or ref_labels is None else (ref_emb, ref_labels)
        alike = labels[:, None] == names
        if others is embeddings:
            alike.fill_diagonal_(False)
        first, second = alike.nonzero(as_tuple=True)
        if not len(first):  # no label twice: nothing to learn
            return 0 * embeddings.sum()
        loss: Tensor = self.loss(embeddings[first], others[second], others, names=(labels[first], names))
        return loss


class ForCEBRA(nn.Module):
    """A loss as CEBRA calls its criterion: reference, positive, negative; gives also alignment and uniformity."""

    def __init__(self, similarity: Similarity | str, temperature: float = 1.0) -> None:
        super().__init__()
        self.similarity, self.temperature = similarities.named(similarity), temperature

    def forward(self, ref: Tensor, pos: Tensor, neg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, and the two parts of which it is the sum."""
        align = -alignment(ref, pos, self.similarity, self.temperature).mean()
        uniform = uniformity(ref, neg, self.similarity, self.temperature)
        return align + uniform, align, uniform
