"""Contrastive losses as pure functions, and thin modules over them.

All compare an anchor with its positive and with negatives by a similarity, the logarithm of the model's conditional but
for its norm. Where no negatives are given the other anchors are taken, which are draws of the marginal. No function
holds (batch, batch, latent), nor (batch, batch): see `log_partition`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ident.benchmark import notation
from ident.render.errors import Impossible

BLOCK = 2**18
"""Elements of a block of (anchors, points), so that several stay in a core's cache."""


Names = tuple[Tensor, Tensor] | int
"""Integers for anchors (batch,) and for negatives (n,): an anchor is not compared with what has its name.

A number k says that anchor i is negative k + i.
"""


class Similarity(ABC):
    """How alike two representations are."""

    @abstractmethod
    def rows(self, a: Tensor, b: Tensor) -> Tensor:
        """Similarities (...) of points (..., d) and (..., d)."""

    @abstractmethod
    def all(self, a: Tensor, b: Tensor) -> Tensor:
        """Similarities (m, n) of all points (m, d) with all points (n, d)."""

    @abstractmethod
    def back(self, a: Tensor, b: Tensor, s: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients (m, d) and (n, d) of the sum of scale (m, 1) * w (m, n) * s, where s is what `all` gives."""


@dataclass(frozen=True)
class Dot(Similarity):
    """The dot product (Zimmermann et al., 2021, eq. 1): a von Mises-Fisher conditional, on a sphere."""

    def rows(self, a: Tensor, b: Tensor) -> Tensor:
        """Row by row."""
        return (a * b).sum(-1)

    def all(self, a: Tensor, b: Tensor) -> Tensor:
        """One matrix product."""
        return a @ b.T

    def back(self, a: Tensor, b: Tensor, s: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Two more."""
        return scale * (w @ b), w.T @ (scale * a)


@dataclass(frozen=True)
class Distance(Similarity):
    """Minus the L^p distance, or its p-th power (Zimmermann et al., 2021, eq. 6): a conditional as exp(-|x|^p)."""

    p: float
    power: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.p < math.inf:
            raise Impossible(f"distance: p is {self.p:g}; give a number from 1 on")

    def rows(self, a: Tensor, b: Tensor) -> Tensor:
        """Row by row."""
        return self._rooted(-(a - b).abs().pow(self.p).sum(-1))

    def _rooted(self, s: Tensor) -> Tensor:
        """Of minus the sum of powers. The root of zero has no slope: it gets one of zero."""
        if self.power or self.p == 1:
            return s
        there = s < 0
        return torch.where(there, -torch.where(there, -s, 1.0).pow(1 / self.p), 0.0)

    def all(self, a: Tensor, b: Tensor) -> Tensor:
        """One matrix product for p = 2, of -|a - b|^2; else latent by latent."""
        if self.p == 2:
            a, b = around_middle(a, b)
            left = torch.cat([2 * a, -(a**2).sum(-1, keepdim=True), -torch.ones_like(a[:, :1])], -1)
            s = left @ torch.cat([b, torch.ones_like(b[:, :1]), (b**2).sum(-1, keepdim=True)], -1).T
        else:
            s = a.new_zeros(len(a), len(b))
            difference, powered = torch.empty_like(s), torch.empty_like(s)
            for x, y in zip(a.T, b.T.contiguous(), strict=True):
                torch.sub(x[:, None], y, out=difference)
                s -= absolute_power(difference, self.p, powered)
        return self._rooted(s)

    def back(self, a: Tensor, b: Tensor, s: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The same by its derivative."""
        rooted = not self.power and self.p != 1
        if self.p == 2:
            w = torch.where(s < 0, w / torch.where(s < 0, -2 * s, 1.0), 0.0) if rooted else w
            a, b = around_middle(a, b)
            sums = w @ torch.cat([b, torch.ones_like(b[:, :1])], -1)
            scaled = w.T @ torch.cat([scale * a, scale], -1)
            return 2 * scale * (sums[:, :-1] - sums[:, -1:] * a), 2 * (scaled[:, :-1] - scaled[:, -1:] * b)
        grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
        difference, powered = torch.empty_like(w), torch.empty_like(w)
        ones, factor = torch.ones_like(b[:, 0]), 1.0 if rooted else self.p
        for k, (x, y) in enumerate(zip(a.T, b.T.contiguous(), strict=True)):
            torch.sub(x[:, None], y, out=difference)
            if rooted:  # |x|^(p-1) over the distance's: never above 1
                difference = torch.where(s < 0, difference / torch.where(s < 0, -s, 1.0), 0.0)
            slope = signed_power(difference, self.p - 1, powered).mul_(w)
            grad_a[:, k] = -factor * scale[:, 0] * torch.mv(slope, ones)
            grad_b[:, k] = factor * torch.mv(slope.T, scale[:, 0])
        return grad_a, grad_b


def around_middle(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both around the mean of the second: differences stay, and products lose little of them to rounding."""
    middle = b.mean(0)
    return a - middle, b - middle


def absolute_power(x: Tensor, p: float, out: Tensor) -> Tensor:
    """|x|^p, in `out`; x may be overwritten."""
    torch.abs(x, out=out)
    if p == 3:
        return out.mul_(x.mul_(x))
    return out if p == 1 else out.pow_(p)


def signed_power(x: Tensor, p: float, out: Tensor) -> Tensor:
    """|x|^p with the sign of x, in `out`; x may be overwritten."""
    if p == 0:
        return torch.sign(x, out=out)
    torch.abs(x, out=out)
    return out.mul_(x) if p == 2 else out.pow_(p).mul_(x.sign_())


def vmf() -> Similarity:
    """`vmf`: the dot product, for representations on a sphere."""
    return Dot()


def normal() -> Similarity:
    """`normal`: the squared Euclidean distance."""
    return Distance(2.0)


def laplace() -> Similarity:
    """`laplace`: the sum of absolute differences."""
    return Distance(1.0)


def gennorm(p: float) -> Similarity:
    """`gennorm(3)`: the sum of their p-th powers."""
    return Distance(p)


SIMILARITIES: dict[str, Callable[..., Similarity]] = {
    "vmf": vmf,
    "normal": normal,
    "laplace": laplace,
    "gennorm": gennorm,
}


def parse(text: str) -> Similarity:
    """The similarity of a model as the tables write its conditional: `vmf`, `normal`, `laplace`, `gennorm(3)`."""
    found = notation.parse(text, SIMILARITIES, "model", {})
    if len(found) > 1:
        raise Impossible(f"model {text!r}: give one")
    return found[0]


class _LogPartition(torch.autograd.Function):
    """See `log_partition`. The gradients are found on the way, so that no block is computed twice."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        points: Tensor,
        more: Tensor,
        names: Names | None,
        similarity: Similarity,
        temperature: float,
    ) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        total = anchor.new_zeros(())
        grad_anchor, grad_points, grad_more = map(torch.zeros_like, (anchor, points, more))
        rows = max(1, BLOCK // max(1, len(points)))
        for start in range(0, len(anchor), rows):
            block = slice(start, start + rows)
            s = similarity.all(anchor[block], points)
            logits = s / temperature
            if isinstance(names, int):
                logits.diagonal(start + names).fill_(-math.inf)
            elif names is not None:
                logits.masked_fill_(names[0][block, None] == names[1], -math.inf)
            highest = torch.maximum(logits.amax(1) if len(points) else more[block], more[block])
            highest = highest.clamp_min(torch.finfo(highest.dtype).min)
            weights = logits.sub_(highest[:, None]).exp_()
            own = torch.exp(more[block] - highest)
            sums = weights.sum(1) + own
            total += (highest + sums.log()).sum()
            if wanted:
                scale = 1 / (len(anchor) * sums)
                grad_more[block] = own * scale
                back = similarity.back(anchor[block], points, s, weights, scale[:, None] / temperature)
                grad_anchor[block] = back[0]
                grad_points += back[1]
        ctx.save_for_backward(grad_anchor, grad_points, grad_more)
        return total / len(anchor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(grad * saved for saved in ctx.saved_tensors), None, None, None)


def log_partition(
    anchor: Tensor,
    points: Tensor,
    more: Tensor | None,
    names: Names | None,
    similarity: Similarity,
    temperature: float,
) -> Tensor:
    """The mean over anchors (batch, d) of log(exp(more) + sum over points (n, d) of exp(similarity / temperature)).

    A point of the same name as the anchor is left out; `more` (batch,) is one more logit of each anchor. It works in
    blocks of a few rows, with exact gradients, in float32 at least.
    """
    if more is None:
        more = anchor.new_full((len(anchor),), -math.inf)
    with torch.autocast(anchor.device.type, enabled=False):
        found: Tensor = _LogPartition.apply(anchor, points, more, names, similarity, temperature)
    return found


def info_nce(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    *,
    similarity: Similarity,
    temperature: float = 1.0,
    names: Names | None = None,
    hard: Tensor | None = None,
) -> Tensor:
    """InfoNCE (Zimmermann et al., 2021, eq. 1 and 6): how well positives (batch, d) are told from negatives.

    Negatives (n, d) serve all anchors (batch, d), `hard` ones (batch, m, d) their own anchor alone.
    """
    own = alignment(anchor, positive, similarity, temperature)
    own_and_hard = own
    if hard is not None:
        if hard.ndim != 3 or (len(hard), hard.shape[2]) != anchor.shape:
            raise Impossible(f"hard negatives {tuple(hard.shape)} of {len(anchor)} anchors: give (batch, m, latents)")
        near = similarity.rows(anchor[:, None].to(own.dtype), hard.to(own.dtype)) / temperature
        own_and_hard = torch.logsumexp(torch.cat([own[:, None], near], 1), 1)
    return uniformity(anchor, negatives, similarity, temperature, names, own_and_hard) - own.mean()


def decoupled(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    *,
    similarity: Similarity,
    temperature: float = 1.0,
    names: Names | None = None,
) -> Tensor:
    """The same without the positive in the denominator, for SimCLR and others."""
    own = alignment(anchor, positive, similarity, temperature)
    return uniformity(anchor, negatives, similarity, temperature, names) - own.mean()


def align_uniform(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    *,
    similarity: Similarity,
    temperature: float = 1.0,
    names: Names | None = None,
    weight: float = 0.5,
) -> Tensor:
    """Alignment by its weight and uniformity by the rest: half of InfoNCE with very many negatives (proposition A)."""
    if not 0 <= weight <= 1:
        raise Impossible(f"weight {weight:g} of the alignment: give a number from 0 to 1")
    own = alignment(anchor, positive, similarity, temperature)
    spread = uniformity(anchor, negatives, similarity, temperature, names)
    count = spread.new_tensor(len(anchor if negatives is None else negatives))
    if isinstance(names, tuple):
        known, times = names[1].unique(return_counts=True)
        at = torch.searchsorted(known, names[0]).clamp_max(len(known) - 1)
        count = count - torch.where(known[at] == names[0], times[at], 0)
    elif negatives is None or names is not None:
        count = count - 1
    return (1 - weight) * (spread - count.log().mean()) - weight * own.mean()


def info_nce_among(points: Tensor, pairs: Tensor, *, similarity: Similarity, temperature: float = 1.0) -> Tensor:
    """InfoNCE where one point (n, d) has many positives: pairs (m, 2) say of whom; all others are its negatives."""
    spread, near = parts_among(points, pairs, similarity, temperature)
    return spread - near


def align_uniform_among(
    points: Tensor, pairs: Tensor, *, similarity: Similarity, temperature: float = 1.0, weight: float = 0.5
) -> Tensor:
    """The same by `align_uniform`."""
    spread, near = parts_among(points, pairs, similarity, temperature)
    return (1 - weight) * (spread - math.log(len(points) - 1)) - weight * near


def parts_among(points: Tensor, pairs: Tensor, similarity: Similarity, temperature: float) -> tuple[Tensor, Tensor]:
    """Uniformity of points (n, d), and the mean alignment of pairs (m, 2) of them, which is 0 of no pair."""
    own = alignment(points[pairs[:, 0]], points[pairs[:, 1]], similarity, temperature)
    return uniformity(points, None, similarity, temperature), own.sum() / max(1, len(own))


def alignment(anchor: Tensor, positive: Tensor, similarity: Similarity, temperature: float) -> Tensor:
    """How alike anchors (batch, d) and their positives (batch, d) are, over the temperature."""
    if not 0 < temperature < math.inf:
        raise Impossible(f"temperature {temperature:g}: give a number above 0")
    if anchor.shape != positive.shape or anchor.ndim != 2:
        raise Impossible(
            f"anchors {tuple(anchor.shape)} and positives {tuple(positive.shape)}: give both as (batch, latents)"
        )
    return similarity.rows(full(anchor), full(positive)) / temperature


def uniformity(
    anchor: Tensor,
    negatives: Tensor | None,
    similarity: Similarity,
    temperature: float,
    names: Names | None = None,
    more: Tensor | None = None,
) -> Tensor:
    """The mean of the logarithm of all that a positive is told from, see `log_partition`."""
    if negatives is None:
        if len(anchor) < 2:
            raise Impossible("a batch of 1 has no negatives: give 2 or more anchors, or negatives")
        negatives, names = anchor, 0
    if negatives.ndim != 2 or not (len(negatives) or more is not None) or negatives.shape[1] != anchor.shape[1]:
        raise Impossible(f"negatives {tuple(negatives.shape)} of anchors {tuple(anchor.shape)}: give (n, latents)")
    if isinstance(names, int) and not 0 <= names <= len(negatives) - len(anchor):
        raise Impossible(f"names {names}: {len(anchor)} anchors from there on are not among {len(negatives)} negatives")
    return log_partition(full(anchor), full(negatives), more, names, similarity, temperature)


def full(x: Tensor) -> Tensor:
    """In float32 at least: what is compared in less is lost at low temperatures."""
    return x if x.dtype == torch.float64 else x.float()


AMONG: dict[Callable[..., Tensor], Callable[..., Tensor]] = {
    info_nce: info_nce_among,
    decoupled: info_nce_among,  # where others are told from, the positive makes no difference
    align_uniform: align_uniform_among,
}
"""What stands for a loss where a point has many positives."""


class InfoNCE(nn.Module):
    """`info_nce` and its kin as a module, called like the losses of lightly: loss(anchor, positive)."""

    def __init__(
        self, similarity: Similarity, temperature: float = 1.0, function: Callable[..., Tensor] = info_nce
    ) -> None:
        super().__init__()
        self.similarity, self.temperature, self.function = similarity, temperature, function

    def forward(self, anchor: Tensor, positive: Tensor, negatives: Tensor | None = None, **more: Any) -> Tensor:
        """The loss."""
        return self.function(
            anchor, positive, negatives, similarity=self.similarity, temperature=self.temperature, **more
        )

    def among(self, points: Tensor, pairs: Tensor, outputs: slice = slice(None)) -> Tensor:
        """The same of points (n, d) that have several positives, compared by some of their outputs."""
        among = AMONG[self.function]
        return among(points[:, outputs], pairs, similarity=self.similarity, temperature=self.temperature)


class AnInfoNCE(nn.Module):
    """InfoNCE by a distance that weighs each latent by its precision, which is learned (Rusak et al., 2024, eq. 3)."""

    times_the_rate = 10.0
    """How much larger the learning rate of the precisions is than that of an encoder, as in the authors' runs."""

    def __init__(self, dim: int, precision: float = 1.0) -> None:
        super().__init__()
        if not 0 < precision < math.inf:
            raise Impossible(f"precision {precision:g}: give a number above 0")
        self.log_precisions = nn.Parameter(torch.full((dim,), math.log(precision)))

    @property
    def precisions(self) -> Tensor:
        """The diagonal (dim,) of Lambda."""
        return self.log_precisions.exp()

    def forward(self, anchor: Tensor, positive: Tensor, negatives: Tensor | None = None, **more: Any) -> Tensor:
        """The loss."""
        scale = (self.log_precisions / 2).exp()
        others = {name: scale * value if name == "hard" else value for name, value in more.items()}
        scaled = None if negatives is None else scale * negatives
        return info_nce(scale * anchor, scale * positive, scaled, similarity=Distance(2.0), **others)

    def among(self, points: Tensor, pairs: Tensor, outputs: slice = slice(None)) -> Tensor:
        """The same of points (n, d) that have several positives, compared by some of their outputs."""
        scaled = (self.log_precisions / 2).exp() * points
        return info_nce_among(scaled[:, outputs], pairs, similarity=Distance(2.0))


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
        found: Tensor = self.loss(embeddings[first], others[second], others, names=(labels[first], names))
        return found


class ForCEBRA(nn.Module):
    """A loss as CEBRA calls its criterion: reference, positive, negative; gives also alignment and uniformity."""

    def __init__(self, similarity: Similarity, temperature: float = 1.0) -> None:
        super().__init__()
        self.similarity, self.temperature = similarity, temperature

    def forward(self, ref: Tensor, pos: Tensor, neg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, and the two parts of which it is the sum."""
        align = -alignment(ref, pos, self.similarity, self.temperature).mean()
        uniform = uniformity(ref, neg, self.similarity, self.temperature)
        return align + uniform, align, uniform


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.count = len(x)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone(memory_format=torch.contiguous_format)  # it may be another's, too
        dist.all_reduce(grad)
        return grad[dist.get_rank() * ctx.count :][: ctx.count]


def gather(anchor: Tensor) -> tuple[Tensor, Names]:
    """The anchors (world * batch, d) of all processes as negatives, and names for `info_nce`.

    With DistributedDataParallel, which takes the mean over processes, the gradient is that of one process with the
    whole batch. All processes give as many anchors.
    """
    gathered: Tensor = _Gather.apply(anchor)
    return gathered, dist.get_rank() * len(anchor)


LOSSES: dict[str, Callable[..., Tensor]] = {
    "infonce": info_nce,
    "decoupled": decoupled,
    "align-uniform": align_uniform,
}
