"""A training step of the synthetic suite at the paper's batch, against the plain way: all differences in one tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ident.benchmark.latents import distributions
from ident.benchmark.latents.spaces import Box
from ident.benchmark.losses import contrastive as losses
from ident.benchmark.losses.similarities import Distance
from ident.benchmark.models import encoders
from ident.benchmark.sources.mixing import mixing
from ident.benchmark.training.train import keep_memory
from tests.speed import rounds
from tests.speed.rounds import Step

BATCH, DIM, SCALE = 6144, 10, 0.05
STEPS, ROUNDS = 4, 5
BARS = {1: 16.0, 2: 6.0, 3: 15.0}
GIGABYTES, EQUAL = 1.5, 1e-4
BOX = Box(DIM, 0, 1)


def plain_loss(anchor: Tensor, positive: Tensor, p: int) -> Tensor:
    """InfoNCE as its formula stands, with a tensor (batch, batch, latents)."""
    own = -(anchor - positive).abs().pow(p).sum(-1)
    others = -(anchor[:, None] - anchor[None]).abs().pow(p).sum(-1)
    others = others.masked_fill(torch.eye(len(anchor), dtype=torch.bool), -torch.inf)
    return (torch.logsumexp(torch.cat([own[:, None], others], 1), 1) - own).mean()


def our_loss(anchor: Tensor, positive: Tensor, p: int) -> Tensor:
    """The same in blocks."""
    return losses.info_nce(anchor, positive, similarity=Distance(p))


def noise(shape: torch.Size, p: int, generator: torch.Generator) -> Tensor:
    """Noise with the density exp(-(|x| / scale)^p)."""
    size = torch._standard_gamma(torch.full(shape, 1 / p), generator=generator) ** (1 / p)
    return SCALE * size * torch.where(torch.rand(shape, generator=generator) < 0.5, -1, 1)


def rejected(z: Tensor, p: int, generator: torch.Generator) -> Tensor:
    """Positives by rejection: drawn again until they lie in the box."""
    drawn = z + noise(z.shape, p, generator)
    while (left := ~BOX.contains(drawn)).any():
        drawn[left] = z[left] + noise(z[left].shape, p, generator)
    return drawn


def trained() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
    """Mixing, encoder and optimizer of `normal-box-normal` of Table 2."""
    torch.manual_seed(0)
    encoder = encoders.encoder(DIM, "box")
    return mixing(DIM, seed=0, pool=100), encoder, torch.optim.Adam(encoder.parameters(), lr=1e-4)


def plain(p: int) -> Step:
    """A step of the plain way."""
    mixed, encoder, optimizer = trained()
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        z = BOX.uniform(BATCH, generator=generator)
        positive = rejected(z, p, generator)
        optimizer.zero_grad()
        plain_loss(encoder(mixed(z)), encoder(mixed(positive)), p).backward()
        optimizer.step()

    return step


def ours(p: int) -> Step:
    """A step as `ident bench` takes it: exact draws, products in bfloat16, the loss block by block."""
    keep_memory()
    mixed, encoder, optimizer = trained()
    conditional, generator = distributions.gennorm(p, SCALE), torch.Generator().manual_seed(0)

    def step() -> None:
        z = BOX.uniform(BATCH, generator=generator)
        both = torch.cat([z, conditional.draw(BOX, z, generator=generator)])
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            found = encoder(mixed(both))
        our_loss(found[:BATCH], found[BATCH:], p).backward()
        optimizer.step()

    return step


def difference(p: int, batch: int = 2048) -> float:
    """How far the gradients of the encoder are apart, in float32: the largest difference over the largest slope."""
    mixed, encoder, _ = trained()
    generator = torch.Generator().manual_seed(1)
    z = BOX.uniform(batch, generator=generator)
    positive = rejected(z, p, generator)
    found = []
    for loss in (plain_loss, our_loss):
        encoder.zero_grad()
        loss(encoder(mixed(z)), encoder(mixed(positive)), p).backward()
        slopes = [parameter.grad.ravel() for parameter in encoder.parameters() if parameter.grad is not None]
        found.append(torch.cat(slopes))
    return float((found[0] - found[1]).abs().max() / found[0].abs().max())


def measure() -> Iterator[dict[str, Any]]:
    """A ratio of medians for each p."""
    for p, bar in BARS.items():
        cost = rounds.measure({"plain": rounds.Way(plain, (p,), 1), "ours": rounds.Way(ours, (p,), STEPS)}, ROUNDS)
        yield {
            "name": f"losses.p{p}",
            "ratio": round(cost["plain"].seconds / cost["ours"].seconds, 1),
            "bar": bar,
            "quality": difference(p),
            "unit": f"times the plain step at batch {BATCH}",
            "note": f"{cost['ours'].seconds:.2f} s against {cost['plain'].seconds:.2f} s, medians of {ROUNDS}; "
            f"peak {cost['ours'].gigabytes:.2f} GB (bar {GIGABYTES}) against {cost['plain'].gigabytes:.2f} GB; "
            f"quality: gradients apart by (bar {EQUAL})",
        }
