"""Random numbers by what they are for: each use has a stream of its own, whatever else was drawn before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
import torch

from ident.render.aliases import Int64s
from ident.render.errors import Impossible


class Stream(IntEnum):
    """The streams of random numbers of a run."""

    MIXING = 0
    ENCODER = 1
    BATCHES = 2
    SAMPLES = 3
    RESAMPLES = 4
    MEASURES = 5
    AUGMENTATIONS = 6
    GROUPS = 7
    OBJECTIVE = 8
    NOISE = 9
    PERMUTATIONS = 10
    VIEWS = 11


def stream(seed: int, *number: int) -> int:
    """The seed of a stream of random numbers: 63 bits that depend on a seed and on the number of what is drawn."""
    if not 0 <= seed < 2**64:
        raise Impossible(f"seed {seed}: give a whole number from 0 to 2^64 - 1")
    return int(np.random.SeedSequence(seed, spawn_key=number).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator_of(seed: int, *number: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator at the beginning of a stream."""
    return torch.Generator(device).manual_seed(stream(seed, *number))


def in_turn(count: int, number: int, n: int, seed: int, *of: int) -> Int64s:
    """Which n of `count` batch `number` has: all come once, in an order of its own, before any comes again.

    Orders are drawn from the stream `of` a seed.
    """
    epochs, places = np.divmod(np.arange(number * n, (number + 1) * n), count)
    parts = []
    for epoch in map(int, np.unique(epochs)):
        order = torch.randperm(count, generator=generator_of(seed, *of, epoch)).numpy()
        parts.append(order[places[epochs == epoch]])
    return np.concatenate(parts)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let modules that draw their first weights globally draw them by a seed; others are not disturbed."""
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield
