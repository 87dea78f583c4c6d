"""Contrastive objectives: a loss of each comparison in a batch, summed by its weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ident.benchmark.losses import contrastive as losses
from ident.benchmark.losses import similarities
from ident.benchmark.objectives.objective import Encode, Objective
from ident.benchmark.pairs.batch import Batch, Comparison, PairsAmong
from ident.benchmark.training import distributed
from ident.render.errors import Failed, Impossible


class Contrastive(Objective):
    """A loss module for all conditionals, or one for each. With `itself` an anchor is among its own negatives."""

    def __init__(self, modules: Sequence[nn.Module], itself: bool = False) -> None:
        super().__init__()
        self.losses, self.itself = nn.ModuleList(modules), bool(itself)

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The loss of all comparisons of the representations of all processes."""
        points = distributed.gather(encode(batch.observations))
        return torch.stack([one.weight * self.of(points, one) for one in batch.comparisons]).sum()

    def of(self, points: Tensor, comparison: Comparison) -> Tensor:
        """The loss of a comparison of representations (n, k)."""
        if isinstance(comparison, PairsAmong):
            among: Any = self.losses[0]
            loss: Tensor = among.among(points[comparison.points], comparison.pairs)
            return loss
        module = self.losses[comparison.conditional % len(self.losses)]
        anchor, positive = points[comparison.anchor], points[comparison.positive]
        hard = {}
        if comparison.hard is not None:
            hard = {"hard": points[comparison.hard].unflatten(0, (len(anchor), -1))}
        if comparison.both:
            return self.of_both(module, anchor, positive)
        return self.of_pairs(module, anchor, positive, **hard)

    def of_pairs(self, module: nn.Module, anchor: Tensor, positive: Tensor, **hard: Tensor) -> Tensor:
        """The loss of anchors (n, k) and their positives (n, k)."""
        loss: Tensor = module(anchor, positive, anchor if self.itself else None, **hard)
        return loss

    def of_both(self, module: nn.Module, anchor: Tensor, positive: Tensor) -> Tensor:
        """The loss of pairs (n, k) in both directions: all others, anchors and positives, are negatives of either."""
        points, partners = torch.cat([anchor, positive]), torch.cat([positive, anchor])
        number = torch.arange(len(points), device=points.device)
        pair, partner = number % len(anchor), number.roll(len(anchor))
        loss: Tensor = module(points, partners, points, names=(number, partner) if self.itself else (pair, pair))
        return loss


class InfoNCE(Contrastive):
    """InfoNCE by the similarity that is the model's conditional."""

    function: Callable[..., Tensor] = staticmethod(losses.info_nce)

    def __init__(self, model: str, temperature: float = 1.0, *, itself: bool = False) -> None:
        super().__init__([losses.InfoNCE(similarities.parse(model), temperature, self.function)], itself)


class Decoupled(InfoNCE):
    """InfoNCE without the positive in the denominator."""

    function = staticmethod(losses.decoupled)


class AlignUniform(InfoNCE):
    """Alignment and uniformity, half each."""

    function = staticmethod(losses.align_uniform)


class AU(Contrastive):
    """L_AU(alpha, p): alpha times uniformity, and alignment by the rest, of the p-th powers of distances."""

    def __init__(self, alpha: float, p: float = 1.0, *, itself: bool = False) -> None:
        losses.check_alpha(alpha)
        if not isinstance(p, int | float):
            raise Impossible(f"au: p is {p!r}; give a number from 1 on")
        function = partial(losses.align_uniform, alpha=alpha)
        super().__init__([losses.InfoNCE(similarities.Distance(p), function=function)], itself)


class AnInfoNCE(Contrastive):
    """InfoNCE that learns a precision for each latent, the same ones for all conditionals."""

    def __init__(self, *, dim: int, itself: bool = False) -> None:
        super().__init__([losses.AnInfoNCE(dim)], itself)

    def learned(self) -> list[float]:
        """The precisions, in the order of the recovered latents; those of each conditional in turn."""
        modules: Any = self.losses
        return [float(value) for module in modules for value in module.precisions.tolist()]


class Ensemble(AnInfoNCE):
    """InfoNCE that learns a precision for each latent and conditional."""

    def __init__(self, *, dim: int, conditionals: int, itself: bool = False) -> None:
        Contrastive.__init__(self, [losses.AnInfoNCE(dim) for _ in range(conditionals)], itself)


class Function(nn.Module):
    """A function as a module without weights."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Tensor) -> Tensor:
        """What the function gives."""
        return self.function(*arguments)


class Own(Contrastive):
    """A user's loss: a function of anchors (n, k) and positives (n, k), or a module called so."""

    def __init__(self, name: str, loss: Callable[..., Tensor]) -> None:
        super().__init__([loss if isinstance(loss, nn.Module) else Function(loss)])
        self.name = name

    def of(self, points: Tensor, comparison: Comparison) -> Tensor:
        """The loss of anchors and a positive for each."""
        if isinstance(comparison, PairsAmong) or comparison.hard is not None:
            raise Impossible(f"{self.name}: takes anchors and a positive for each; give a row with such pairs")
        return super().of(points, comparison)

    def of_pairs(self, module: nn.Module, anchor: Tensor, positive: Tensor, **hard: Tensor) -> Tensor:  # noqa: ARG002
        """The user's loss, if it is one number that weights have a part in."""
        loss: object = module(anchor, positive)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise Failed(f"{self.name}: gave {shape}; a loss is one number, a tensor of shape ()")
        if not loss.requires_grad:
            raise Failed(f"{self.name}: gave a loss that no weight has a part in; it must be made of its arguments")
        return loss.reshape(())

    def of_both(self, module: nn.Module, anchor: Tensor, positive: Tensor) -> Tensor:
        """The mean over both directions; what is a negative is the loss's own affair."""
        return torch.stack([self.of_pairs(module, *pair) for pair in ((anchor, positive), (positive, anchor))]).mean()
