"""The datasets that a suite of images is trained and tested on: found, or rendered as a tier says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ident.benchmark.sources.data import FILES, Data
from ident.render.errors import Impossible
from ident.render.stage import cluster, plan, stage
from ident.render.store.dataset import DEFAULT, Dataset, check_there
from ident.render.store.recipe import Positives, Recipe, Uniform
from ident.render.store.storage import Storage
from ident.render.worlds.threedident import WORLD

if TYPE_CHECKING:
    from ident.benchmark.suites.tiers import Tier  # which takes PyTorch, and that seconds

PLACES = {"train": DEFAULT, "test": f"{DEFAULT}-test"}
COUNTS = {"train": 30_000, "test": 2000}
"""Images that the laptop's tier is meant for."""


def places(train: str | None, test: str | None, tier: str = "", *, exact: bool = False) -> dict[str, str]:
    """Where datasets lie, or shall: those that `--render` makes have the name of a tier, and of exact positives."""
    behind = f"-{tier}" if tier else ""
    usual = {split: place.replace("3dident", f"3dident{behind}", 1) for split, place in PLACES.items()}
    usual["train"] += "-exact" * exact
    return {"train": train or usual["train"], "test": test or usual["test"]}


def check_all_there(places: Mapping[str, str]) -> None:
    """Refuse places of which one has no dataset, saying what to type."""
    for split, place in places.items():
        instead = f"; or give another {'--data' if split == 'train' else '--test-data'}, or --render for small ones"
        check_there(place, f" to {split} on", n=COUNTS[split], split=split, instead=instead)


def find(places: Mapping[str, str]) -> dict[str, Data]:
    """The datasets that are there; where one is not, what to type is said. Or where published files lie."""
    if FILES in places:
        return {FILES: Data(str(Path(places[FILES]).absolute()), "", 0)}
    check_all_there(places)
    datasets, sources = dict[str, Data](), dict[str, Mapping[str, object]]()
    for split, place in places.items():
        data = Dataset(place)
        shards = [data.manifest.shards[number].sha256 for number in range(data.manifest.count)]
        absolute = str(data.storage.folder.absolute()) if data.storage.folder else place
        datasets[split] = Data(absolute, sha256(json.dumps(shards).encode()).hexdigest(), data.shape[0])
        sources[split] = data.manifest.source
    sizes = {split: one.size for split, one in datasets.items()}
    if sizes["train"] != sizes["test"]:
        raise Impossible(
            f"images of {sizes['train']} pixels to train on, of {sizes['test']} to test on: give alike ones"
        )
    drawn_alike = sources["train"] == sources["test"] and sources["train"]["kind"] == "uniform"
    if drawn_alike or datasets["train"].digest == datasets["test"].digest:
        raise Impossible(
            f"{places['test']}: has images that are trained on; give another --test-data, of ident render --split test"
        )
    return datasets


def larger(data: Data, tier: Tier) -> str:
    """How much longer a step takes than with the images that the tier is meant for; nothing, if they are no larger."""
    if tier.render is None or data.size <= tier.render.size:
        return ""
    times = (data.size / tier.render.size) ** 2
    meant = f"tier {tier.name} is meant for {tier.render.size} x {tier.render.size}, and --render makes them"
    return f"{data.place}: images of {data.size} x {data.size}, a step takes {times:.0f} times as long; {meant}"


def render(
    split: str, place: str, tier: Tier, address: str | None, tell: stage.TellStatus, positives: Positives | None = None
) -> None:
    """Render what a tier asks for as a split, or what is missing of it; with positives, if it is to train on."""
    if tier.render is None:
        raise Impossible(f"--render: tier {tier.name} has nothing to render; type ident render, or ident pull")
    n = getattr(tier.render, split)
    out = Storage(place)
    gpus = cluster.gpus_there(address)
    settings = WORLD.settings(size=tier.render.size, quality=tier.render.quality, gpus=gpus)
    exact = positives if split == "train" else None
    recipe = plan.going_on(out, Recipe(Uniform(0, split), settings, positives=exact), n)
    stage.render(plan.Plan(out, recipe, n, gpus), address=address, force=False, tell=tell)
