"""A row of the synthetic suite as a task: latents, mixed by an invertible network, found again by an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count
from typing import cast

import torch
from torch import Tensor, nn

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.latents.spaces import Box, Space
from ident.benchmark.models import encoders
from ident.benchmark.sources import mixing
from ident.benchmark.suites import curriculum
from ident.benchmark.suites.runs import Run
from ident.benchmark.suites.task import BATCHES, ENCODER, MEASURES, MIXING, SAMPLES, RowTask
from ident.benchmark.training.seeds import seeded, stream
from ident.benchmark.training.train import Batch

MEASURED = 20_000
"""Samples that are measured before a training: what whitens observations, and how far positives are."""


class Synthetic(RowTask):
    """The task of a run. Its mixing follows from the seed alone, its batches from seed and number."""

    def __init__(self, run: Run, device: str) -> None:
        super().__init__(run, device)
        row = run.row
        self.space = spaces.parse(row.latent_space, row.dim)
        self.marginal = distributions.parse(row.marginal)
        self.conditionals = [distributions.parse(text) for text in (row.conditional, *row.others)]
        self.hard = distributions.parse(row.hard) if row.hard else None
        self.mixing: nn.Module = nn.Identity()
        self.encoder: nn.Sequential = nn.Sequential()
        self.curriculum = run.curriculum
        if row.mixing != "none":
            self.mixing = mixing.mixing(row.dim, seed=stream(run.seed, MIXING)).to(self.device)
            if run.kind != "identity":
                with seeded(stream(run.seed, ENCODER)):
                    self.encoder = encoders.encoder(row.dim, row.model_space, self.curriculum.side, run.tier.encoder)
                self.encoder.to(self.device)
                if run.tier.whiten:
                    z = self.anchors(self.space, MEASURED, self.generator(MEASURES))
                    self.encoder = encoders.whitened(self.encoder, self.mixing(z))
        self.learn(self.encoder)

    @cached_property
    def moved(self) -> float:
        """How far positives are from their anchors."""
        generator = self.generator(MEASURES)
        z = self.anchors(self.space, MEASURED, generator)
        return curriculum.moved(z, self.conditionals[0].draw(self.space, z, generator=generator))

    def encode(self, z: Tensor) -> Tensor:
        """What is recovered (n, k) of latents (n, d), from what they are mixed to."""
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            x = self.mixing(z)
        found: Tensor = self.encoder(x)
        return found

    def batches(self, first: int) -> Iterator[Batch]:
        """Anchors (n, d), positives (conditionals, n, d), and what else the row asks for."""
        for number in count(first):
            with torch.no_grad():
                batch = self.batch(number)
            yield batch

    def batch(self, number: int) -> Batch:
        """Batch number so-and-so."""
        row, size, generator = self.run.row, self.run.training.batch_size, self.generator(BATCHES, number)
        if self.run.kind == "supervised":
            return {"anchor": self.anchors(self.space, size, generator)}
        if row.positives == "among":
            anchor = self.anchors(self.space, size, generator)
            pairs = distributions.pairs_among(self.conditionals[0], self.space, anchor, generator=generator)
            return {"anchor": anchor, "pairs": pairs}
        batch = {"parts": self.drawn(number / self.run.training.steps, size, generator)}
        if self.hard is not None:
            around = batch["parts"][0].flatten(0, 1).repeat_interleave(row.hard_count, 0)
            hard = self.hard.draw(self.space, around, generator=generator)
            batch["hard"] = hard.unflatten(0, (*batch["parts"].shape[1:3], row.hard_count))
        return batch

    def anchors(self, space: Space, size: int, generator: torch.Generator) -> Tensor:
        """Latents (size, d) of the row's marginal."""
        return distributions.sample(self.marginal, space, size, generator=generator)

    def drawn(self, progress: float, size: int, generator: torch.Generator) -> Tensor:
        """Anchors and a positive of each conditional (1 + conditionals, parts, size of a part, d)."""
        plan, space, corners = self.curriculum, self.space, torch.zeros(1, device=self.device)
        share, walk = plan.share(progress), plan.walk(progress, self.moved) if plan.spread else 1
        if share < 1:
            assert isinstance(space, Box)
            corners = curriculum.corners(space, share, plan.parts, generator)[:, None]
            space = curriculum.part(space, share)
        groups = [self.anchors(space, size - size % plan.parts, generator)]
        for conditional in self.conditionals:
            positive = groups[0]
            for _ in range(walk):
                positive = conditional.draw(space, positive, generator=generator)
            groups.append(positive)
        parts: Tensor = torch.stack(groups).unflatten(1, (plan.parts, -1)) + corners
        return parts

    def loss(self, batch: Batch) -> Tensor:
        """The mean squared error, or the sum of a contrastive loss for each conditional, a mean over parts."""
        row = self.run.row
        if self.run.kind == "supervised":
            return nn.functional.mse_loss(self.encode(batch["anchor"]), batch["anchor"])
        if "pairs" in batch:
            return cast(Tensor, self.losses[0].among(self.encode(batch["anchor"]), batch["pairs"]))
        found = list[Tensor]()
        anchors, *positives = self.encode_all(batch["parts"])
        hard = self.encode_all(batch["hard"]) if "hard" in batch else [None] * len(anchors)
        for loss, positive in zip(self.losses, positives, strict=True):
            for around, one, near in zip(anchors, positive, hard, strict=True):
                more = {} if near is None else {"hard": near}
                found.append(loss(around, one, around if row.itself else None, **more))
        return torch.stack(found).sum() / len(anchors)

    def encode_all(self, groups: Tensor) -> Tensor:
        """What is recovered of latents (..., d)."""
        found: Tensor = self.encode(groups.flatten(0, -2)).unflatten(0, groups.shape[:-1])
        return found

    def samples(self, split: str) -> tuple[Tensor, Tensor]:
        """Fresh latents (samples, d), and what is recovered of them."""
        assert split == "test"
        z = distributions.sample(self.marginal, self.space, self.run.tier.samples, generator=self.generator(SAMPLES))
        return z, self.encode(z)
