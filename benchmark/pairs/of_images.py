"""Pairs of a dataset's images: by their factors, or two augmentations of one."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ident.benchmark.latents import distributions
from ident.benchmark.latents.distributions import SCALE
from ident.benchmark.pairs.augmentations import Augmentations, recipe_of, views
from ident.benchmark.pairs.bank import Bank, of_options
from ident.benchmark.pairs.batch import Batch, Comparison, Pairs, PositivePairs
from ident.benchmark.pairs.samplers import RECALL, RenderedSampler, Sampler, check_positives, open_sampler
from ident.benchmark.sources.dataset import Images, as_tensor
from ident.benchmark.sources.decoded import Decoded
from ident.benchmark.sources.pictures import Pictures
from ident.benchmark.training import distributed
from ident.benchmark.training.seeds import Stream, generator_of, stream
from ident.render.aliases import Int64s
from ident.render.errors import Impossible, unknown

POSITIVES = {"auto": "auto", "exact": "rendered", "nearest": "nearest"}
"""Where positives come from, and what the sampler calls that."""


@dataclass(eq=False)
class OfImages(Pairs):
    """Pairs of stored images. With `both` each positive is an anchor, too.

    With `groups` of so many pairs, batches are of images that the objective finds alike, each group compared within
    itself: see `bank`. They give way to plain batches over the share `fade` of the training. `dim` is that of the
    representations.
    """

    source: Images | Pictures | Decoded
    _: KW_ONLY
    dim: int
    steps: int
    batch_size: int
    both: bool = False
    groups: int = 0
    fade: tuple[float, float] = (0.5, 0.95)

    def __post_init__(self) -> None:
        if type(self.both) is not bool:
            raise Impossible(f"both {self.both!r}: give true or false")
        if specification := of_options(self.groups, self.fade):
            sizes = {"images": len(self.source.pictures), "dim": self.dim}
            sizes |= {"batch_size": self.batch_size, "steps": self.steps}
            self.bank = Bank(specification, **sizes, ahead=self.source.ahead, seed=self.source.seed)

    def comparisons(self, size: int, *, grouped: bool) -> tuple[Comparison, ...]:
        """How anchors and then their positives are compared: all with each other, or each group within itself."""
        each = self.bank.groups.size if grouped and self.bank is not None else size
        pairs = [
            (slice(start, start + each), slice(size + start, size + start + each)) for start in range(0, size, each)
        ]
        return tuple(PositivePairs(*pair, both=self.both, weight=each / size) for pair in pairs)


@dataclass(eq=False)
class Around(OfImages):
    """Anchors and a positive around each: its own, which was rendered for it, or the image nearest to a draw.

    `positives` are "exact", "nearest", or "auto": exact ones where the dataset has such of this conditional.
    """

    source: Images
    conditional: str
    _: KW_ONLY
    scale: float = SCALE
    positives: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.source, Images):
            raise Impossible("around: finds positives among stored images; give a row whose source is dataset")
        super().__post_init__()
        if self.positives not in POSITIVES:
            raise unknown("positives", self.positives, POSITIVES)
        self.distribution = distributions.parse(self.conditional, self.scale)
        if self.positives == "exact":
            check_positives(self.source.train, str(self.distribution))

    @cached_property
    def sampler(self) -> Sampler:
        """What draws the pairs; of nearest neighbours by an index, which takes a while to build."""
        seed, written = stream(self.source.seed, Stream.BATCHES), str(self.distribution)
        data, how = self.source.train, POSITIVES[self.positives]
        sampler = open_sampler(data, written, space="box", seed=seed, pairs=how, say=lambda _: None)
        sampler.tune(RECALL, say=lambda _: None)
        return sampler

    def ready(self) -> None:
        """Build the index."""
        _ = self.sampler

    def batch(self, number: int, size: int, anchors: Tensor | None = None) -> Batch:
        """Batch `number`: images of anchors, then of their positives; of anchors that are drawn, or of these."""
        data, share = self.source.train, distributed.share(2 * self.source.checked(size))
        pairs = self.sampler.draw(number, size, None if anchors is None else anchors.numpy())
        if isinstance(self.sampler, RenderedSampler):
            shown = pairs.anchor
            mine = np.arange(share.start, share.stop)
            anchors_here, positives_here = mine[mine < size], mine[mine >= size] - size
            images = np.concatenate(
                [data.images(pairs.anchor[anchors_here]), data.positives(pairs.anchor[positives_here])]
            )
        else:
            shown = np.concatenate([pairs.anchor, pairs.positive])
            images = data.images(shown[share])
        kept = torch.from_numpy(shown) if self.bank is not None else None
        return Batch(as_tensor(images), self.comparisons(size, grouped=anchors is not None), images=kept)


@runtime_checkable
class Stored(Protocol):
    """Images that are there, of a source of ours or of a user's."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def checked(self, size: int) -> int:
        """A batch size, if there are as many images."""
        ...

    def drawn(self, number: int, n: int) -> Int64s:
        """The indices of n images for batch `number`."""
        ...

    def images(self, indices: Int64s) -> Tensor:
        """Images (n, C, H, W) uint8."""
        ...


def check_images(source: object, name: str) -> None:
    """Refuse a source without images that are there to be augmented."""
    if not isinstance(getattr(source, "pictures", None), Stored):
        raise Impossible(f"{name}: augments stored images; give a row whose source is dataset, cifar10 or decoded")


@dataclass(eq=False)
class Augmented(OfImages):
    """Two augmentations of one image, by a recipe, are a positive pair."""

    recipe: str = "zimmermann"
    augmentations: Augmentations = field(init=False)

    def __post_init__(self) -> None:
        check_images(self.source, "augmented")
        super().__post_init__()
        self.augmentations = recipe_of(self.recipe)

    def batch(self, number: int, size: int, anchors: Tensor | None = None) -> Batch:
        """Batch `number`, of images that are not augmented yet: drawn, or these."""
        source = self.source.pictures
        source.checked(size)
        indices = source.drawn(number, size) if anchors is None else anchors.numpy()
        share = distributed.share(2 * size)
        images = (
            source.images(indices[np.arange(share.start, share.stop) % size])
            if distributed.world() > 1
            else (source.images(indices).repeat(2, 1, 1, 1))
        )
        kept = torch.from_numpy(indices).repeat(2) if self.bank is not None else None
        return Batch(images, self.comparisons(size, grouped=anchors is not None), images=kept)

    def prepare(self, batch: Batch) -> Batch:
        """The batch on its device with its images augmented, by draws that belong to it and to this process."""
        images = batch.observations
        numbers = Stream.AUGMENTATIONS, batch.number, distributed.rank()
        generator = generator_of(self.source.seed, *numbers, device=images.device)
        return replace(batch, observations=255 * self.augmentations.draw(images.float() / 255, generator=generator))


@dataclass(eq=False)
class AugmentedOrNot(Pairs):
    """Images of which a random half are augmented, by all that `augmentation(all)` is of, and whether each is."""

    source: Pictures | Decoded

    def __post_init__(self) -> None:
        check_images(self.source, "augmented-or-not")

    def batch(self, number: int, size: int) -> Batch:
        """Batch `number`, of images that are not augmented yet."""
        source = self.source.pictures
        indices = source.drawn(number, source.checked(size))[distributed.share(size)]
        generator = generator_of(self.source.seed, Stream.GROUPS, number, distributed.rank())
        augmented = torch.randint(2, (len(indices), 1), generator=generator).float()
        return Batch(source.images(indices), factors=augmented)

    def prepare(self, batch: Batch) -> Batch:
        """The batch on its device with some of its images augmented, by draws that belong to it and to this process."""
        assert batch.factors is not None
        numbers = Stream.AUGMENTATIONS, batch.number, distributed.rank()
        generator = generator_of(self.source.seed, *numbers, device=batch.observations.device)
        (images,) = views([batch.observations], batch.factors[:, 0] > 0, "all", generator=generator)
        return replace(batch, observations=images)
