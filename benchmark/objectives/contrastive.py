"""Contrastive objectives: a loss of each comparison in a batch, summed by its weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ident.benchmark.latents import notation
from ident.benchmark.losses import contrastive as losses
from ident.benchmark.losses import similarities, tricl
from ident.benchmark.objectives.objective import Encode, Objective
from ident.benchmark.pairs.batch import Batch, Comparison, PairsAmong
from ident.benchmark.training import distributed
from ident.render.errors import Failed, Impossible, unknown

AGAINST = ("anchor", "positive")
"""What of a pair negatives are compared with."""


def is_plain(comparison: Comparison) -> bool:
    """Whether it is of anchors and a positive for each, whose negatives are the others."""
    return not isinstance(comparison, PairsAmong) and comparison.hard is None and not comparison.both


class Contrastive(Objective):
    """A loss module for all conditionals, or one for each. With `itself` an anchor is among its own negatives.

    Negatives are compared with the anchor, or with the positive, as equations 1 and 6 of Zimmermann et al. (2021) have
    it to the letter: then it is the anchor that is told from draws of the marginal.
    """

    takes_hard: ClassVar[bool] = True

    def __init__(self, modules: Sequence[nn.Module], itself: bool = False, against: str = "anchor") -> None:
        super().__init__()
        if against not in AGAINST:
            raise unknown("against", against, AGAINST)
        if itself and against == "positive":
            raise Impossible("itself: is of negatives that are compared with the anchor; leave it out, or against")
        self.losses, self.itself, self.against = nn.ModuleList(modules), bool(itself), against

    def forward(self, encode: Encode, batch: Batch) -> Tensor:
        """The loss of all comparisons of the representations of all processes."""
        if not batch.comparisons:
            raise Impossible("a contrastive objective compares pairs; give a row that has such, like drawn(vmf(10))")
        points = distributed.gather(encode(batch.observations))
        return torch.stack([one.weight * self.of(points, one) for one in batch.comparisons]).sum()

    def of(self, points: Tensor, comparison: Comparison) -> Tensor:
        """The loss of a comparison of representations (n, k)."""
        if self.against == "positive" and not is_plain(comparison):
            raise Impossible("against=positive: takes anchors and a positive for each, in one direction")
        if not self.takes_hard and not isinstance(comparison, PairsAmong) and comparison.hard is not None:
            raise Impossible("hard negatives: are for infonce, aninfonce and tricl; give pairs without, or these")
        if isinstance(comparison, PairsAmong):
            among: Any = self.losses[0]
            loss: Tensor = among.among(points[comparison.points], comparison.pairs, itself=self.itself)
            return loss
        module = self.losses[comparison.conditional % len(self.losses)]
        anchor, positive = points[comparison.anchor], points[comparison.positive]
        hard = {}
        if comparison.hard is not None:
            hard = {"hard": points[comparison.hard].unflatten(0, (len(anchor), -1))}
        if comparison.both:
            return self.of_both(module, anchor, positive)
        if self.against == "positive":
            return self.of_pairs(module, positive, anchor, anchor, names=0)
        negatives = anchor if self.itself else None
        return self.of_pairs(module, anchor, positive, anchor[:0] if comparison.only_hard else negatives, **hard)

    def of_pairs(
        self, module: nn.Module, anchor: Tensor, positive: Tensor, negatives: Tensor | None = None, **more: Any
    ) -> Tensor:
        """The loss of anchors (n, k) and their positives (n, k)."""
        loss: Tensor = module(anchor, positive, negatives, **more)
        return loss

    def critic(self, a: Tensor, b: Tensor) -> Tensor:
        """The similarities (m, n) of all points (m, k) with all points (n, k): the mean of those of all losses."""
        if not all(hasattr(module, "critic") for module in self.losses):
            return super().critic(a, b)
        losses: Any = self.losses
        return torch.stack([module.critic(a, b) for module in losses]).mean(0)

    def of_both(self, module: Callable[..., Tensor], anchor: Tensor, positive: Tensor) -> Tensor:
        """The loss of pairs (n, k) in both directions: all others, anchors and positives, are negatives of either."""
        points, partners = torch.cat([anchor, positive]), torch.cat([positive, anchor])
        number = torch.arange(len(points), device=points.device)
        pair, partner = number % len(anchor), number.roll(len(anchor))
        loss: Tensor = module(points, partners, points, names=(number, partner) if self.itself else (pair, pair))
        return loss


class InfoNCE(Contrastive):
    """InfoNCE by the similarity that is the model's conditional."""

    function: Callable[..., Tensor] = staticmethod(losses.info_nce)

    def __init__(self, model: str, temperature: float = 1.0, *, itself: bool = False, against: str = "anchor") -> None:
        module = losses.InfoNCE(similarities.parse(model), temperature, self.function)
        super().__init__([module], itself, against)


class Decoupled(InfoNCE):
    """InfoNCE without the positive in the denominator."""

    takes_hard = False
    function = staticmethod(losses.decoupled)


class AlignUniform(InfoNCE):
    """Alignment and uniformity, half each."""

    takes_hard = False
    function = staticmethod(losses.align_uniform)


class AU(Contrastive):
    """L_AU(alpha, p): alpha times uniformity, and alignment by the rest, of the p-th powers of distances."""

    takes_hard = False

    def __init__(self, alpha: float, p: float = 1.0, *, itself: bool = False) -> None:
        losses.check_alpha(alpha)
        if not isinstance(p, int | float):
            raise Impossible(f"au: p is {p!r}; give a number from 1 on")
        function = partial(losses.align_uniform, alpha=alpha)
        super().__init__([losses.InfoNCE(similarities.Distance(p), function=function)], itself)


class AnInfoNCE(Contrastive):
    """InfoNCE that learns a precision for each latent, the same ones for all conditionals.

    A precision is what the convention says, `paper` or `code`; for `softplus` see the loss.
    """

    count: ClassVar[int | None] = 1
    """How many losses there are; None for one of each conditional."""

    def __init__(
        self,
        *,
        dim: int,
        conditionals: int = 1,
        convention: str = "paper",
        softplus: bool = False,
        itself: bool = False,
    ) -> None:
        count = self.count or conditionals
        if not count:
            raise Impossible("ensemble: has a Lambda for each conditional; give pairs with some, like drawn(vmf(10))")
        super().__init__(
            [losses.AnInfoNCE(dim, convention=convention, softplus=softplus) for _ in range(count)], itself
        )

    def learned(self) -> list[float]:
        """The precisions, in the order of the recovered latents; those of each conditional in turn."""
        modules: Any = self.losses
        return [float(value) for module in modules for value in module.precisions.tolist()]


class Ensemble(AnInfoNCE):
    """InfoNCE that learns a precision for each latent and conditional."""

    count = None


class TriCL(Contrastive):
    """TriCL with InfoNCE: a learned scale of each latent in the dot product, and decorrelation.

    In the `paper` all similarities are scaled, in the `code` those of the first views as anchors alone.
    """

    def __init__(
        self,
        *,
        dim: int,
        convention: str = "paper",
        temperature: float = 0.1,
        weight: float = 1.0,
        softplus: bool = False,
        itself: bool = False,
    ) -> None:
        super().__init__([tricl.TriCL(dim, temperature, weight, softplus=softplus)], itself)
        self.first_alone = notation.is_code(convention)

    def learned(self) -> list[float]:
        """The scales over the temperature, in the order of the recovered latents."""
        module: Any = self.losses[0]
        return [value / module.temperature for value in module.scales.tolist()]

    def of(self, points: Tensor, comparison: Comparison) -> Tensor:
        """The loss of pairs, if they are such as it is for."""
        if isinstance(comparison, PairsAmong):
            raise Impossible("tricl: takes anchors and a positive for each; give pairs like drawn(vmf(10))")
        if self.first_alone and not comparison.both:
            raise Impossible("tricl, convention=code: scales one of two directions; give pairs with both=1")
        return super().of(points, comparison)

    def of_both(self, module: Callable[..., Tensor], anchor: Tensor, positive: Tensor) -> Tensor:
        """The loss of pairs (n, k) in both directions."""
        return super().of_both(partial(module, scaled=len(anchor)) if self.first_alone else module, anchor, positive)


class Function(nn.Module):
    """A function as a module without weights."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Tensor) -> Tensor:
        """What the function gives."""
        return self.function(*arguments)


class OwnLoss(Contrastive):
    """A user's loss: a function of anchors (n, k) and positives (n, k), or a module called so."""

    def __init__(self, name: str, loss: Callable[..., Tensor]) -> None:
        super().__init__([loss if isinstance(loss, nn.Module) else Function(loss)])
        self.name = name

    def critic(self, a: Tensor, b: Tensor) -> Tensor:
        """How near points are to each other, as the loss of a user has no critic."""
        return Objective.critic(self, a, b)

    def of(self, points: Tensor, comparison: Comparison) -> Tensor:
        """The loss of anchors and a positive for each."""
        if isinstance(comparison, PairsAmong) or comparison.hard is not None:
            raise Impossible(f"{self.name}: takes anchors and a positive for each; give a row with such pairs")
        return super().of(points, comparison)

    def of_pairs(
        self,
        module: nn.Module,
        anchor: Tensor,
        positive: Tensor,
        negatives: Tensor | None = None,  # noqa: ARG002
        **more: Any,  # noqa: ARG002
    ) -> Tensor:
        """The user's loss, if it is one number that weights have a part in."""
        loss: object = module(anchor, positive)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise Failed(f"{self.name}: gave {shape}; a loss is one number, a tensor of shape ()")
        if not loss.requires_grad:
            raise Failed(f"{self.name}: gave a loss that no weight has a part in; it must be made of its arguments")
        return loss.reshape(())

    def of_both(self, module: Callable[..., Tensor], anchor: Tensor, positive: Tensor) -> Tensor:
        """The mean over both directions; what is a negative is the loss's own affair."""
        assert isinstance(module, nn.Module)
        return torch.stack([self.of_pairs(module, *pair) for pair in ((anchor, positive), (positive, anchor))]).mean()
