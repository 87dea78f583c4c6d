"""A row of Table 4 as a task: rendered images, pairs of them by the index, and an encoder that finds the latents."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import count

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ident.benchmark import distributions, encoders, processes
from ident.benchmark.augmentations import Augmentations
from ident.benchmark.pairs import Exact, Sampler, open_sampler, stream
from ident.benchmark.suites.rows import AUGMENTATIONS, Run
from ident.benchmark.suites.task import AUGMENTED, BATCHES, ENCODER, RowTask
from ident.benchmark.train import Batch, seeded
from ident.render.cluster import in_order
from ident.render.dataset import Dataset
from ident.render.errors import Impossible

AT_ONCE = 256
"""Images that are encoded at a time where no gradients are wanted."""


class Images(RowTask):
    """The task of a run. Its batches follow from the dataset, the seed and their number."""

    splits = ("test", "train")

    def __init__(self, run: Run, device: str) -> None:
        super().__init__(run, device)
        row, tier = run.row, run.tier
        self.data = {split: Dataset(run.data[split].place) for split in self.splits}
        self.size = run.training.batch_size
        if self.size > len(self.data["train"]):
            raise Impossible(f"{self.data['train'].storage}: {len(self.data['train'])} images, a batch has {self.size}")
        mean, sd = self.data["train"].manifest.moments()
        with seeded(stream(run.seed, ENCODER)):
            encoder = encoders.encoder(row.dim, row.model_space, run.curriculum.side, tier.encoder)
        encoder = encoder.to(memory_format=torch.channels_last)
        self.encoder = processes.normed_together(nn.Sequential(encoders.Pixels(mean, sd), encoder))
        if tier.compile:
            self.encoder.compile()
        self.learn(self.encoder)
        self.sampler: Sampler | Exact | None = None
        if run.kind == "unsupervised" and row.conditional != AUGMENTATIONS:
            conditional = str(distributions.parse(row.conditional, tier.scale))
            self.sampler = open_sampler(
                self.data["train"], conditional, space="box", seed=stream(run.seed, BATCHES), say=lambda _: None
            )

    def batches(self, first: int) -> Iterator[Batch]:
        """Images and, of supervised runs, latents. Several are made ahead by threads, while the encoder works."""
        for _, batch in in_order(self.batch, count(first)):
            yield {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}

    def batch(self, number: int) -> Batch:
        """The share that this process has of batch number so-and-so."""
        if self.sampler is not None:
            pairs = self.sampler.draw(number, self.size)
            share = processes.share(self.size)
            anchor, positive = pairs.anchor[share], pairs.positive[share]
            data = self.data["train"]
            others = data.positives(anchor) if isinstance(self.sampler, Exact) else data.images(positive)
            return {"anchor": pixels(data.images(anchor)), "positive": pixels(others)}
        generator = torch.Generator().manual_seed(stream(self.run.seed, BATCHES, number))
        drawn = torch.randint(len(self.data["train"]), (self.size,), generator=generator).numpy()
        drawn = drawn[processes.share(self.size)]
        images = pixels(self.data["train"].images(drawn))
        if self.run.kind == "supervised":
            return {"anchor": images, "latents": torch.from_numpy(self.data["train"].latents[drawn])}
        return {"anchor": images, "number": torch.tensor(number)}

    def loss(self, batch: Batch) -> Tensor:
        """The mean squared error, or a contrastive loss of the batches of all processes."""
        if "latents" in batch:
            return nn.functional.mse_loss(self.encode(batch["anchor"]), batch["latents"])
        if "positive" in batch:
            both = torch.cat([batch["anchor"], batch["positive"]])
        else:
            both = self.augmented(batch["anchor"].repeat(2, 1, 1, 1), int(batch["number"]))
        anchor, positive = map(processes.gather, self.encode(both).chunk(2))
        found: Tensor = self.losses[0](anchor, positive, anchor if self.run.row.itself else None)
        return found

    def augmented(self, images: Tensor, number: int) -> Tensor:
        """Images, augmented by draws that belong to a batch and to this process."""
        generator = self.generator(AUGMENTED, number, processes.rank())
        return 255 * Augmentations().draw(images.float() / 255, generator=generator)

    def encode(self, images: Tensor) -> Tensor:
        """What is recovered of images (n, 3, H, W): of all at once, or of as many at a time as the tier says."""
        if not self.run.tier.chunk or not torch.is_grad_enabled():
            found: Tensor = self.encoder(images)
            return found
        parts = images.split(self.run.tier.chunk)
        return torch.cat([checkpoint(self.encoder, part, use_reentrant=False) for part in parts])

    def samples(self, split: str) -> tuple[Tensor, Tensor]:
        """Of the first images of a split."""
        data = self.data[split]
        some = np.arange(min(self.run.tier.samples, len(data)))
        parts = np.array_split(some, range(AT_ONCE, len(some), AT_ONCE))
        decoded = in_order(lambda part: pixels(data.images(part)), parts)
        found = torch.cat([self.encode(images.to(self.device)).float() for _, images in decoded])
        return torch.from_numpy(data.latents[some]), found

    def neighbours(self, found: Tensor, rows: int = 6, columns: int = 6) -> bytes:
        """A PNG: in each row an image of the test set, then those whose recovered latents (n, k) are nearest."""
        away = torch.cdist(found[:rows], found)
        away[torch.arange(len(away)), torch.arange(len(away))] = -1
        nearest = away.topk(min(columns, len(found)), largest=False).indices
        images = self.data["test"].images(nearest.flatten().numpy())
        images = images.reshape(*nearest.shape, *images.shape[1:])
        file = BytesIO()
        Image.fromarray(np.concatenate(np.concatenate(images, 1), 1)).save(file, "png")
        return file.getvalue()


def pixels(images: np.ndarray) -> Tensor:  # type: ignore[type-arg]
    """Images (n, H, W, 3) uint8 as (n, 3, H, W), channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2)
