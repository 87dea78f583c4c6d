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
from ident.benchmark.distributions import Distribution
from ident.benchmark.neighbours import Int64s
from ident.benchmark.pairs import Exact, open_sampler, stream
from ident.benchmark.spaces import Box
from ident.benchmark.suites.rows import AUGMENTATIONS, Run
from ident.benchmark.suites.task import AUGMENTED, BATCHES, ENCODER, FIRST, RowTask
from ident.benchmark.train import Batch, seeded
from ident.render.cluster import in_order
from ident.render.dataset import Dataset
from ident.render.errors import Impossible
from ident.render.latents import NAMES

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
        self.conditional: Distribution | None = None
        if run.kind == "unsupervised" and row.conditional != AUGMENTATIONS:
            self.conditional, seed = distributions.parse(row.conditional, tier.scale), stream(run.seed, BATCHES)
            written = str(self.conditional)
            self.sampler = open_sampler(self.data["train"], written, space="box", seed=seed, say=lambda _: None)

    def batches(self, first: int) -> Iterator[Batch]:
        """Images and, of supervised runs, latents. Several are made ahead by threads, while the encoder works."""
        for _, batch in in_order(self.batch, count(first)):
            yield {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}

    def batch(self, number: int) -> Batch:
        """The share that this process has of batch number so-and-so."""
        if self.conditional is not None:
            mine = processes.share(self.size)
            size = mine.stop - mine.start
            alone = round(size * self.run.curriculum.alone(number / self.run.training.steps))
            among = self.among(number, 2 * alone) if alone else {}
            return {**among, **self.pairs(number, size - alone)} if size - alone > 1 else among  # one has no negatives
        drawn = self.drawn(number, self.size)
        images = pixels(self.data["train"].images(drawn[processes.share(self.size)]))
        if self.run.kind == "supervised":
            latents = self.data["train"].latents[drawn[processes.share(self.size)]]
            return {"anchor": images, "latents": torch.from_numpy(latents)}
        return {"anchor": images, "number": torch.tensor(number)}

    def drawn(self, number: int, n: int) -> Int64s:
        """The numbers of n images, as a batch has them."""
        generator = torch.Generator().manual_seed(stream(self.run.seed, BATCHES, number))
        return torch.randint(len(self.data["train"]), (n,), generator=generator).numpy()

    def pairs(self, number: int, each: int) -> Batch:
        """So many pairs of the row's conditional for each process."""
        data, n = self.data["train"], each * processes.world()
        drawn, mine = self.sampler.draw(number, n), processes.share(n)
        anchor, positive = drawn.anchor[mine], drawn.positive[mine]
        others = data.positives(anchor) if isinstance(self.sampler, Exact) else data.images(positive)
        return {"anchor": pixels(data.images(anchor)), "positive": pixels(others)}

    def among(self, number: int, each: int) -> Batch:
        """So many images for each process, and all pairs among them that are near in the first latents alone."""
        assert self.conditional is not None
        data, n, first = self.data["train"], each * processes.world(), self.run.curriculum.first
        drawn, box = self.drawn(number, n), Box(len(first))
        latents = torch.from_numpy(data.latents[drawn][:, [NAMES.index(name) for name in first]])
        generator = torch.Generator().manual_seed(stream(self.run.seed, FIRST, number))
        pairs = distributions.pairs_among(self.conditional, box, latents, generator=generator)
        return {"among": pixels(data.images(drawn[processes.share(n)])), "pairs": pairs}

    def loss(self, batch: Batch) -> Tensor:
        """The mean squared error, or a contrastive loss of the batches of all processes."""
        if "latents" in batch:
            return nn.functional.mse_loss(self.encode(batch["anchor"]), batch["latents"])
        if "number" in batch:
            augmented = self.augmented(batch["anchor"].repeat(2, 1, 1, 1), int(batch["number"]))
            return self.of_pairs(*map(processes.gather, self.encode(augmented).chunk(2)))
        images = [batch[name] for name in ("among", "anchor", "positive") if name in batch]
        found = [processes.gather(part) for part in self.encode(torch.cat(images)).split(list(map(len, images)))]
        alone = len(batch["among"]) / sum(map(len, images)) if "among" in batch else 0.0
        losses = [alone * self.of_several(found.pop(0), batch["pairs"])] if alone else []
        losses += [(1 - alone) * self.of_pairs(*found)] if found else []
        return torch.stack(losses).sum()

    def of_pairs(self, anchor: Tensor, positive: Tensor) -> Tensor:
        """Of anchors and their positives, and of these as anchors if the tier says so."""
        both = ((anchor, positive), (positive, anchor)) if self.run.tier.both else ((anchor, positive),)
        found = [self.losses[0](one, other, one if self.run.row.itself else None) for one, other in both]
        return torch.stack(found).mean()

    def of_several(self, points: Tensor, pairs: Tensor) -> Tensor:
        """Of points that have several positives, or none."""
        if not len(pairs):
            return 0 * points.sum()
        anchor, positive = pairs.T
        found: Tensor = self.losses[0](
            points[anchor], points[positive], points, names=(anchor, torch.arange(len(points), device=anchor.device))
        )
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
