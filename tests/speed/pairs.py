"""Positive pairs: searched with a recall that is measured, against exact search and against one pair at a time.

`python -m tests.speed.pairs` prints the table of indexes behind docs/pairs.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import faiss
import torch

from ident.benchmark.latents import distributions
from ident.benchmark.latents.spaces import Box
from ident.benchmark.pairs import neighbours
from ident.benchmark.pairs.neighbours import Neighbours
from ident.benchmark.pairs.samplers import BATCH, NearestSampler
from ident.render.aliases import Float32s
from ident.render.worlds.threedident import WORLD

IMAGES, SCALE, WANTED = 250_000, 0.05, 0.999
DRAWN = 40 * BATCH
ONE_BY_ONE = 2000
EXACT = 20_000
ROUNDS = 3


def sampler(raw: Float32s, kind: str) -> NearestSampler:
    """Draws pairs by an index that is not kept."""
    found = Neighbours(raw, neighbours.build(raw, kind))
    return NearestSampler(
        found, Box(raw.shape[1]), distributions.laplace(SCALE), seed=0, names=tuple(map(str, range(raw.shape[1])))
    )


def rate(work: Callable[[], object], count: int) -> float:
    """How many a second, the best of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return count / min(taken)


def draw(sampler: NearestSampler) -> None:
    """So many pairs in batches."""
    for batch in range(DRAWN // BATCH):
        sampler.draw(batch, BATCH)


def laplace(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Noise by its inverse cumulative distribution."""
    u = torch.rand(shape, generator=generator) - 0.5
    return -SCALE * u.sign() * torch.log1p(-2 * u.abs())


def one_by_one(raw: Float32s, count: int) -> float:
    """How many a second the plain way: each drawn again until it lies in the box, and two searches."""
    index: Any = faiss.index_factory(raw.shape[1], "IVF1024_HNSW32,Flat")
    index.train(raw)
    index.add(raw)
    index.nprobe = 10
    points, generator = torch.from_numpy(raw), torch.Generator().manual_seed(0)
    start = time.perf_counter()
    for _ in range(count):
        anchor = points[torch.randint(len(points), (1,), generator=generator)]
        index.search(anchor.numpy(), 1)
        wished = anchor + laplace(anchor.shape, generator)
        while (outside := wished.abs() > 1).any():
            wished = torch.where(outside, anchor + laplace(anchor.shape, generator), wished)
        index.search(wished.numpy(), 2)
    return count / (time.perf_counter() - start)


def measure() -> Iterator[dict[str, Any]]:
    """Two ratios for each kind of index."""
    raw = WORLD.draw(seed=0, split="train", start=0, n=IMAGES)
    exact = sampler(raw, "flat")
    anchors, wished = exact.wish(0, EXACT)
    exact_rate = rate(lambda: exact.neighbours.nearest(wished, anchors), EXACT)
    plain_rate = one_by_one(raw, ONE_BY_ONE)
    # Bars: cells against exact search, and what `auto` picks for so many latents against the plain way.
    for kind, bars in (("ivf", (10.0, 0.0)), ("hnsw", (0.0, 10.0))):
        made = sampler(raw, kind)
        made.tune(WANTED)
        anchors, wished = made.wish(1, EXACT)
        reached = made.neighbours.recall(wished, anchors)
        searched = rate(partial(made.neighbours.nearest, wished, anchors), EXACT)
        drawn = rate(partial(draw, made), DRAWN)
        for name, found, against, bar, unit in (
            ("search", searched, exact_rate, bars[0], "times exact search in batches"),
            ("draw", drawn, plain_rate, bars[1], "times pairs one by one"),
        ):
            yield {
                "name": f"pairs.{kind}.{name}",
                "ratio": round(found / against, 1),
                "bar": bar,
                "quality": round(reached, 4),
                "unit": unit,
                "note": f"{found:.0f} a second against {against:.0f}; quality: recall (bar {WANTED}), "
                f"{made.neighbours.described}",
            }


def table() -> None:
    """Recall and speed of indexes by how far they look, as a table in Markdown."""
    raw = WORLD.draw(seed=0, split="train", start=0, n=IMAGES)
    exact = sampler(raw, "flat")
    anchors, wished = exact.wish(0, EXACT)
    true = exact.neighbours.nearest(wished, anchors)
    exact_rate = rate(lambda: exact.neighbours.nearest(wished, anchors), EXACT)
    print("| index | looks as far as | recall | a second | times exact search |\n|---|---|---|---|---|")
    print(f"| Flat | | 1 | {exact_rate:.0f} | 1 |")
    plain, coded = "IVF1024_HNSW32,Flat", "IVF1024_HNSW32,PQ10x4fs,RFlat"
    for name, widths in (
        (plain, (10, 16, 24, 32, 40)),
        ("IVF4096_HNSW32,Flat", (32, 48)),
        (coded, (10, 16, 24, 32, 40)),
        ("IVF4096_HNSW32,PQ10x4fs,RFlat", (32, 48)),
        ("HNSW32", (8, 16, 24)),
    ):
        index: Any = faiss.index_factory(raw.shape[1], name)
        index.train(raw)
        index.add(raw)
        found = Neighbours(raw, index)
        for width in widths:
            found.look(width)
            speed = rate(partial(found.nearest, wished, anchors), EXACT)
            reached = neighbours.recall(found.nearest(wished, anchors), true)
            print(f"| {name} | {width} | {reached:.4f} | {speed:.0f} | {speed / exact_rate:.1f} |", flush=True)
    for n in (1000, 5000, 10_000, 20_000, 50_000, 100_000):
        speeds = []
        for kind in ("flat", "ivf", "hnsw"):
            made = sampler(raw[:n].copy(), kind)
            reached = made.tune(WANTED)
            anchors, wished = made.wish(1, EXACT)
            speed = rate(partial(made.neighbours.nearest, wished, anchors), EXACT)
            speeds.append(f"{speed:.0f} ({reached:.4f})")
        print(f"| {n} | {' | '.join(speeds)} |", flush=True)


if __name__ == "__main__":
    table()
