"""Training on images end to end, against a plain loop over PNG files, and against the encoder alone.

All three take the same steps of row 1 of Table 4 with images of 224 x 224: the same pairs' worth of search, decoding,
forward, backward and Adam.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import faiss
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.functional import normalize, to_tensor

from ident.benchmark import distributions, encoders, losses, spaces
from ident.benchmark.suites import data, rows
from ident.benchmark.suites.images import Images
from ident.benchmark.train import Loss, Training, optimizers_of, step
from ident.render import stage
from ident.render.dataset import Dataset
from ident.render.manifest import Recipe, Uniform
from ident.render.plan import Plan
from ident.render.settings import PRESETS, Settings
from ident.render.storage import Storage

SIZE, BATCH, STEPS, ROUNDS = 224, 64, 3, 5
COUNTS = {"train": 256, "test": 16}
BARS = {"plain": 3.5, "alone": 0.9}
TRAINING = Training(steps=100, batch_size=BATCH, learning_rate=1e-4, precision="bfloat16")
CPU = torch.device("cpu")

Step = Callable[[], object]


def render(folder: Path) -> dict[str, rows.Data]:
    """A few images to train on, and some more."""
    for split, n in COUNTS.items():
        recipe = Recipe(Uniform(0, split), Settings(SIZE, PRESETS["draft"]), shard_size=32)
        stage.render(Plan(Storage(str(folder / split)), recipe, n), address=None, force=False, tell=lambda _: None)
    return data.find({split: str(folder / split) for split in COUNTS}, rows.load_tier("laptop", images=True))


def ours(found: dict[str, rows.Data], *, alone: bool) -> Step:
    """A step as `ident bench` takes it; or on the same images each time, which are there."""
    tier = replace(rows.load_tier("paper", images=True), unsupervised=TRAINING, samples=16)
    task = Images(rows.Run("table4", rows.load_suite("table4").rows[0], "unsupervised", 0, tier, found), "cpu")
    loss_of, optimizers, batches = Loss(task), optimizers_of(task.model, TRAINING), task.batches(0)
    there, scaler = next(batches), torch.amp.GradScaler("cpu", enabled=False)
    return lambda: step(loss_of, there if alone else next(batches), optimizers, scaler, CPU, TRAINING.precision)


def plain(found: dict[str, rows.Data], folder: Path) -> Step:
    """A step of the loop that one would write: a file and a search an item, everything in float32."""
    images = Dataset(found["train"].place)
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
        around = torch.from_numpy(images.latents[anchor : anchor + 1])
        wished = conditional.draw(box, around, generator=generator).numpy()
        nearest = index.search(np.ascontiguousarray(wished), 2)[1][0]
        return read(anchor), read(int(nearest[nearest != anchor][0]))

    def take() -> None:
        anchors, positives = (torch.stack(some) for some in zip(*(item() for _ in range(BATCH)), strict=True))
        optimizer.zero_grad()
        anchor, positive = encoder(torch.cat([anchors, positives])).chunk(2)
        losses.info_nce(anchor, positive, similarity=losses.parse("normal")).backward()
        optimizer.step()

    return take


def seconds(step: Step) -> float:
    """Of a step."""
    began = time.perf_counter()
    for _ in range(STEPS):
        step()
    return (time.perf_counter() - began) / STEPS


def measure() -> Iterator[dict[str, Any]]:
    """Images a second, as ratios of medians over rounds in which each way has its turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = render(folder)
        ways = {"ours": ours(found, alone=False), "alone": ours(found, alone=True), "plain": plain(found, folder)}
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS + 1):  # the first warms up
            for way, take in ways.items():
                times[way].append(seconds(take))
        rate = {way: 2 * BATCH / median(taken[1:]) for way, taken in times.items()}
    bfloat16 = bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    for way, bar in BARS.items():
        yield {
            "what": f"training against {'the encoder alone' if way == 'alone' else 'the plain loop'}",
            "images a second": round(rate["ours"], 1),
            "theirs": round(rate[way], 1),
            "ratio": round(rate["ours"] / rate[way], 2),
            "bar": bar,
            "bfloat16 units": bfloat16,
        }
