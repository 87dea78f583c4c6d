"""Pairs for a training loop of one's own: batches of indices, latents and images by PyTorch's DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import faiss
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ident.benchmark.pairs.samplers import RECALL, RenderedSampler, Sampler, open_sampler
from ident.render.aliases import Array
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset


class PairDataset(IterableDataset[dict[str, torch.Tensor]]):
    """Batches of pairs without end, or `batches` of them, for a DataLoader with `batch_size=None`.

    Process `rank` of `world` and each of its workers take every so-many-th batch: none is drawn twice.
    """

    def __init__(
        self,
        sampler: Sampler,
        batch_size: int,
        *,
        batches: int | None = None,
        first: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not isinstance(sampler, Sampler) or type(batch_size) is not int:
            raise Impossible(
                f"sampler {type(sampler).__name__}, batch_size {type(batch_size).__name__}: give a sampler, as "
                "open_sampler gives one, and a whole number; `loader` gives images, too"
            )
        if batch_size < 1 or not 0 <= rank < world:
            raise Impossible(f"batches of {batch_size}, process {rank} of {world}: that cannot be")
        self.sampler, self.batch_size, self.batches = sampler, batch_size, batches
        self.first, self.rank, self.world = first, rank, world

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        worker: Any = get_worker_info()
        workers, number = (1, 0) if worker is None else (worker.num_workers, worker.id)
        if worker is not None:
            faiss.omp_set_num_threads(1)
        for mine in range(number, self.batches if self.batches is not None else 2**62, workers):
            pairs = self.sampler.draw((self.first + mine) * self.world + self.rank, self.batch_size)
            yield {field.name: torch.from_numpy(getattr(pairs, field.name)) for field in fields(pairs)}


class ImagePairs(IterableDataset[dict[str, torch.Tensor]]):
    """Batches of pairs with their images: `anchor_images` and `positive_images`, (batch, 3, H, W) from 0 to 1."""

    def __init__(self, data: Dataset, pairs: PairDataset) -> None:
        self.data, self.pairs = data, pairs

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        exact = isinstance(self.pairs.sampler, RenderedSampler)
        for batch in self.pairs:
            anchors, positives = batch["anchor"].numpy(), batch["positive"].numpy()
            of_positives = self.data.positives(positives) if exact else self.data.images(positives)
            yield {
                **batch,
                "anchor_images": floats(self.data.images(anchors)),
                "positive_images": floats(of_positives),
            }


def floats(images: Array) -> torch.Tensor:
    """Images (n, H, W, 3) uint8 as (n, 3, H, W) float32 from 0 to 1."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255


def loader(
    data: Dataset,
    conditional: str | Sampler,
    *,
    batch_size: int,
    seed: int | None = None,
    batches: int | None = None,
    first: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int = 0,
) -> DataLoader[dict[str, torch.Tensor]]:
    """Batches of pairs with images without end, or `batches` of them; `DrawnPairs` has their names.

    Pairs follow a conditional around raw latents in the box, like "laplace(0.1)", and a seed; or a sampler, which has
    both. The same seed gives the same batches, with any number of workers: from batch `first` on, of which process
    `rank` of `world` has its own.
    """
    if not isinstance(data, Dataset):
        raise Impossible(f"data {data!r}: give a Dataset, like Dataset('data/3dident')")
    if isinstance(conditional, str):
        if seed is None:
            raise Impossible(f"conditional {conditional}: give a seed, too")
        sampler = open_sampler(data, conditional, space="box", seed=seed, say=lambda _: None)
        sampler.tune(RECALL, lambda _: None)
    elif seed is not None:
        raise Impossible(f"seed {seed}: the sampler has one of its own; leave it out")
    else:
        sampler = conditional
    pairs = PairDataset(sampler, batch_size, batches=batches, first=first, rank=rank, world=world)
    return DataLoader(ImagePairs(data, pairs), batch_size=None, num_workers=workers)
