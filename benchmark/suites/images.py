"""A row of Table 4 as a task: rendered images, pairs of them by the index, and an encoder that finds the latents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from itertools import count

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ident.benchmark.latents import distributions
from ident.benchmark.latents.distributions import Distribution
from ident.benchmark.latents.spaces import Box
from ident.benchmark.models import encoders
from ident.benchmark.pairs.augmentations import Augmentations
from ident.benchmark.pairs.pairs import RECALL, Exact, open_sampler
from ident.benchmark.suites.rows import AUGMENTATIONS
from ident.benchmark.suites.runs import Run
from ident.benchmark.suites.task import AUGMENTED, BATCHES, ENCODER, FIRST, RowTask
from ident.benchmark.training import distributed
from ident.benchmark.training.seeds import seeded, stream
from ident.benchmark.training.train import Batch
from ident.render.aliases import Int64s
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset
from ident.render.threads import in_order
from ident.render.worlds.threedident import WORLD

AHEAD = 8
"""Batches that are made before the encoder asks for them."""
OTHERS = 0.1
"""What pairs near in a group of latents count that is not the first of the curriculum."""
AT_ONCE = 256
"""Images that are encoded at a time where no gradients are wanted."""


class Images(RowTask):
    """The task of a run. Its batches follow from the dataset, the seed and their number."""

    splits = ("test", "train")

    def __init__(self, run: Run, device: str) -> None:
        super().__init__(run, device)
        row, tier = run.row, run.tier
        self.data = {split: Dataset(run.data[split].place) for split in self.splits}
        self.factors = self.data["test"].factors
        self.size, self.first = run.training.batch_size, run.curriculum.first
        if self.size > len(self.data["train"]):
            raise Impossible(f"{self.data['train'].storage}: {len(self.data['train'])} images, a batch has {self.size}")
        mean, sd = self.data["train"].manifest.moments()
        with seeded(stream(run.seed, ENCODER)):
            encoder = encoders.encoder(row.dim, row.model_space, run.curriculum.side, tier.encoder)
        encoder = encoder.to(memory_format=torch.channels_last)
        self.encoder = distributed.normed_together(nn.Sequential(encoders.Pixels(mean, sd), encoder))
        if tier.compile:
            self.encoder.compile()
        self.learn(self.encoder)
        self.conditional: Distribution | None = None
        if run.kind == "unsupervised" and row.conditional != AUGMENTATIONS:
            self.conditional, seed = distributions.parse(row.conditional, tier.scale), stream(run.seed, BATCHES)
            written = str(self.conditional)
            self.sampler = open_sampler(self.data["train"], written, space="box", seed=seed, say=lambda _: None)
            self.sampler.tune(RECALL, say=lambda _: None)

    def batches(self, first: int) -> Iterator[Batch]:
        """Images and what belongs to them. Several are made ahead by threads, while the encoder works."""
        for _, batch in in_order(self.batch, count(first), ahead=AHEAD):
            yield {
                name: value.to(self.device, non_blocking=True) if value.ndim else value for name, value in batch.items()
            }

    def batch(self, number: int) -> Batch:
        """The share that this process has of batch `number`."""
        mine = distributed.share(self.size)
        if self.conditional is not None:
            return self.pairs(number, slice(2 * mine.start, 2 * mine.stop))
        drawn = self.drawn(number, self.size)[mine]
        images = pixels(self.data["train"].images(drawn))
        if self.run.kind == "supervised":
            return {"images": images, "latents": torch.from_numpy(self.data["train"].latents[drawn])}
        return {"images": images, "number": torch.tensor(number)}

    def drawn(self, number: int, n: int) -> Int64s:
        """The numbers of n images, drawn for a batch."""
        generator = torch.Generator().manual_seed(stream(self.run.seed, BATCHES, number))
        return torch.randint(len(self.data["train"]), (n,), generator=generator).numpy()

    def pairs(self, number: int, mine: slice) -> Batch:
        """A share of the images of batch `number`: images of which some are near each other, then anchors, positives.

        The curriculum says how many the first are. They come with all pairs among them that are near in each of its
        groups. There is no single pair behind them, which would have no negatives.
        """
        data = self.data["train"]
        alone = round(self.size * self.run.curriculum.alone(number / self.run.training.steps))
        alone = self.size if self.size - alone == 1 else alone
        among = self.drawn(number, 2 * alone)
        chosen = self.sampler.draw(number, self.size - alone)
        exact = isinstance(self.sampler, Exact)
        numbers = np.concatenate([among, chosen.anchor, *([] if exact else [chosen.positive])])[mine]
        images = data.images(numbers)
        if exact:
            rendered = slice(*(max(0, at - 2 * alone - len(chosen)) for at in (mine.start, mine.stop)))
            images = np.concatenate([images, data.positives(chosen.anchor[rendered])])
        batch = {"images": pixels(images), "among": torch.tensor(len(among))}
        if not alone:
            return batch
        generator = torch.Generator().manual_seed(stream(self.run.seed, FIRST, number))
        assert self.conditional is not None
        for group in self.first:
            latents = torch.from_numpy(data.latents[among][:, [WORLD.names.index(name) for name in group]])
            near = distributions.pairs_among(self.conditional, Box(len(group)), latents, generator=generator)
            batch[near_in(group)] = near
        return batch

    def loss(self, batch: Batch) -> Tensor:
        """The mean squared error, or a contrastive loss of the batches of all processes."""
        images = batch["images"]
        if "latents" in batch:
            return nn.functional.mse_loss(self.encode(images), batch["latents"])
        if "number" in batch:
            augmented = self.augmented(images.repeat(2, 1, 1, 1), int(batch["number"]))
            return self.of_pairs(*map(distributed.gather, self.encode(augmented).chunk(2)))
        found, among = distributed.gather(self.encode(images)), int(batch["among"])
        share, rest = among / len(found), (len(found) - among) // 2
        near, anchor, positive = found.split([among, rest, rest])
        losses, start, weight = [(1 - share) * self.of_pairs(anchor, positive)] if rest else [], 0, 1.0
        for group in self.first if among else ():
            outputs = slice(start, start + len(group))
            losses.append(share * weight * self.losses[0].among(near, batch[near_in(group)], outputs))
            start, weight = outputs.stop, OTHERS
        return torch.stack(losses).sum()

    def of_pairs(self, anchor: Tensor, positive: Tensor) -> Tensor:
        """Of anchors and their positives, and of these as anchors if the tier says so."""
        both = ((anchor, positive), (positive, anchor)) if self.run.tier.both else ((anchor, positive),)
        found = [self.losses[0](one, other, one if self.run.row.itself else None) for one, other in both]
        return torch.stack(found).mean()

    def augmented(self, images: Tensor, number: int) -> Tensor:
        """Images, augmented by draws that belong to a batch and to this process."""
        generator = self.generator(AUGMENTED, number, distributed.rank())
        return 255 * Augmentations().draw(images.float() / 255, generator=generator)

    def encode(self, images: Tensor) -> Tensor:
        """What is recovered of images (n, 3, H, W): of all at once, or of as many at a time as the tier says."""
        if not self.run.tier.chunk or not torch.is_grad_enabled():
            found: Tensor = self.encoder(images)
            return found
        parts, again = images.split(self.run.tier.chunk), lambda: (nullcontext(), standing(self.encoder))
        return torch.cat([checkpoint(self.encoder, part, use_reentrant=False, context_fn=again) for part in parts])

    def samples(self, split: str) -> tuple[Tensor, Tensor]:
        """Of the first images of a split."""
        data = self.data[split]
        some = np.arange(min(self.run.tier.samples, len(data)))
        parts = np.array_split(some, range(AT_ONCE, len(some), AT_ONCE))
        decoded = in_order(lambda part: pixels(data.images(part)), parts, ahead=AHEAD)
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


@contextmanager
def standing(model: nn.Module) -> Iterator[None]:
    """Let the running means and variances of batch norms stand as they are: what is computed again counts once."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def near_in(group: tuple[str, ...]) -> str:
    """The name in a batch of its pairs that are near in these latents alone."""
    return f"near in {', '.join(group)}"


def pixels(images: np.ndarray) -> Tensor:  # type: ignore[type-arg]
    """Images (n, H, W, 3) uint8 as (n, 3, H, W), channels last in memory."""
    return torch.from_numpy(images).permute(0, 3, 1, 2)
