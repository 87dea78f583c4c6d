"""Decoders of the source `decoded`: those of VAEs of digits, each trained once and kept in the user's cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from itertools import count
from pathlib import Path

import torch
from torch import Tensor, nn

from ident.benchmark.models import dense, encoders
from ident.benchmark.objectives.variational import BetaVAE
from ident.benchmark.pairs.batch import Batch
from ident.benchmark.registry import SOURCES
from ident.benchmark.sources.decoded import MOMENTS
from ident.benchmark.sources.files import digest_of
from ident.benchmark.suites.runs import Run
from ident.benchmark.suites.tiers import Tier
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.seeds import Stream, generator_of, seeded, stream
from ident.benchmark.training.train import TellStep, train
from ident.render.aliases import Uint8s
from ident.render.errors import Impossible
from ident.render.exchange import digits
from ident.render.store.files import cache_folder, lock

SEED = 0
"""The seed of all decoders: runs of all seeds share them, as they share the digits."""
BETA = 1.0


class DigitsVAE:
    """The task of a VAE of digits."""

    def __init__(self, images: Uint8s, dim: int, batch_size: int) -> None:
        self.images, self.batch_size, self.memory = torch.from_numpy(images.copy())[:, None], batch_size, nn.Module()
        shape = tuple(self.images.shape[1:])
        with seeded(stream(SEED, Stream.ENCODER)):
            network = encoders.encoder(dim, "unbounded", network="dense", outputs=BetaVAE.outputs, shape=shape)
        self.encoder = encoders.for_images(network, MOMENTS)
        with seeded(stream(SEED, Stream.OBJECTIVE)):
            self.objective = BetaVAE(BETA, dim=dim, shape=shape, seed=SEED)
        self.model: nn.Module = nn.ModuleDict({"encoder": self.encoder, "objective": self.objective})

    def batches(self, first: int) -> Iterator[Batch]:
        """Digits at random, from batch number `first` on."""
        for number in count(first):
            generator = generator_of(SEED, Stream.BATCHES, number)
            indices = torch.randint(len(self.images), (self.batch_size,), generator=generator)
            yield Batch(self.images[indices], number=number)

    def loss(self, batch: Batch) -> Tensor:
        """Minus the evidence lower bound, in nats an image."""
        loss: Tensor = self.objective(self.encoder, batch)
        return loss

    def look(self) -> dict[str, float]:
        """Nothing is looked at on the way but the loss."""
        return {}


def decoder_of(tier: Tier, folder: Path, dim: int, tell: TellStep = lambda *_: None) -> nn.Module:
    """The decoder from latents (n, dim) to logits of images, of a VAE of the digits in a folder, as a tier has it."""
    return trained(tier, folder, dim, tell).objective.decoder.eval().requires_grad_(False)


def trained(tier: Tier, folder: Path, dim: int, tell: TellStep) -> DigitsVAE:
    """A VAE of the digits to train on: from the cache, or trained, from where somebody stopped."""
    training = training_of(tier)
    task = DigitsVAE(digits.read_digits(folder, "train").images, dim, training.batch_size)
    settings = {"dim": dim, "beta": BETA, "width": dense.WIDTH, "torch": torch.__version__}
    settings["data"] = digest_of(digits.paths(folder))
    recipe = json.dumps({**settings, **asdict(training)}, sort_keys=True)
    path = cache_folder("decoders") / f"{sha256(recipe.encode()).hexdigest()[:32]}.pt"
    with lock(path.with_suffix(".lock")), one_thread():
        train(task, training, path, recipe, tell)
    task.model.eval()
    return task


def training_of(tier: Tier) -> Training:
    """How long decoders are trained in a tier, if it says so."""
    if tier.decoder is None:
        raise Impossible(f"tier {tier.name}: has no decoder; give it a table like unsupervised, of a VAE of digits")
    return tier.decoder


def prepare(runs: Sequence[Run], tell: Callable[[int, int], object]) -> None:
    """Train the decoders that runs need, before these begin."""
    for run in {str(run.row.source): run for run in runs if run.row.decoded}.values():
        steps = training_of(run.tier).steps
        source = SOURCES.make(
            run.row.source,
            seed=run.seed,
            data=run.data,
            decoders=lambda folder, dim: decoder_of(run.tier, folder, dim, lambda step, _: tell(step, steps)),  # noqa: B023
        )
        assert source.decoder is not None  # which trains it


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread, so that a decoder is the same on any number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
