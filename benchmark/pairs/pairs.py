"""Positive pairs of rendered latents: an anchor, a wished-for positive, and the rendered latent nearest to that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import faiss
import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.latents.distributions import Distribution
from ident.benchmark.latents.spaces import Box, Space
from ident.benchmark.pairs.neighbours import Neighbours, open_index
from ident.benchmark.training.seeds import stream
from ident.render.aliases import Array, Float32s, Int64s
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset
from ident.render.store.files import make_folder, whole
from ident.render.store.storage import Storage
from ident.render.worlds.threedident import WORLD

BATCH = 4096
SAMPLE, SAMPLE_BATCH = 10_000, 2**40
"""Pairs on which the recall is measured, and the number of their batch: further than anybody draws."""


RECALL = 0.999
"""Of the search for positives."""


@dataclass(frozen=True)
class Pairs:
    """Pairs (m,): the numbers of anchors and positives, their latents (m, d), what was wished for, how far that was."""

    anchor: Int64s
    positive: Int64s
    anchor_latents: Float32s
    positive_latents: Float32s
    wished: Float32s
    distance: Float32s
    anchor_was_nearest: np.ndarray  # type: ignore[type-arg]

    def __len__(self) -> int:
        return len(self.anchor)

    @property
    def nbytes(self) -> int:
        """Of all arrays, in memory as in a file."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    @property
    def exact(self) -> bool:
        """Whether the positives were rendered for their anchors: by its latents, no image is its own neighbour."""
        return np.array_equal(self.anchor, self.positive)


def batches(sampler: Sampler | Exact, n: int) -> Iterator[Pairs]:
    """The first n pairs, a batch at a time."""
    for batch, start in enumerate(range(0, n, BATCH)):
        yield sampler.draw(batch, min(BATCH, n - start))


def joined(many: list[Pairs]) -> Pairs:
    """Pairs one behind another."""
    return Pairs(*(np.concatenate([getattr(pairs, field.name) for pairs in many]) for field in fields(Pairs)))


@dataclass(frozen=True)
class Sampler:
    """Draws pairs: batch b of a seed is always the same, whoever draws it."""

    neighbours: Neighbours
    space: Space
    conditional: Distribution
    seed: int
    names: tuple[str, ...] = WORLD.names

    def __post_init__(self) -> None:
        points = torch.from_numpy(self.neighbours.latents)
        if points.shape[1] != self.space.dim:
            raise Impossible(f"{self.space}: the latents have {points.shape[1]} dimensions")
        outside = (~self.space.contains(points)).nonzero()
        if len(outside):
            raise Impossible(f"the latents of image {int(outside[0])} lie outside of {self.space}")

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the pairs."""
        of = sha256(self.neighbours.latents.tobytes()).hexdigest()
        made = {**distributions.describe(self.conditional), "space": str(self.space), "seed": self.seed}
        return {**made, "latents": self.names, "sha256 of latents": of}

    def wish(self, batch: int, n: int) -> tuple[Int64s, Float32s]:
        """Anchors (n,) and what is wished for as their positives (n, d)."""
        generator = torch.Generator().manual_seed(stream(self.seed, batch))
        anchors = torch.randint(len(self.neighbours.latents), (n,), generator=generator)
        around = torch.from_numpy(self.neighbours.latents)[anchors]
        return anchors.numpy(), self.conditional.draw(self.space, around, generator=generator).numpy()

    def tune(self, recall: float, say: Callable[[str], object] = print) -> float:
        """Let the search look just so far that it has this recall on a sample; gives what it has."""
        anchors, wished = self.wish(SAMPLE_BATCH, SAMPLE)
        return self.neighbours.tune(wished, anchors, recall, say)

    def draw(self, batch: int, n: int) -> Pairs:
        """Batch number `batch` of n pairs."""
        anchors, wished = self.wish(batch, n)
        found = self.neighbours.nearest(wished, anchors)
        around, at = self.neighbours.latents[anchors], self.neighbours.latents[found.index]
        return Pairs(anchors, found.index, around, at, wished, found.distance, found.anchor_was_nearest)


@dataclass(frozen=True)
class Exact:
    """Pairs of images and the positives that were rendered for them."""

    raw: Float32s
    positives: Float32s
    conditional: Distribution
    seed: int
    names: tuple[str, ...] = WORLD.names

    @property
    def recipe(self) -> dict[str, Any]:
        """What decides the pairs."""
        of = sha256(self.raw.tobytes() + self.positives.tobytes()).hexdigest()
        made = {**distributions.describe(self.conditional), "pairs": "exact", "seed": self.seed}
        return {**made, "latents": self.names, "sha256 of latents": of}

    def tune(self, _: float, say: Callable[[str], object] = print) -> float:  # noqa: ARG002
        """There is no search: each positive is the right one."""
        return 1.0

    def draw(self, batch: int, n: int) -> Pairs:
        """Batch number `batch` of n pairs; `wished` has draws of their own, to compare with."""
        generator = torch.Generator().manual_seed(stream(self.seed, batch))
        anchors = torch.randint(len(self.raw), (n,), generator=generator).numpy()
        around, at = self.raw[anchors], self.positives[anchors]
        wished = self.conditional.draw(Box(len(self.names)), torch.from_numpy(around), generator=generator).numpy()
        return Pairs(anchors, anchors, around, at, wished, np.zeros(n, np.float32), np.zeros(n, bool))


def open_sampler(
    data: Dataset,
    conditional: str | None,
    *,
    space: str,
    seed: int,
    subset: tuple[str, ...] | None = None,
    kind: str = "auto",
    pairs: str = "auto",
    say: Callable[[str], object] = print,
) -> Sampler | Exact:
    """Draws pairs of a dataset's images: exact ones where they are there, or by their nearest neighbours.

    Neighbours are found by all latents or by the named ones, and their index is kept in the user's cache.
    """
    rendered = data.manifest.positives
    if pairs == "auto":
        pairs = "nearest" if rendered is None or subset is not None or space != "box" else "exact"
        if pairs == "exact" and rendered is not None and conditional is not None:
            pairs = "exact" if str(distributions.typed(conditional)) == rendered["conditional"] else "nearest"
    if pairs == "exact":
        return _exact(data, conditional, space, seed, subset)
    if conditional is None:
        raise Impossible("--conditional: give one, like laplace(0.05)")
    names = WORLD.names if subset is None else subset
    if not names or not set(names) <= set(WORLD.names) or len(set(names)) < len(names):
        raise Impossible(f"latents {', '.join(names)!r}: name some, each once, of {', '.join(WORLD.names)}")
    points = np.ascontiguousarray(data.latents[:, [WORLD.names.index(name) for name in names]])
    lives, drawn = spaces.parse(space, len(names)), distributions.typed(conditional)
    return Sampler(open_index(points, kind, say), lives, drawn, seed, names)


def _exact(data: Dataset, conditional: str | None, space: str, seed: int, subset: tuple[str, ...] | None) -> Exact:
    rendered = data.manifest.positives
    if rendered is None:
        raise Impossible(f"{data.storage}: was rendered without positives; take --pairs nearest, or render some")
    if subset is not None or space != "box":
        raise Impossible("exact positives follow all latents in the box; leave out --latents and --space")
    drawn = distributions.parse(rendered["conditional"]) if conditional is None else distributions.typed(conditional)
    if str(drawn) != rendered["conditional"]:
        follow = rendered["conditional"]
        raise Impossible(f"{data.storage}: its positives follow {follow}, not {conditional}; take --pairs nearest")
    return Exact(data.latents.copy(), data.positive_latents.copy(), drawn, seed)


def check_target(files: Sequence[Path], recipe: str, data: Storage, *, force: bool) -> None:
    """Refuse to overwrite what was made of something else. The first file is that of the pairs."""
    out = files[0]
    if out.suffix not in (".h5", ".hdf5") or out.is_dir():
        raise Impossible(f"{out}: give --out the name of a file that ends in .h5")
    if data.folder and data.folder.resolve() in out.resolve().parents:
        raise Impossible(f"{out}: lies in the dataset; give another --out")
    make_folder(out.absolute().parent)
    there = next((path for path in files if path.exists()), None)
    if there and not force and recipe_in(out) != recipe:
        raise Impossible(f"{there}: holds something else; give --force to overwrite it, or another --out")


def save(batches: Iterable[Pairs], n: int, recipe: str, path: Path) -> None:
    """Write n pairs as HDF5 batch by batch, as they are drawn, with what they were made of."""
    with whole(path) as part, h5py.File(part, "w") as file:
        file.attrs["recipe"] = recipe
        start = 0
        for pairs in batches:
            for field in fields(pairs):
                rows = getattr(pairs, field.name)
                stored = file.require_dataset(field.name, (n, *rows.shape[1:]), rows.dtype)
                stored[start : start + len(pairs)] = rows
            start += len(pairs)


def recipe_in(path: Path) -> str | None:
    """What the pairs in a file were made of."""
    try:
        if not path.is_file():  # HDF5 would wait for a pipe
            return None
        with h5py.File(path) as file:
            return str(file.attrs["recipe"])
    except (OSError, KeyError):
        return None


class PairDataset(IterableDataset[dict[str, torch.Tensor]]):
    """Batches of pairs without end, or `batches` of them, for a DataLoader with `batch_size=None`.

    Process `rank` of `world` and each of its workers take every so-many-th batch: none is drawn twice.
    """

    def __init__(
        self,
        sampler: Sampler | Exact,
        batch_size: int,
        *,
        batches: int | None = None,
        first: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not isinstance(sampler, Sampler | Exact) or type(batch_size) is not int:
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


class ImagePairs(PairDataset):
    """Batches of pairs with their images: `anchor_images` and `positive_images`, (batch, 3, H, W) from 0 to 1."""

    def __init__(self, data: Dataset, sampler: Sampler | Exact, batch_size: int, *, batches: int | None = None) -> None:
        super().__init__(sampler, batch_size, batches=batches)
        self.data = data

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        exact = isinstance(self.sampler, Exact)
        for batch in super().__iter__():
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
    conditional: str | Sampler | Exact,
    *,
    batch_size: int,
    seed: int | None = None,
    batches: int | None = None,
    workers: int = 0,
) -> DataLoader[dict[str, torch.Tensor]]:
    """Batches of pairs with images without end, or `batches` of them; see `Pairs` and `ImagePairs` for their names.

    Pairs follow a conditional around raw latents in the box, like "laplace(0.1)", and a seed; or a sampler, which has
    both. The same seed gives the same batches, with any number of workers.
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
    return DataLoader(ImagePairs(data, sampler, batch_size, batches=batches), batch_size=None, num_workers=workers)
