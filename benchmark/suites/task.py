"""A run as what `train` trains: all that mixed latents and images have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ident.benchmark import metrics, plugins
from ident.benchmark.losses import contrastive as losses
from ident.benchmark.losses import similarities
from ident.benchmark.suites.rows import Row
from ident.benchmark.suites.runs import Run
from ident.benchmark.training.seeds import seeded, stream
from ident.benchmark.training.train import Batch, autocast
from ident.render.errors import Failed
from ident.render.worlds.factors import Factor, Interval

MIXING, ENCODER, BATCHES, SAMPLES, RESAMPLES, MEASURES, AUGMENTED, FIRST, LOSS = range(9)
"""Streams of random numbers of a run."""


class RowTask(ABC):
    """The task of a run: batches, a loss, and scores."""

    splits: tuple[str, ...] = ("test",)
    """Of what scores are taken."""
    model: nn.Module
    factors: tuple[Factor, ...]
    """That are to be recovered."""

    def __init__(self, run: Run, device: str) -> None:
        self.run, self.device = run, torch.device(device)
        self.factors = tuple(Factor(f"latent {number}", Interval()) for number in range(run.row.dim))
        self.losses: list[Any] = []
        if run.kind == "unsupervised":
            with seeded(stream(run.seed, LOSS)):
                self.losses = losses_of(run.row)

    def learn(self, encoder: nn.Module) -> None:
        """Make these the model: an encoder, and the losses, which may have weights, too."""
        self.model = nn.ModuleDict({"encoder": encoder, "losses": nn.ModuleList(self.losses)}).to(self.device)

    def generator(self, *number: int) -> torch.Generator:
        """Random numbers of a stream."""
        return torch.Generator(self.device).manual_seed(stream(self.run.seed, *number))

    @abstractmethod
    def batches(self, first: int) -> Iterator[Batch]:
        """Batches from number `first` on, each the same whenever it is drawn."""

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """The loss of the model on a batch."""

    @abstractmethod
    def samples(self, split: str) -> tuple[Tensor, Tensor]:
        """The latents (samples, d) that scores are taken of, and what is recovered of them (samples, k)."""

    def recovered(self, split: str) -> tuple[Tensor, Tensor]:
        """The same, of the model as it is, on the CPU."""
        self.model.eval()
        precision = "float32" if self.run.kind == "identity" else self.run.training.precision
        with torch.no_grad(), autocast(self.device, precision):
            z, found = self.samples(split)
        return z.cpu(), found.float().cpu()

    def look(self) -> dict[str, float]:
        """The scores that are taken on the way, and what the loss has learned."""
        z, recovered = self.recovered("test")
        seed, kinds = stream(self.run.seed, RESAMPLES), [factor.kind for factor in self.factors]
        scores = {name: metrics.value(name, z, recovered, seed=seed, kinds=kinds) for name in self.run.looks}
        return scores | {f"lambda {i}": value for i, value in enumerate(self.learned())}

    def learned(self) -> list[float]:
        """The precisions that AnInfoNCE has learned, in the order of the recovered latents; each loss's in turn."""
        each = dict.fromkeys(self.losses)  # which may be one for all
        trained = [loss.precisions.tolist() for loss in each if isinstance(loss, losses.AnInfoNCE)]
        return [float(value) for precisions in trained for value in precisions]

    def scores(self, z: Tensor, recovered: Tensor) -> dict[str, metrics.Score]:
        """The scores of recovered latents, with intervals and chance."""
        seed, kinds = stream(self.run.seed, RESAMPLES), [factor.kind for factor in self.factors]
        return {name: metrics.score(name, z, recovered, seed=seed, kinds=kinds) for name in self.run.metrics}


def losses_of(row: Row) -> list[nn.Module]:
    """A loss for each conditional of a row: the same one, or in an ensemble one of its own."""
    count = 1 + len(row.others)
    if row.loss == "ensemble":
        return [losses.AnInfoNCE(row.dim) for _ in range(count)]
    if row.loss == "aninfonce":
        return [losses.AnInfoNCE(row.dim)] * count
    if plugins.is_one(row.loss):
        return [Own(row.loss)] * count
    return [losses.InfoNCE(similarities.parse(row.model), function=losses.LOSSES[row.loss])] * count


class Own(nn.Module):
    """A loss of the user's: a function of anchors (n, d) and positives (n, d), or a class of modules called so."""

    def __init__(self, name: str) -> None:
        super().__init__()
        made = plugins.load(name)
        self.name, self.call = name, made() if isinstance(made, type) else made

    def forward(self, anchor: Tensor, positive: Tensor, *_: Any) -> Tensor:
        """The loss, if it is one number."""
        found = self.call(anchor, positive)
        if not isinstance(found, Tensor) or found.numel() != 1:
            given = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise Failed(f"{self.name}: gave {given}; a loss is one number, a tensor of shape ()")
        if not found.requires_grad:
            raise Failed(f"{self.name}: gave a loss that no weight has a part in; it must be made of its arguments")
        return found.reshape(())
