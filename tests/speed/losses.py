"""A training step of the synthetic suite at the paper's batch, against the plain way: all differences in one tensor.

`python -m tests.speed.losses ours 2` takes some steps one way at p = 2, and prints seconds a step and peak memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ident.benchmark import distributions, encoders, losses
from ident.benchmark.mixing import mixing
from ident.benchmark.similarities import Distance
from ident.benchmark.spaces import Box

BATCH, DIM, SCALE = 6144, 10, 0.05
STEPS = {"plain": 3, "ours": 10}
BARS = {1: 12.0, 2: 6.0, 3: 12.0}
GIGABYTES, EQUAL = 1.5, 1e-4
BOX = Box(DIM, 0, 1)

Step = Callable[[torch.Generator], None]


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
    """Mixing, encoder and optimizer of row 3 of Table 2."""
    torch.manual_seed(0)
    encoder = encoders.encoder(DIM, "box")
    return mixing(DIM, seed=0, pool=100), encoder, torch.optim.Adam(encoder.parameters(), lr=1e-4)


def plain(p: int) -> Step:
    """The plain way."""
    mixed, encoder, optimizer = trained()

    def step(generator: torch.Generator) -> None:
        z = BOX.uniform(BATCH, generator=generator)
        positive = rejected(z, p, generator)
        optimizer.zero_grad()
        plain_loss(encoder(mixed(z)), encoder(mixed(positive)), p).backward()
        optimizer.step()

    return step


def ours(p: int) -> Step:
    """Exact draws, products in bfloat16, the loss in blocks."""
    mixed, encoder, optimizer = trained()
    conditional = distributions.gennorm(p, SCALE)

    def step(generator: torch.Generator) -> None:
        z = BOX.uniform(BATCH, generator=generator)
        both = torch.cat([z, conditional.draw(BOX, z, generator=generator)])
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            found = encoder(mixed(both))
        our_loss(found[:BATCH], found[BATCH:], p).backward()
        optimizer.step()

    return step


def take(way: str, p: int) -> dict[str, float]:
    """Seconds a step and the peak of memory in gigabytes, in this process."""
    step, generator = {"plain": plain, "ours": ours}[way](p), torch.Generator().manual_seed(0)
    step(generator)
    taken = []
    for _ in range(STEPS[way]):
        start = time.perf_counter()
        step(generator)
        taken.append(time.perf_counter() - start)
    status = Path("/proc/self/status").read_text()  # getrusage has the parent's peak, too
    peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    return {"seconds": sorted(taken)[len(taken) // 2], "gigabytes": peak * 1024 / 1e9}


def apart(way: str, p: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.speed.losses", way, str(p)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


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
    """A ratio for each p."""
    for p, bar in BARS.items():
        slow, fast = apart("plain", p), apart("ours", p)
        apart_by = difference(p)
        yield {
            "name": f"losses.p{p}",
            "ratio": round(slow["seconds"] / fast["seconds"], 1),
            "bar": bar,
            "quality": apart_by,
            "unit": f"times the plain step at batch {BATCH}",
            "note": f"{fast['seconds']:.2f} s against {slow['seconds']:.2f} s; peak {fast['gigabytes']:.2f} GB "
            f"(bar {GIGABYTES}) against {slow['gigabytes']:.2f} GB; quality: gradients apart by (bar {EQUAL})",
        }


if __name__ == "__main__":
    print(json.dumps(take(sys.argv[1], int(sys.argv[2]))))
