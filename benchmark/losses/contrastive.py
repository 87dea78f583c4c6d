"""Contrastive losses as pure functions, and thin modules over them.

All compare an anchor with its positive and with negatives by a similarity, which may be named as the tables write a
model's conditional: `normal`, `laplace`, `vmf`, `gennorm(3)`. Where no negatives are given the other anchors are taken,
which are draws of the marginal. No function holds (batch, batch, latent), nor (batch, batch): see `log_partition`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ident.benchmark.latents import notation
from ident.benchmark.losses import fused, similarities
from ident.benchmark.losses.similarities import Distance, Similarity
from ident.render.errors import Impossible

BLOCK = 2**18
"""Elements of a block of (anchors, points), so that several stay in a core's cache."""
BLOCK_ON_GPU = 2**26
"""The same where memory is what limits it, and each block costs a hundred launches."""

COLDEST = 1e-6
"""The lowest temperature: by less, similarities are infinite in float32."""

Names = tuple[Tensor, Tensor] | int
"""Integers for anchors (batch,) and for negatives (n,): an anchor is not compared with what has its name.

A number k says that anchor i is negative k + i.
"""


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
        if p := fused.power(similarity, anchor, points, more):
            logs, *gradients = fused.log_partition(anchor, points, more, names, p, temperature)
            ctx.save_for_backward(*gradients)
            return logs.mean()
        wanted = any(ctx.needs_input_grad)
        total = anchor.new_zeros(())
        grad_anchor, grad_points, grad_more = map(torch.zeros_like, (anchor, points, more))
        rows = max(1, (BLOCK_ON_GPU if points.is_cuda else BLOCK) // max(1, len(points)))
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
        partition: Tensor = _LogPartition.apply(anchor, points, more, names, similarity, temperature)
    return partition


def info_nce(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    *,
    similarity: Similarity | str,
    temperature: float = 1.0,
    names: Names | None = None,
    hard: Tensor | None = None,
) -> Tensor:
    """InfoNCE (Zimmermann et al., 2021, eq. 1 and 6): how well positives (batch, d) are told from negatives.

    Negatives (n, d) serve all anchors (batch, d), `hard` ones (batch, m, d) their own anchor alone.
    """
    similarity = similarities.named(similarity)
    own = alignment(anchor, positive, similarity, temperature)
    own_and_hard = own
    if hard is not None:
        check_floats(hard=hard)
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
    similarity: Similarity | str,
    temperature: float = 1.0,
    names: Names | None = None,
) -> Tensor:
    """InfoNCE without the positive in the denominator: the decoupled loss of Yeh et al. (2022)."""
    own = alignment(anchor, positive, similarity, temperature)
    return uniformity(anchor, negatives, similarity, temperature, names) - own.mean()


def align_uniform(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    *,
    similarity: Similarity | str,
    temperature: float = 1.0,
    names: Names | None = None,
    alpha: float = 0.5,
) -> Tensor:
    """L_AU: alpha times uniformity, and alignment by the rest (Zimmermann et al., 2020, eq. 70 to 72).

    With alpha 0.5 it is half of InfoNCE with very many negatives (proposition A).
    """
    check_alpha(alpha)
    own = alignment(anchor, positive, similarity, temperature)
    spread = uniformity(anchor, negatives, similarity, temperature, names)
    count = spread.new_tensor(len(anchor if negatives is None else negatives))
    if isinstance(names, tuple):
        known, times = names[1].unique(return_counts=True)
        at = torch.searchsorted(known, names[0]).clamp_max(len(known) - 1)
        count = count - torch.where(known[at] == names[0], times[at], 0)
    elif negatives is None or names is not None:
        count = count - 1
    return alpha * (spread - count.log().mean()) - (1 - alpha) * own.mean()


def check_alpha(alpha: float) -> None:
    """Refuse what is no share."""
    if not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
        raise Impossible(f"alpha {alpha!r} of the uniformity: give a number from 0 to 1")


def check_dim(dim: object) -> None:
    """Refuse what is no number of latents."""
    if type(dim) is not int or dim < 1:
        raise Impossible(f"dim {dim!r}: give the number of latents, a whole number from 1 on")


def info_nce_among(
    points: Tensor, pairs: Tensor, *, similarity: Similarity | str, temperature: float = 1.0, itself: bool = False
) -> Tensor:
    """InfoNCE where one point (n, d) has many positives: pairs (m, 2) say of whom; all others are its negatives.

    With `itself` each point is one of its own negatives, too.
    """
    spread, near = parts_among(points, pairs, similarity, temperature, itself)
    return spread - near


def align_uniform_among(
    points: Tensor,
    pairs: Tensor,
    *,
    similarity: Similarity | str,
    temperature: float = 1.0,
    itself: bool = False,
    alpha: float = 0.5,
) -> Tensor:
    """`align_uniform` where one point has many positives, see `info_nce_among`."""
    spread, near = parts_among(points, pairs, similarity, temperature, itself)
    return alpha * (spread - math.log(len(points) - (not itself))) - (1 - alpha) * near


def parts_among(
    points: Tensor, pairs: Tensor, similarity: Similarity | str, temperature: float, itself: bool
) -> tuple[Tensor, Tensor]:
    """Uniformity of points (n, d), and the mean alignment of pairs (m, 2) of them, which is 0 of no pair."""
    check_floats(points=points)
    own = alignment(points[pairs[:, 0]], points[pairs[:, 1]], similarity, temperature)
    spread = uniformity(points, points if itself else None, similarity, temperature)
    return spread, own.sum() / max(1, len(own))


def alignment(anchor: Tensor, positive: Tensor, similarity: Similarity | str, temperature: float) -> Tensor:
    """How alike anchors (batch, d) and their positives (batch, d) are, over the temperature."""
    check_floats(anchor=anchor, positive=positive)
    check_temperature(temperature)
    if anchor.shape != positive.shape or anchor.ndim != 2:
        raise Impossible(
            f"anchors {tuple(anchor.shape)} and positives {tuple(positive.shape)}: give both as (batch, latents)"
        )
    return similarities.named(similarity).rows(full(anchor), full(positive)) / temperature


def uniformity(
    anchor: Tensor,
    negatives: Tensor | None,
    similarity: Similarity | str,
    temperature: float,
    names: Names | None = None,
    more: Tensor | None = None,
) -> Tensor:
    """The mean of the logarithm of all that a positive is told from, see `log_partition`."""
    check_floats(anchor=anchor, negatives=negatives)
    if negatives is None:
        if len(anchor) < 2:
            raise Impossible("a batch of 1 has no negatives: give 2 or more anchors, or negatives")
        negatives, names = anchor, 0
    if negatives.ndim != 2 or not (len(negatives) or more is not None) or negatives.shape[1] != anchor.shape[1]:
        raise Impossible(f"negatives {tuple(negatives.shape)} of anchors {tuple(anchor.shape)}: give (n, latents)")
    if isinstance(names, int) and not 0 <= names <= len(negatives) - len(anchor):
        raise Impossible(f"names {names}: {len(anchor)} anchors from there on are not among {len(negatives)} negatives")
    return log_partition(full(anchor), full(negatives), more, names, similarities.named(similarity), temperature)


def check_temperature(temperature: object) -> None:
    """Refuse what similarities cannot be divided by."""
    if not isinstance(temperature, int | float) or not COLDEST <= temperature < math.inf:
        said = f"{temperature:g}" if isinstance(temperature, float | int) else repr(temperature)
        raise Impossible(f"temperature {said}: give a number from {COLDEST:g} on")


def check_floats(**points: Tensor | None) -> None:
    """Refuse, by its name, what is no tensor of floating-point numbers."""
    for name, x in points.items():
        if x is None or (isinstance(x, Tensor) and x.is_floating_point()):
            continue
        kind, dtype = type(x).__name__, getattr(x, "dtype", None)
        of = f"{kind} of {dtype}" if dtype is not None else kind
        raise Impossible(f"{name}: is a {of}; give a float tensor, like torch.as_tensor(x, dtype=torch.float32)")


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
        self, similarity: Similarity | str, temperature: float = 1.0, function: Callable[..., Tensor] = info_nce
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        self.similarity, self.temperature, self.function = similarities.named(similarity), temperature, function

    def forward(self, anchor: Tensor, positive: Tensor, negatives: Tensor | None = None, **more: Any) -> Tensor:
        """The loss."""
        return self.function(
            anchor, positive, negatives, similarity=self.similarity, temperature=self.temperature, **more
        )

    def among(self, points: Tensor, pairs: Tensor, *, itself: bool = False) -> Tensor:
        """The loss of points (n, d) that have several positives."""
        function: Any = self.function
        named: dict[str, Any] = {}
        if isinstance(function, partial):
            function, named = function.func, function.keywords
        shared = {"similarity": self.similarity, "temperature": self.temperature, "itself": itself}
        loss: Tensor = AMONG[function](points, pairs, **shared, **named)
        return loss

    def critic(self, a: Tensor, b: Tensor) -> Tensor:
        """The similarities (m, n) over the temperature of all points (m, d) with all points (n, d)."""
        return self.similarity.all(a, b) / self.temperature


class AnInfoNCE(nn.Module):
    """InfoNCE by a distance that weighs each latent by its precision, which is learned (Rusak et al., 2024, eq. 3).

    A convention says what a precision is: the similarity is -D' Lambda D (`paper`) or half of it (`code`). Precisions
    begin alike; with `softplus` they are that of numbers that begin as draws of 0.1 N(0, 1), as in the authors' code.
    """

    times_the_rate = 10.0
    """How much larger the learning rate of the precisions is than that of an encoder, as in the authors' runs."""

    def __init__(self, dim: int, precision: float = 1.0, *, convention: str = "paper", softplus: bool = False) -> None:
        super().__init__()
        check_dim(dim)
        if not 0 < precision < math.inf:
            raise Impossible(f"precision {precision:g}: give a number above 0")
        self.dim, self.factor, self.softplus = dim, notation.factor(convention), bool(softplus)
        if self.softplus:
            self.raw_precisions = nn.Parameter(0.1 * torch.randn(dim))
        else:
            self.log_precisions = nn.Parameter(torch.full((dim,), math.log(precision)))

    @property
    def precisions(self) -> Tensor:
        """The diagonal (dim,) of Lambda."""
        return nn.functional.softplus(self.raw_precisions) if self.softplus else self.log_precisions.exp()

    @property
    def scale(self) -> Tensor:
        """What latents (dim,) are multiplied by, so that minus their squared distance is the similarity."""
        root = self.precisions.sqrt() if self.softplus else (self.log_precisions / 2).exp()
        scale: Tensor = math.sqrt(self.factor) * root
        return scale

    def critic(self, a: Tensor, b: Tensor) -> Tensor:
        """The similarities (m, n) of all points (m, dim) with all points (n, dim)."""
        return Distance(2.0).all(self.scale * a, self.scale * b)

    def forward(self, anchor: Tensor, positive: Tensor, negatives: Tensor | None = None, **more: Any) -> Tensor:
        """The loss."""
        self._check(anchor=anchor, positive=positive, negatives=negatives, hard=more.get("hard"))
        scale = self.scale
        others = {name: scale * value if name == "hard" else value for name, value in more.items()}
        scaled = None if negatives is None else scale * negatives
        return info_nce(scale * anchor, scale * positive, scaled, similarity=Distance(2.0), **others)

    def among(self, points: Tensor, pairs: Tensor, *, itself: bool = False) -> Tensor:
        """The loss of points (n, d) that have several positives."""
        self._check(points=points)
        return info_nce_among(self.scale * points, pairs, similarity=Distance(2.0), itself=itself)

    def _check(self, **points: Tensor | None) -> None:
        """Refuse points that Lambda does not weigh, of which some would be broadcast in silence."""
        check_floats(**points)
        for name, x in points.items():
            if x is not None and x.shape[-1:] != (self.dim,):
                raise Impossible(
                    f"{name} {tuple(x.shape)}: Lambda has {self.dim} precisions; give points of {self.dim} latents"
                )


LOSSES: dict[str, Callable[..., Tensor]] = {
    "infonce": info_nce,
    "decoupled": decoupled,
    "align-uniform": align_uniform,
}
