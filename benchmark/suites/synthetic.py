"""A row of the synthetic suite as a task: latents, mixed by an invertible network, found again by an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count

import torch
from torch import Tensor, nn

from ident.benchmark import distributions, encoders, losses, metrics, mixing, spaces
from ident.benchmark.pairs import stream
from ident.benchmark.spaces import Box, Space
from ident.benchmark.suites import curriculum
from ident.benchmark.suites.rows import Row, Run
from ident.benchmark.train import Batch, autocast, seeded

MIXING, ENCODER, BATCHES, SAMPLES, RESAMPLES, MEASURES = range(6)
"""Streams of random numbers of a run."""

MEASURED = 20_000
"""Samples that are measured before a training: what whitens observations, and how far positives are."""


class Synthetic:
    """The task of a run. Its mixing follows from the seed alone, its batches from seed and number."""

    def __init__(self, run: Run, device: str) -> None:
        row = run.row
        self.run, self.device = run, torch.device(device)
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
                    self.encoder = encoders.encoder(row.dim, row.model_space, self.curriculum.side).to(self.device)
                if run.tier.whiten:
                    z = self.anchors(self.space, MEASURED, self.generator(MEASURES))
                    self.encoder = encoders.whitened(self.encoder, self.mixing(z))
        self.losses = losses_of(row) if run.kind == "unsupervised" else []
        self.model: nn.Module = nn.ModuleDict({"encoder": self.encoder, "losses": nn.ModuleList(self.losses)})
        self.model.to(self.device)

    @cached_property
    def moved(self) -> float:
        """How far positives are from their anchors."""
        generator = self.generator(MEASURES)
        z = self.anchors(self.space, MEASURED, generator)
        return curriculum.moved(z, self.conditionals[0].draw(self.space, z, generator=generator))

    def generator(self, *number: int) -> torch.Generator:
        """Random numbers of a stream."""
        return torch.Generator(self.device).manual_seed(stream(self.run.seed, *number))

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
            among = losses.parse(row.model)
            return losses.info_nce_among(self.encode(batch["anchor"]), batch["pairs"], similarity=among)
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

    def samples(self) -> Tensor:
        """The latents (samples, d) that scores are taken of."""
        count, generator = self.run.tier.samples, self.generator(SAMPLES)
        return distributions.sample(self.marginal, self.space, count, generator=generator)

    def recovered(self) -> tuple[Tensor, Tensor]:
        """Latents (samples, d), and what the model recovers of them (samples, k)."""
        self.model.eval()
        precision = "float32" if self.run.kind == "identity" else self.run.training.precision
        with torch.no_grad(), autocast(self.device, precision):
            z = self.samples()
            return z.cpu(), self.encode(z).float().cpu()

    def look(self) -> dict[str, float]:
        """R2 and MCC, and what the loss has learned."""
        z, found = self.recovered()
        scores = {name: float(metrics.METRICS[name](z, found).mean()) for name in ("r2", "mcc")}
        return scores | {f"lambda {i}": value for i, value in enumerate(self.learned())}

    def learned(self) -> list[float]:
        """The precisions that AnInfoNCE has learned, in the order of the recovered latents; each loss's in turn."""
        each = dict.fromkeys(self.losses)  # which may be one for all
        trained = [loss.precisions.tolist() for loss in each if isinstance(loss, losses.AnInfoNCE)]
        return [float(value) for precisions in trained for value in precisions]

    def scores(self) -> dict[str, metrics.Score]:
        """All three scores, with intervals and chance."""
        z, found = self.recovered()
        seed = stream(self.run.seed, RESAMPLES)
        return {name: metrics.score(metric, z, found, seed=seed) for name, metric in metrics.METRICS.items()}


def losses_of(row: Row) -> list[nn.Module]:
    """A loss for each conditional of a row: the same one, or in an ensemble one of its own."""
    count = 1 + len(row.others)
    if row.loss == "ensemble":
        return [losses.AnInfoNCE(row.dim) for _ in range(count)]
    if row.loss == "aninfonce":
        return [losses.AnInfoNCE(row.dim)] * count
    return [losses.InfoNCE(losses.parse(row.model), function=losses.LOSSES[row.loss])] * count
