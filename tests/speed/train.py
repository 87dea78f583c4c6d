"""Training on images end to end, against a plain loop over PNG files, and against the encoder alone.

All three take steps of `box-normal` of Table 4 with images of 224 x 224: search, decoding, forward, backward and Adam.
Ours are in bfloat16, channels last, in groups by a bank; the plain loop's are what one would write first. And what such
groups cost: a step of the laptop's tier against the choice of its anchors by a bank of all its images.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.functional import normalize, to_tensor

from ident.benchmark.latents import distributions, spaces
from ident.benchmark.losses import contrastive as losses
from ident.benchmark.losses import similarities
from ident.benchmark.models import encoders
from ident.benchmark.objectives.contrastive import InfoNCE
from ident.benchmark.pairs.bank import Bank, Groups
from ident.benchmark.sources.data import Data
from ident.benchmark.suites import datasets, runs, suite, tiers
from ident.benchmark.suites.task import RowTask
from ident.benchmark.training.optimizers import State, autocast
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.train import Loss, keep_memory, step
from ident.render.blender.settings import PRESETS, Settings
from ident.render.stage import stage
from ident.render.stage.plan import Plan
from ident.render.store.dataset import Dataset
from ident.render.store.recipe import Recipe, Uniform
from ident.render.store.storage import Storage
from tests.speed import rounds
from tests.speed.rounds import Step

SIZE, BATCH, STEPS, ROUNDS = 224, 64, 3, 5
COUNTS = {"train": 256, "test": 16}
BARS = {"plain": 3.8, "alone": 0.95}
CHOICES, CHOOSING_BAR = 20, 50
TRAINING = Training(steps=100, batch_size=BATCH, learning_rate=1e-4, precision="bfloat16")


def render(folder: Path) -> dict[str, Data]:
    """A few images to train on, and some more."""
    for split, n in COUNTS.items():
        recipe = Recipe(Uniform(0, split), Settings(SIZE, PRESETS["draft"]), shard_size=32)
        stage.render(Plan(Storage(str(folder / split)), recipe, n), address=None, force=False, tell=lambda _: None)
    return datasets.find({split: str(folder / split) for split in COUNTS})


def task_of(datasets: dict[str, Data]) -> RowTask:
    """`box-normal` of Table 4."""
    paper = tiers.load_tier("paper", "dataset")
    tier = replace(paper, unsupervised=TRAINING, samples=16, pairs={**paper.pairs, "groups": 32, "fade": (1.0, 1.0)})
    row = suite.load_suite("table4").row("box-normal")
    return RowTask(runs.Run("table4", row, "unsupervised", 0, tier, datasets), "cpu")


def ours(datasets: dict[str, Data], alone: bool) -> Step:
    """A step as `ident bench` takes it; or on the same images each time, which are there."""
    keep_memory()
    task = task_of(datasets)
    loss_of, state, batches = Loss(task), State.of(task.model, TRAINING), task.batches(0)
    there = next(batches)
    return lambda: step(loss_of, there if alone else next(batches), state)


def plain(datasets: dict[str, Data], folder: Path) -> Step:
    """A step of the loop that one would write: a file and a search an item, everything in float32."""
    images = Dataset(datasets["train"].place)
    mean, sd = images.manifest.moments()
    for number in range(len(images)):
        Image.fromarray(images.image(number)).save(folder / f"{number}.png")
    index = faiss.IndexFlatL2(10)
    index.add(images.latents)
    encoder = encoders.encoder(10, "box", 1.0, "resnet18").train()
    optimizer = torch.optim.Adam(encoder.parameters(), TRAINING.learning_rate)
    conditional, generator = distributions.parse("normal(0.1)"), torch.Generator().manual_seed(0)
    box = spaces.parse("box", 10)

    def read(number: int) -> Tensor:
        with Image.open(folder / f"{number}.png") as file:
            read: Tensor = normalize(to_tensor(file.convert("RGB")), mean, sd)
        return read

    def item() -> tuple[Tensor, Tensor]:
        anchor = int(torch.randint(len(images), (), generator=generator))
        around = torch.from_numpy(images.latents[anchor : anchor + 1].copy())
        wished = conditional.draw(box, around, generator=generator).numpy()
        nearest = index.search(np.ascontiguousarray(wished), 2)[1][0]
        return read(anchor), read(int(nearest[nearest != anchor][0]))

    def take() -> None:
        anchors, positives = (torch.stack(some) for some in zip(*(item() for _ in range(BATCH)), strict=True))
        optimizer.zero_grad()
        anchor, positive = encoder(torch.cat([anchors, positives])).chunk(2)
        losses.info_nce(anchor, positive, similarity=similarities.parse("normal")).backward()
        optimizer.step()

    return take


def laptop() -> Step:
    """A step of the laptop's tier, of images that are there."""
    keep_memory()
    tier, generator = tiers.load_tier("laptop", "dataset"), torch.Generator().manual_seed(0)
    training = tier.unsupervised
    model = encoders.for_images(encoders.encoder(10, "box", 1.0, tier.model.encoder), ([0.5] * 3, [0.25] * 3))
    images = torch.randint(256, (2 * training.batch_size, 3, 64, 64), dtype=torch.uint8, generator=generator)

    def loss_of(batch: Tensor) -> Tensor:
        return losses.info_nce(*model(batch).chunk(2), similarity=similarities.parse("normal"))

    state = State.of(model, training)
    return lambda: step(Function(loss_of, model), images, state)


class Function(torch.nn.Module):
    """A function with the modules that it uses."""

    def __init__(self, function: Callable[[Tensor], Tensor], model: torch.nn.Module) -> None:
        super().__init__()
        self.function, self.model = function, model

    def forward(self, batch: Tensor) -> Tensor:
        """What the function gives."""
        return self.function(batch)


def choosing() -> Step:
    """What a step of the laptop's tier takes beside that with groups: to keep its representations, and to choose."""
    tier, generator = tiers.load_tier("laptop", "dataset"), torch.Generator().manual_seed(0)
    assert tier.render is not None
    images, size = tier.render.train, tier.unsupervised.batch_size
    bank = Bank(Groups(32, (1.0, 1.0)), images=images, dim=10, batch_size=size, steps=10**6, ahead=8, seed=0)
    bank.remember(torch.arange(images), torch.randn(images, 10, generator=generator))
    critic = InfoNCE("normal").critic
    shown, points = torch.randint(images, (2 * size,), generator=generator), torch.randn(2 * size, 10)
    numbers = count()

    def choose() -> None:
        bank.remember(shown, points)
        assert bank.choose(next(numbers), critic) is not None

    return choose


def alike(datasets: dict[str, Data]) -> float:
    """The cosine between the gradients of a batch in bfloat16 and in float32: the quality that is kept."""
    gradients = []
    for precision in (TRAINING.precision, "float32"):
        task = task_of(datasets)
        task.model.train()
        with autocast(torch.device("cpu"), precision):
            loss = task.loss(next(task.batches(0)))
        loss.backward()
        gradients.append(torch.cat([weights.grad.flatten() for weights in task.model.parameters()]))  # type: ignore[union-attr]
    ours, full = gradients
    return float(torch.nn.functional.cosine_similarity(ours, full, dim=0))


def measure() -> Iterator[dict[str, Any]]:
    """Images a second, as ratios of medians."""
    with tempfile.TemporaryDirectory() as name:
        datasets = render(Path(name))
        ways = {
            "ours": rounds.Way(ours, (datasets, False), STEPS),
            "alone": rounds.Way(ours, (datasets, True), STEPS),
            "plain": rounds.Way(plain, (datasets, Path(name)), STEPS),
        }
        rate = {way: 2 * BATCH / cost.seconds for way, cost in rounds.measure(ways, ROUNDS).items()}
        cosine = alike(datasets)
    ways = {"laptop": rounds.Way(laptop, (), 1), "choosing": rounds.Way(choosing, (), CHOICES)}
    seconds = {way: cost.seconds for way, cost in rounds.measure(ways, ROUNDS).items()}
    bfloat16 = bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    for way, bar in BARS.items():
        yield {
            "name": f"train.{way}",
            "ratio": round(rate["ours"] / rate[way], 2),
            "bar": bar,
            "quality": round(cosine, 4),
            "unit": f"times {'the encoder on images in memory' if way == 'alone' else 'the plain loop'}",
            "note": f"{rate['ours']:.1f} images a second against {rate[way]:.1f}, {SIZE} x {SIZE}, batch {BATCH}; "
            f"quality: cosine of gradients to float32's; bfloat16 units: {'yes' if bfloat16 else 'no'}",
        }
    yield {
        "name": "train.choosing",
        "ratio": round(seconds["laptop"] / seconds["choosing"], 2),
        "bar": CHOOSING_BAR,
        "quality": 1.0,
        "unit": "times the choice of a batch's groups",
        "note": f"a step of {seconds['laptop']:.2f} s, a choice of {1000 * seconds['choosing']:.1f} ms",
    }
