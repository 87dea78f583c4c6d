"""Losses against written-out double loops, closed forms, numerical integration and finite differences."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import NTXentLoss
from scipy import integrate, special
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.multiprocessing.spawn import spawn

from ident.benchmark.latents import distributions
from ident.benchmark.latents.spaces import Box, Sphere
from ident.benchmark.losses import contrastive as losses
from ident.benchmark.losses import fused, similarities
from ident.benchmark.losses.adapters import ForCEBRA, ForMetricLearning
from ident.benchmark.losses.contrastive import AnInfoNCE, InfoNCE
from ident.benchmark.losses.similarities import Distance, Dot, Similarity
from ident.benchmark.objectives import contrastive as objectives
from ident.benchmark.pairs.batch import Batch, PairsAmong, PositivePairs
from ident.benchmark.training import distributed
from ident.render.errors import Impossible

SIMILARITIES: list[Similarity] = [
    Dot(),
    Distance(1.0),
    Distance(2.0),
    Distance(3.0),
    Distance(1.7),
    Distance(2.0, power=False),
    Distance(3.0, power=False),
]


def points(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def alike(similarity: Similarity, a: Tensor, b: Tensor) -> float:
    if isinstance(similarity, Dot):
        return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    assert isinstance(similarity, Distance)
    power = sum(abs(float(x) - float(y)) ** similarity.p for x, y in zip(a, b, strict=True))
    return -power if similarity.power else -math.pow(power, 1 / similarity.p)


def by_hand(
    anchor: Tensor, positive: Tensor, negatives: Tensor | None, similarity: Similarity, temperature: float, kind: str
) -> float:
    """The definition, one pair after the other."""
    total = 0.0
    for i in range(len(anchor)):
        own = alike(similarity, anchor[i], positive[i]) / temperature
        others = range(len(anchor)) if negatives is None else range(len(negatives))
        pool = anchor if negatives is None else negatives
        logits = [
            alike(similarity, anchor[i], pool[j]) / temperature for j in others if negatives is not None or j != i
        ]
        with_own = [own, *logits] if kind == "infonce" else logits
        highest = max(with_own)
        spread = highest + math.log(sum(math.exp(logit - highest) for logit in with_own))
        if kind == "align-uniform":
            total += 0.3 * -own + 0.7 * (spread - math.log(len(logits)))
        else:
            total += spread - own
    return total / len(anchor)


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", list(losses.LOSSES))
@pytest.mark.parametrize("temperature", [0.05, 1.0, 10.0])
def test_a_loss_is_its_double_loop(similarity: Similarity, kind: str, temperature: float) -> None:
    anchor, positive, others = points(7, 3), points(7, 3, seed=1), points(5, 3, seed=2)
    more = {"alpha": 0.7} if kind == "align-uniform" else {}
    for negatives in (None, others):
        found = losses.LOSSES[kind](anchor, positive, negatives, similarity=similarity, temperature=temperature, **more)
        expected = by_hand(anchor, positive, negatives, similarity, temperature, kind)
        assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("kind", list(losses.LOSSES))
def test_gradients(similarity: Similarity, kind: str) -> None:
    def loss(anchor: Tensor, positive: Tensor, negatives: Tensor | None) -> Tensor:
        return losses.LOSSES[kind](anchor, positive, negatives, similarity=similarity, temperature=0.7)

    tensors = [points(6, 3, seed=seed).requires_grad_() for seed in range(3)]
    assert gradcheck(loss, tuple(tensors))
    assert gradcheck(lambda anchor, positive: loss(anchor, positive, None), tuple(tensors[:2]))


FUSED = [Distance(1.0), Distance(2.0), Distance(3.0), Distance(6.0), Distance(1.0, power=False)]
FIVE, NINE = torch.tensor([0, 1, 1, 7, 2]), torch.tensor([1, 0, 3, 1, 2, 2, 4, 5, 6])


@pytest.mark.parametrize("similarity", FUSED, ids=str)
@pytest.mark.parametrize("names", [None, 0, 4, (FIVE, NINE)], ids=["none", "0", "4", "tensors"])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("block", [1, 20, 2**16])
def test_fused_kernels_and_blocks_of_tensors_agree(
    similarity: Similarity, names: losses.Names | None, own: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchor, others, more = (points(*shape, seed=i).requires_grad_() for i, shape in enumerate([(5, 3), (9, 3), (5,)]))
    assert fused.power(similarity, anchor)
    monkeypatch.setattr(fused, "BLOCK", block)
    both = []
    for power in (fused.power, lambda *_: None):
        monkeypatch.setattr(fused, "power", power)
        loss = losses.log_partition(anchor, others, more if own else None, names, similarity, 0.3)
        both.append((loss, *torch.autograd.grad(loss, (anchor, others, *([more] if own else [])))))
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("similarity", FUSED, ids=str)
def test_gradients_of_blocks_of_tensors(similarity: Similarity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "power", lambda *_: None)
    anchor, others = points(6, 3).requires_grad_(), points(4, 3, seed=1).requires_grad_()
    assert gradcheck(lambda a, b: losses.log_partition(a, b, None, None, similarity, 0.7), (anchor, others))


def test_who_has_no_fused_kernel() -> None:
    for similarity in (Dot(), Distance(1.7), Distance(9.0), Distance(2.0, power=False)):
        assert fused.power(similarity, points(2, 2)) is None
    assert fused.power(Distance(2.0), points(2, 2), torch.empty(2, 2, device="meta")) is None


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_a_fused_loss_has_the_same_bytes_on_any_number_of_threads(p: float) -> None:
    anchor, threads = points(200, 4, dtype=torch.float32).requires_grad_(), torch.get_num_threads()
    found = []
    try:
        for number in (1, 2, 3, 2, 1):
            torch.set_num_threads(number)
            loss = losses.log_partition(anchor, anchor, None, 0, Distance(p), 1.0)
            found.append((loss.item(), torch.autograd.grad(loss, anchor)[0].numpy().tobytes()))
    finally:
        torch.set_num_threads(threads)
    assert len(set(found)) == 1


def test_what_is_not_finite_is_seen_in_the_loss_and_nowhere_else() -> None:
    broken = points(5, 3)
    broken[2, 1] = math.nan
    assert losses.decoupled(broken, points(5, 3), similarity=Distance(3.0)).isnan()
    names = torch.zeros(5, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    assert losses.log_partition(points(5, 3), points(4, 3), None, names, Distance(3.0), 1.0) < -1e300
    logs, *_ = fused.log_partition(points(2, 3), points(0, 3), torch.tensor([1.0, 2.0]), None, 3, 1.0)
    assert logs.tolist() == [1, 2]


def test_gradients_of_hard_negatives_and_precisions() -> None:
    anchor, positive = points(5, 3).requires_grad_(), points(5, 3, seed=1).requires_grad_()
    hard = points(5, 4, 3, seed=2).requires_grad_()
    assert gradcheck(lambda *x: losses.info_nce(*x[:2], similarity=Distance(2.0), hard=x[2]), (anchor, positive, hard))
    loss = AnInfoNCE(3).double()
    loss.log_precisions.data = points(3, seed=5)

    def by_precisions(log_precisions: Tensor, *x: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(loss, {"log_precisions": log_precisions}, x[:2], {"hard": x[2]})
        return found

    assert gradcheck(by_precisions, (loss.log_precisions, anchor, positive, hard))


def test_hard_negatives_are_more_logits_of_their_own_anchor() -> None:
    anchor, positive, hard = points(4, 3), points(4, 3, seed=1), points(4, 2, 3, seed=2)
    found = losses.info_nce(anchor, positive, similarity=Dot(), hard=hard)
    each = []
    for i in range(4):
        others = torch.cat([anchor[torch.arange(4) != i], hard[i]])
        each.append(losses.info_nce(anchor[i : i + 1], positive[i : i + 1], others, similarity=Dot()))
    assert torch.allclose(found, torch.stack(each).mean())
    alone = losses.info_nce(anchor, positive, anchor[:0], similarity=Dot(), hard=hard)
    logits = torch.cat([(anchor * positive).sum(1)[:, None], torch.einsum("id,ikd->ik", anchor, hard)], 1)
    assert torch.allclose(alone, nn.functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long)))


def test_aninfonce_weighs_each_latent() -> None:
    anchor, positive = points(6, 3), points(6, 3, seed=1)
    loss = AnInfoNCE(3).double()
    loss.log_precisions.data = torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64).log()
    difference = anchor[:, None] - anchor
    logits = -(difference**2 * loss.precisions).sum(-1).fill_diagonal_(math.inf)
    own = -((anchor - positive) ** 2 * loss.precisions).sum(-1)
    expected = (torch.logsumexp(torch.cat([own[:, None], logits], 1), 1) - own).mean()
    assert torch.allclose(loss(anchor, positive), expected)


@pytest.mark.parametrize(("convention", "factor"), [("paper", 1.0), ("code", 0.5)])
@pytest.mark.parametrize("softplus", [False, True])
def test_a_convention_says_what_a_precision_is(convention: str, factor: float, softplus: bool) -> None:
    anchor, positive, loss = points(5, 3), points(5, 3, seed=1), AnInfoNCE(3, convention=convention, softplus=softplus)
    loss = loss.double()
    precisions = loss.precisions.tolist()
    total = 0.0
    for i in range(5):
        logits = [
            -factor * sum(p * (float(a) - float(b)) ** 2 for p, a, b in zip(precisions, anchor[i], other, strict=True))
            for other in (positive[i], *(anchor[j] for j in range(5) if j != i))
        ]
        total -= math.log(math.exp(logits[0]) / sum(map(math.exp, logits))) / 5
    assert loss(anchor, positive).item() == pytest.approx(total)
    scale = torch.tensor(precisions, dtype=torch.float64).sqrt()
    away = torch.cdist(scale * anchor, scale * positive) ** 2
    torch.testing.assert_close(loss.critic(anchor, positive).detach(), -factor * away)


def test_softplus_precisions_begin_as_small_draws() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        raw = losses.AnInfoNCE(4000, softplus=True).raw_precisions.detach()
    assert abs(float(raw.mean())) < 0.01
    assert float(raw.std()) == pytest.approx(0.1, rel=0.05)
    assert [name for name, _ in losses.AnInfoNCE(3).named_parameters()] == ["log_precisions"]
    with pytest.raises(Impossible, match="convention 'cod': choose from paper, code; did you mean code"):
        losses.AnInfoNCE(3, convention="cod")


def test_closed_forms() -> None:
    same = torch.ones(8, 3)
    for similarity in SIMILARITIES:  # all alike: nothing is told from anything
        assert float(losses.info_nce(same, same, similarity=similarity)) == pytest.approx(math.log(8), rel=1e-5)
        assert float(losses.decoupled(same, same, similarity=similarity)) == pytest.approx(math.log(7), rel=1e-5)
        assert float(losses.align_uniform(same, same, similarity=Distance(2.0))) == pytest.approx(0, abs=1e-6)
    basis = torch.eye(6)  # orthogonal anchors, each its own positive
    expected = math.log(1 + 5 * math.exp(-1 / 0.2))
    assert float(losses.info_nce(basis, basis, similarity=Dot(), temperature=0.2)) == pytest.approx(expected, rel=1e-5)
    expected = math.log(5) - 2 / 0.2
    found = losses.decoupled(basis, basis, similarity=Distance(2.0), temperature=0.2)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_pairs_among_points_are_anchors_with_many_positives() -> None:
    z = points(6, 3)
    pairs = torch.tensor([[0, 1], [2, 1], [2, 5]])
    found = losses.info_nce_among(z, pairs, similarity=Dot(), temperature=0.5)
    own = (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1) / 0.5
    logits = (z @ z.T / 0.5).fill_diagonal_(-math.inf)
    assert torch.allclose(found, torch.logsumexp(logits, 1).mean() - own.mean())


def test_the_limit_of_many_negatives_is_the_cross_entropy_of_theorem_1() -> None:
    """On the circle: loss - log M + log |Z| is E H(p(.|z), q(.|z)), here by integration."""
    kappa, temperature, radius, count = 3.0, 0.5, 1.3, 40_000
    strength = radius**2 / temperature  # of q = exp(<h(z'), h(z)> / temperature), where h turns and stretches

    def integrand(angle: float) -> float:
        p = math.exp(kappa * math.cos(angle)) / (2 * math.pi * float(special.i0(kappa)))
        log_q = strength * math.cos(angle) - math.log(2 * math.pi * float(special.i0(strength)))
        return -p * log_q

    expected, _ = integrate.quad(integrand, -math.pi, math.pi)
    generator = torch.Generator().manual_seed(0)
    circle = Sphere(2)
    z = circle.uniform(count, generator=generator)
    positive = distributions.vmf(kappa).draw(circle, z, generator=generator)
    angle = torch.tensor(0.7)
    turn = radius * torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]])
    found = losses.info_nce(z @ turn, positive @ turn, similarity=Dot(), temperature=temperature)
    limit = float(found) - math.log(count - 1) + math.log(2 * math.pi)
    assert limit == pytest.approx(expected, abs=0.02)
    few = losses.info_nce(z[:50] @ turn, positive[:50] @ turn, similarity=Dot(), temperature=temperature)
    assert abs(float(few) - math.log(49) + math.log(2 * math.pi) - expected) > 0.01
    weighted = losses.align_uniform(z @ turn, positive @ turn, similarity=Dot(), temperature=temperature)
    assert 2 * float(weighted) == pytest.approx(float(found) - math.log(count - 1), abs=1e-3)  # proposition A


@pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 10.0])
def test_sound_in_bfloat16(similarity: Similarity, temperature: float) -> None:
    anchor, positive = (points(300, 8, seed=seed).bfloat16().requires_grad_() for seed in range(2))
    found = losses.info_nce(anchor, positive, similarity=similarity, temperature=temperature)
    found.backward()
    exact = [x.detach().double().requires_grad_() for x in (anchor, positive)]
    expected = losses.info_nce(*exact, similarity=similarity, temperature=temperature)
    expected.backward()
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    for ours, true in zip((anchor, positive), exact, strict=True):
        assert ours.grad is not None
        assert true.grad is not None
        assert torch.allclose(ours.grad.double(), true.grad, rtol=2e-2, atol=1e-2 * float(true.grad.abs().max()))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.integers(1, 5), st.floats(0.01, 10), st.sampled_from(SIMILARITIES), st.floats(0, 60))
def test_never_anything_but_finite(n: int, d: int, temperature: float, similarity: Similarity, scale: float) -> None:
    anchor, positive = ((scale * points(n, d, seed=seed)).float().requires_grad_() for seed in range(2))
    for function in losses.LOSSES.values():
        found = function(anchor, positive, similarity=similarity, temperature=temperature)
        gradients = torch.autograd.grad(found, (anchor, positive))
        assert found.isfinite()
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_the_order_of_pairs_and_the_size_of_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    anchor, positive = points(50, 4), points(50, 4, seed=1)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    for similarity in SIMILARITIES:
        one = losses.info_nce(anchor, positive, similarity=similarity)
        assert torch.allclose(one, losses.info_nce(anchor[order], positive[order], similarity=similarity))
        monkeypatch.setattr(losses, "BLOCK", 70)
        monkeypatch.setattr(fused, "BLOCK", 70)
        monkeypatch.setattr(fused, "PARTS", 3)
        assert torch.allclose(one, losses.info_nce(anchor, positive, similarity=similarity))
        monkeypatch.undo()


PAIR = points(4, 2)


COSINE: Any = nn.CosineSimilarity()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: losses.info_nce(points(4, 2), points(4, 2), similarity=Dot(), temperature=-1), "temperature -1"),
        (lambda: losses.decoupled(points(4, 2), points(4, 2), similarity=Dot(), temperature=math.nan), "ature nan"),
        (lambda: losses.info_nce(points(1, 2), points(1, 2), similarity=Dot()), "batch of 1"),
        (lambda: losses.info_nce(points(4, 2), points(3, 2), similarity=Dot()), r"\(4, 2\) and positives \(3, 2\)"),
        (lambda: losses.align_uniform(points(4, 2), points(4, 2), similarity=Dot(), alpha=1.5), "alpha 1.5"),
        (lambda: Distance(0.5), "p is 0.5"),
        (lambda: similarities.parse("gauss"), "'gauss'"),
        (lambda: similarities.parse("vmf * normal"), "give one"),
        (lambda: losses.info_nce(PAIR, PAIR, points(3, 5), similarity=Dot()), r"negatives \(3, 5\)"),
        (lambda: losses.decoupled(PAIR, PAIR, points(0, 2), similarity=Dot()), r"negatives \(0, 2\)"),
        (lambda: losses.align_uniform(PAIR, PAIR, points(0, 2), similarity=Dot()), r"negatives \(0, 2\)"),
        (lambda: losses.info_nce(PAIR, PAIR, points(6, 2), similarity=Dot(), names=3), "names 3: 4 anchors"),
        (lambda: losses.info_nce(PAIR, PAIR, hard=points(4, 2), similarity=Dot()), r"hard negatives \(4, 2\)"),
        (lambda: losses.info_nce(PAIR, PAIR, hard=points(1, 3, 2), similarity=Dot()), r"\(1, 3, 2\) of 4"),
        (lambda: AnInfoNCE(3, -1.0), "precision -1"),
        (lambda: AnInfoNCE(2.5), r"dim 2.5: give the number of latents"),  # type: ignore[arg-type]
        (lambda: AnInfoNCE(3)(PAIR, PAIR), r"anchor \(4, 2\): Lambda has 3 precisions; give points of 3 latents"),
        (lambda: AnInfoNCE(1)(PAIR, PAIR), r"anchor \(4, 2\): Lambda has 1 precisions"),
        (lambda: AnInfoNCE(2)(PAIR, PAIR, points(4, 1)), r"negatives \(4, 1\): Lambda has 2"),
        (lambda: AnInfoNCE(2)(PAIR, PAIR, hard=points(4, 3, 1)), r"hard \(4, 3, 1\): Lambda has 2"),
        (lambda: AnInfoNCE(2).among(points(4, 1), torch.tensor([[0, 1]])), r"points \(4, 1\): Lambda has 2"),
        (lambda: losses.info_nce(PAIR.numpy(), PAIR, similarity=Dot()), "anchor: is a ndarray of float64; give a"),  # type: ignore[arg-type]
        (lambda: losses.info_nce(PAIR, PAIR.long(), similarity=Dot()), "positive: is a Tensor of torch.int64; give"),
        (lambda: losses.decoupled(PAIR, PAIR, [[0.5, 1]], similarity=Dot()), "negatives: is a list; give a float"),  # type: ignore[arg-type]
        (lambda: losses.info_nce(PAIR, PAIR, hard=PAIR.int(), similarity=Dot()), "hard: is a Tensor of torch.int32"),
        (lambda: AnInfoNCE(2)(PAIR, PAIR.numpy()), "positive: is a ndarray of float64"),
        (lambda: losses.info_nce(PAIR, PAIR, similarity="gauss"), "'gauss'; known are vmf, normal, laplace, gennorm"),
        (lambda: InfoNCE("gennorm"), r"missing a required argument: 'p'; write it like gennorm\(p\)"),
        (lambda: InfoNCE(COSINE), r"similarity CosineSimilarity\(\): give one of ident.benchmark.losses.sim"),
        (lambda: ForMetricLearning(InfoNCE(Dot()))(points(2, 2), torch.tensor([0, 0]), ref_emb=points(2, 2)), "both"),
        (lambda: ForMetricLearning(InfoNCE(Dot()))(points(2, 2), torch.tensor([0, 0]), indices_tuple=(1,)), "miners"),
    ],
)
def test_the_impossible_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(Impossible, match=says):
        call()


@pytest.mark.parametrize(
    ("name", "similarity"),
    [("vmf", Dot()), ("normal", Distance(2.0)), ("laplace", Distance(1.0)), ("gennorm(3)", Distance(3.0))],
)
def test_a_similarity_may_be_named_as_in_the_tables(name: str, similarity: Similarity) -> None:
    anchor, positive = points(6, 3), points(6, 3, seed=1)
    for function in losses.LOSSES.values():
        named = function(anchor, positive, similarity=name)
        assert torch.equal(named, function(anchor, positive, similarity=similarity))
        assert torch.equal(named, InfoNCE(name, function=function)(anchor, positive))
    assert ForCEBRA(name).similarity == similarity


def test_names_of_models() -> None:
    assert [similarities.parse(text) for text in ("vmf", "normal", "laplace", "gennorm(3)")] == [
        Dot(), Distance(2.0), Distance(1.0), Distance(3.0),
    ]  # fmt: skip


def test_as_pytorch_metric_learning_calls_it_and_with_its_values() -> None:
    embeddings = nn.functional.normalize(points(12, 3), dim=1)
    for labels in (torch.arange(6).repeat(2), torch.arange(12), torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 5])):
        ours, theirs = ForMetricLearning(InfoNCE(Dot(), 0.5)), NTXentLoss(0.5)
        assert torch.allclose(ours(embeddings, labels), theirs(embeddings, labels))
        if len(labels.unique()) == len(labels):
            continue
        others = {"ref_emb": nn.functional.normalize(points(12, 3, seed=1)), "ref_labels": labels.flip(0)}
        assert torch.allclose(ours(embeddings, labels, **others), theirs(embeddings, labels, **others))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_as_cebra_calls_it_and_with_its_values() -> None:
    from cebra.models.criterions import FixedCosineInfoNCE, FixedEuclideanInfoNCE

    ref, pos, neg = (nn.functional.normalize(points(6, 3, seed=seed), dim=1) for seed in range(3))
    for similarity, theirs in ((Dot(), FixedCosineInfoNCE(0.5)), (Distance(2.0), FixedEuclideanInfoNCE(0.5))):
        ours = ForCEBRA(similarity, 0.5)
        assert torch.allclose(torch.stack(ours(ref, pos, neg)), torch.stack(theirs(ref, pos, neg)))
        assert ours.temperature == theirs.temperature


def one_of_two(rank: int, folder: str) -> None:
    """A process that has half the batch, and writes the gradients that it finds."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    gradients_of_half(rank, folder)
    gc.collect()  # threads of gloo that outlive their work, or the process, abort it
    dist.barrier()
    dist.destroy_process_group()


def gradients_of_half(rank: int, folder: str) -> None:
    anchor, positive, model = whole_batch()
    wrapped = nn.parallel.DistributedDataParallel(model)
    half = slice(8 * rank, 8 * rank + 8)
    both = wrapped(torch.cat([anchor[half], positive[half]]))
    negatives = distributed.gather(both[:8])
    losses.info_nce(both[:8], both[8:], negatives, similarity=Distance(2.0), names=8 * rank).backward()
    other = torch.ones(2, 1, requires_grad=True)
    twice = other * 1
    gathered = distributed.gather(torch.ones(1, 1, requires_grad=True))
    ((gathered + twice) * (rank + 1)).sum().backward()
    assert other.grad is not None
    assert other.grad.tolist() == [[rank + 1.0]] * 2  # what is gathered takes nothing from what is not
    torch.save([parameter.grad for parameter in model.parameters()], f"{folder}/{rank}.pt")


def whole_batch() -> tuple[Tensor, Tensor, nn.Module]:
    model = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(points(*parameter.shape, seed=10 + number))
    return points(16, 3), points(16, 3, seed=1), model


def test_two_processes_that_gather_have_the_gradient_of_one(tmp_path: Path) -> None:
    spawn(one_of_two, (str(tmp_path),), nprocs=2)
    anchor, positive, model = whole_batch()
    both = model(torch.cat([anchor, positive]))
    losses.info_nce(both[:16], both[16:], similarity=Distance(2.0)).backward()
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        for parameter, gradient in zip(model.parameters(), found, strict=True):
            assert torch.allclose(parameter.grad, gradient, rtol=1e-10, atol=1e-12)  # type: ignore[arg-type]


def test_alignment_and_uniformity_do_not_change_with_how_an_anchor_is_left_out() -> None:
    anchor, positive = points(6, 3), points(6, 3, seed=1)
    names = torch.arange(6)
    plain = losses.align_uniform(anchor, positive, similarity=Dot())
    for those in (0, (names, names)):
        assert torch.allclose(losses.align_uniform(anchor, positive, anchor, similarity=Dot(), names=those), plain)


@pytest.mark.parametrize(("p", "scale"), [(3.0, 1e-3), (3.0, 30.0), (8.0, 1e-2), (8.0, 30.0), (30.0, 1.0)])
def test_gradients_of_distances_of_high_powers_are_finite(p: float, scale: float) -> None:
    anchor, positive = (scale * points(2, 8, 3, dtype=torch.float32)).unbind()
    anchor.requires_grad_()
    losses.info_nce(anchor, positive, similarity=Distance(p, power=False)).backward()
    assert anchor.grad is not None
    assert anchor.grad.isfinite().all()
    assert anchor.grad.abs().max() <= 2


@pytest.mark.parametrize("similarity", [Distance(1.0), Distance(2.0), Distance(3.0), Distance(2.0, power=False)])
def test_gradients_of_close_points_are_not_lost_to_rounding(similarity: Similarity) -> None:
    near = 0.5 + 5e-5 * torch.rand(2, 512, 4, generator=torch.Generator().manual_seed(0))
    found = []
    for pair in (near, near.double()):
        leaves = pair.clone().requires_grad_()
        losses.info_nce(leaves[0], leaves[1], similarity=similarity).backward()
        assert leaves.grad is not None
        found.append(leaves.grad)
    assert (found[0] - found[1]).abs().max() < 1e-4 * found[1].abs().max()


@pytest.mark.parametrize("function", [losses.info_nce, losses.decoupled, losses.align_uniform])
def test_with_many_positives_a_loss_is_that_of_each_pair_but_for_the_positive_among_the_others(
    function: Callable[..., Tensor],
) -> None:
    z, pairs = points(6, 3), torch.tensor([[0, 1], [4, 2], [4, 3], [5, 0]])
    found = InfoNCE(Distance(2.0), 0.7, function).among(z, pairs)
    away = -(torch.cdist(z, z) ** 2) / 0.7
    others = torch.exp(away).fill_diagonal_(0).sum(1)
    near = away[tuple(pairs.T)].mean()
    if function is losses.align_uniform:
        expected = 0.5 * (others / 5).log().mean() - 0.5 * near
    else:
        expected = others.log().mean() - near
    torch.testing.assert_close(found, expected)


def test_with_many_positives_a_point_may_be_among_its_own_negatives() -> None:
    z, pairs = points(6, 3), torch.tensor([[0, 1], [4, 2]])
    away = -(torch.cdist(z, z) ** 2)
    near, spread = away[tuple(pairs.T)].mean(), torch.logsumexp(away, 1).mean()
    torch.testing.assert_close(InfoNCE("normal").among(z, pairs, itself=True), spread - near)
    uneven = objectives.AU(0.7, 2.0, itself=True)
    batch = Batch(z, (PairsAmong(slice(None), pairs),))
    torch.testing.assert_close(uneven(lambda x: x, batch), 0.7 * (spread - math.log(6)) - 0.3 * near)


def test_negatives_may_be_compared_with_the_positive() -> None:
    z, pairs = points(8, 3), PositivePairs(slice(4), slice(4, 8))
    total = 0.0
    for i in range(4):
        logits = [-float(((z[4 + i] - other) ** 2).sum()) for other in (z[i], *(z[j] for j in range(4) if j != i))]
        total -= math.log(math.exp(logits[0]) / sum(map(math.exp, logits))) / 4
    objective = objectives.InfoNCE("normal", against="positive")
    assert objective(lambda x: x, Batch(z, (pairs,))).item() == pytest.approx(total)
    for wrong in (replace(pairs, both=True), PairsAmong(slice(None), torch.tensor([[0, 1]]))):
        with pytest.raises(Impossible, match="against=positive: takes anchors and a positive for each"):
            objective(lambda x: x, Batch(z, (wrong,)))
    with pytest.raises(Impossible, match="against 'negative': choose from anchor, positive"):
        objectives.InfoNCE("normal", against="negative")
    with pytest.raises(Impossible, match="itself: is of negatives that are compared with the anchor"):
        objectives.InfoNCE("normal", against="positive", itself=True)


def test_hard_negatives_may_be_all_that_there_are() -> None:
    z, hard = points(8, 3), slice(8, 20)
    observations = torch.cat([z, points(12, 3, seed=4)])
    objective = objectives.InfoNCE("normal")
    for only in (True, False):
        pairs = PositivePairs(slice(4), slice(4, 8), hard=hard, only_hard=only)
        total = 0.0
        for i in range(4):
            others = [*observations[8 + 3 * i : 11 + 3 * i], *([] if only else [z[j] for j in range(4) if j != i])]
            logits = [-float(((z[i] - other) ** 2).sum()) for other in (z[4 + i], *others)]
            total -= math.log(math.exp(logits[0]) / sum(map(math.exp, logits))) / 4
        assert objective(lambda x: x, Batch(observations, (pairs,))).item() == pytest.approx(total)


def test_aninfonce_compares_many_positives_by_its_precisions() -> None:
    loss, z, pairs = losses.AnInfoNCE(3), points(6, 3), torch.tensor([[0, 1], [4, 2]])
    with torch.no_grad():
        loss.log_precisions.copy_(torch.tensor([math.log(9), 0.0, math.log(4)]))
    expected = losses.info_nce_among(z * torch.tensor([3.0, 1.0, 2.0]), pairs, similarity=Distance(2.0))
    torch.testing.assert_close(loss.among(z, pairs), expected)


def test_no_pair_among_points_is_no_alignment() -> None:
    found = losses.info_nce_among(points(2, 3), torch.empty(0, 2, dtype=torch.int64), similarity=Dot())
    assert found.isfinite()


def test_pairs_by_rejection_follow_the_conditional() -> None:
    """The cosines of accepted pairs have the mean of a von Mises-Fisher distribution, as those of its sampler."""
    generator, sphere = torch.Generator().manual_seed(0), Sphere(10)
    z = sphere.uniform(3000, generator=generator)
    pairs = distributions.pairs_among(distributions.vmf(1.0), sphere, z, generator=generator)
    cosines = (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1).numpy()
    mean = special.ive(5, 1.0) / special.ive(4, 1.0)
    assert len(pairs) > 500_000
    assert not (pairs[:, 0] == pairs[:, 1]).any()
    assert cosines.mean() == pytest.approx(mean, abs=2e-3)
    drawn = distributions.vmf(1.0).draw(sphere, z, generator=generator)
    quantiles = np.linspace(0.05, 0.95, 10)
    of_sampler = np.quantile((z * drawn).sum(1).numpy(), quantiles)
    assert np.quantile(cosines, quantiles) == pytest.approx(of_sampler, abs=0.03)
    with pytest.raises(Impossible, match="normal"):
        distributions.pairs_among(distributions.normal(1.0), sphere, z, generator=generator)


@pytest.mark.parametrize("conditional", ["normal(0.4)", "laplace(0.3)", "gennorm(3, 0.5)"])
def test_pairs_by_rejection_follow_noise_in_a_box(conditional: str) -> None:
    """Around anchors in the middle and at the side, positives have the quantiles of the sampler's."""
    generator, box, noise = torch.Generator().manual_seed(0), Box(2), distributions.parse(conditional)
    z = box.uniform(4000, generator=generator)
    pairs = distributions.pairs_among(noise, box, z, generator=generator)
    quantiles = np.linspace(0.05, 0.95, 10)
    for low, high in ((-0.1, 0.1), (0.9, 1.0)):
        some = pairs[(z[pairs[:, 0], 0] >= low) & (z[pairs[:, 0], 0] <= high)]
        assert len(some) > 20_000
        drawn = noise.draw(box, z[some[:, 0]], generator=generator)
        found = np.quantile(z[some[:, 1]].numpy(), quantiles, axis=0)
        assert found == pytest.approx(np.quantile(drawn.numpy(), quantiles, axis=0), abs=0.05)
