"""The datasets that a suite of images is trained and tested on: found, or rendered as a tier says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from ident.benchmark.suites.tiers import Tier
from ident.render import cluster, plan, stage
from ident.render.dataset import Dataset
from ident.render.errors import Impossible
from ident.render.manifest import MANIFEST, Recipe, Uniform
from ident.render.settings import PRESETS, Settings
from ident.render.storage import Storage

PLACES = {"train": "data/3dident", "test": "data/3dident-test"}
"""Where `ident render` and `ident pull` put them."""


@dataclass(frozen=True)
class Data:
    """A dataset: where it lies, a digest of all that is in it, and the side of its images."""

    place: str
    digest: str
    size: int


def places(train: str | None, test: str | None, tier: Tier, *, render: bool) -> dict[str, str]:
    """Where the datasets lie, or shall: those that `--render` makes have the tier's name."""
    behind = f"-{tier.name}" if render else ""
    usual = {split: place.replace("3dident", f"3dident{behind}", 1) for split, place in PLACES.items()}
    return {"train": train or usual["train"], "test": test or usual["test"]}


def find(places: Mapping[str, str], tier: Tier) -> dict[str, Data]:
    """The datasets that are there; where one is not, what to type is said."""
    found, sources = dict[str, Data](), dict[str, Mapping[str, object]]()
    for split, place in places.items():
        if Storage(place).size(MANIFEST) is None:
            option = "--data" if split == "train" else "--test-data"
            says = f"ident render{'' if split == 'train' else ' --split test'} --n N --out {place}"
            made = f"; or --render, {described(tier)}" if tier.render else ""
            raise Impossible(f"{place}: no dataset to {split} on; give another {option}, or type {says}{made}")
        data = Dataset(place)
        shards = [data.manifest.shards[number].sha256 for number in range(data.manifest.count)]
        absolute = str(data.storage.folder.absolute()) if data.storage.folder else place
        found[split] = Data(absolute, sha256(json.dumps(shards).encode()).hexdigest(), data.manifest.size)
        sources[split] = data.manifest.source
    sizes = {split: one.size for split, one in found.items()}
    if sizes["train"] != sizes["test"]:
        raise Impossible(
            f"images of {sizes['train']} pixels to train on, of {sizes['test']} to test on: give alike ones"
        )
    drawn_alike = sources["train"] == sources["test"] and sources["train"]["kind"] == "uniform"
    if drawn_alike or found["train"].digest == found["test"].digest:
        raise Impossible(
            f"{places['test']}: has images that are trained on; give another --test-data, of ident render --split test"
        )
    return found


def larger(data: Data, tier: Tier) -> str:
    """How much longer a step takes than with the images that the tier is meant for; nothing, if they are no larger."""
    if tier.render is None or data.size <= tier.render.size:
        return ""
    times = (data.size / tier.render.size) ** 2
    meant = f"tier {tier.name} is meant for {tier.render.size} x {tier.render.size}, and --render makes them"
    return f"{data.place}: images of {data.size} x {data.size}, a step takes {times:.0f} times as long; {meant}"


def described(tier: Tier) -> str:
    """What `--render` makes."""
    assert tier.render is not None
    made = tier.render
    return f"which makes {made.train} and {made.test} images of {made.size} x {made.size}"


def render(split: str, place: str, tier: Tier, address: str | None, tell: stage.Tell) -> None:
    """Render what a tier asks for as a split, or what is missing of it."""
    if tier.render is None:
        raise Impossible(f"--render: tier {tier.name} has nothing to render; type ident render, or ident pull")
    n = getattr(tier.render, split)
    out = Storage(place)
    settings = Settings(tier.render.size, PRESETS[tier.render.quality], cluster.gpus_there(address))
    recipe = Recipe(Uniform(0, split), settings, shard_size=plan.shard_size(out, n))
    stage.render(plan.Plan(out, recipe, n, settings.gpus), address=address, force=False, tell=tell)
