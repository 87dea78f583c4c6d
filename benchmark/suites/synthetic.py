"""A row of the synthetic suite as a task: latents, mixed by an invertible network, found again by an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from torch import Tensor, nn

from ident.benchmark import distributions, encoders, losses, metrics, mixing, spaces
from ident.benchmark.pairs import stream
from ident.benchmark.spaces import Box, Space
from ident.benchmark.suites.rows import Row, Run
from ident.benchmark.train import Batch, autocast, seeded

MIXING, ENCODER, BATCHES, SAMPLES, RESAMPLES, WHITENING = range(6)
"""Streams of random numbers of a run."""

WHITE = 20_000
"""Samples that whitening is measured on."""


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
        if row.mixing != "none":
            self.mixing = mixing.mixing(row.dim, seed=stream(run.seed, MIXING)).to(self.device)
            if run.kind != "identity":
                with seeded(stream(run.seed, ENCODER)):
                    self.encoder = encoders.encoder(row.dim, row.model_space, run.tier.side).to(self.device)
                if run.tier.whiten:
                    z = distributions.sample(self.marginal, self.space, WHITE, generator=self.generator(WHITENING))
                    self.encoder = encoders.whitened(self.encoder, self.mixing(z))
        self.losses = losses_of(row) if run.kind == "unsupervised" else []
        self.model: nn.Module = nn.ModuleDict({"encoder": self.encoder, "losses": nn.ModuleList(self.losses)})
        self.model.to(self.device)

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
        space, corner = self.region(number, generator)
        anchor = distributions.sample(self.marginal, space, size, generator=generator)
        if self.run.kind == "supervised":
            return {"anchor": anchor}
        if row.positives == "among":
            pairs = distributions.pairs_among(self.conditionals[0], space, anchor, generator=generator)
            return {"anchor": anchor, "pairs": pairs}
        drawn = [one.draw(space, anchor, generator=generator) for one in self.conditionals]
        batch = {"anchor": anchor + corner, "positives": torch.stack(drawn) + corner}
        if self.hard is not None:
            around = anchor.repeat_interleave(row.hard_count, 0)
            batch["hard"] = self.hard.draw(space, around, generator=generator)
        return batch

    def region(self, number: int, generator: torch.Generator) -> tuple[Space, Tensor | float]:
        """Where batch `number` lies: all of the space, or a part of a box, as a box and where its corner is.

        In a part the marginal is uniform as in the whole, and so is the shape of the conditional: what the loss learns
        is the same. But close negatives, which it learns it from, are many times as frequent.
        """
        share = max(self.run.tier.region, 1 - number / self.run.training.steps)
        if not isinstance(self.space, Box) or self.run.row.marginal != "uniform" or share == 1:
            return self.space, 0.0
        full = self.space.high - self.space.low
        part = Box(self.space.dim, self.space.low, self.space.low + share * full)
        # As often beyond the sides as would be, it stands at them.
        drawn = torch.rand(self.space.dim, generator=generator, device=self.device)
        return part, full * (drawn - share / 2).clamp(0, 1 - share)

    def loss(self, batch: Batch) -> Tensor:
        """The mean squared error, or the sum of a contrastive loss for each conditional."""
        anchor, row = batch["anchor"], self.run.row
        if self.run.kind == "supervised":
            return nn.functional.mse_loss(self.encode(anchor), anchor)
        if "pairs" in batch:
            among = losses.parse(row.model)
            return losses.info_nce_among(self.encode(anchor), batch["pairs"], similarity=among)
        groups = [anchor, *batch["positives"], *([batch["hard"]] if "hard" in batch else [])]
        encoded = list(torch.split(self.encode(torch.cat(groups)), [len(group) for group in groups]))
        more = {"hard": encoded.pop().reshape(len(anchor), -1, row.dim)} if "hard" in batch else {}
        around, *positives = encoded
        found = [loss(around, one, **more) for loss, one in zip(self.losses, positives, strict=True)]
        return torch.stack(found).sum()

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
