"""Whether a dataset is what it says: every checksum, every row, and some images rendered again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ident.render import gallery, latents, shards
from ident.render.cluster import cycles_gpus
from ident.render.codecs import Array
from ident.render.dataset import MANIFEST, Dataset, Manifest, Record, Uniform, local_shard, open_shard
from ident.render.errors import Failed, Impossible
from ident.render.settings import renderer
from ident.render.storage import Storage, sha256

THREADS = 4  # decoding leaves Python alone for most of the time
SAME_SCENE = 35.0
"""PSNR in dB from which two engines are believed to show the same scene: presets reach 42, another scene 25."""

Done = Callable[[int, int], object]


@dataclass(frozen=True)
class Verdict:
    """What is wrong, a line each; and the images that were rendered again."""

    images: int
    shards: int
    wrong: tuple[str, ...]
    rerendered: int = 0
    identical: int = 0
    psnr: float | None = None
    """Of the worst image that is not identical, in dB."""

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def verify(place: str, *, rerender: int = 0, seed: int = 0, done: Done) -> Verdict:
    """Check a dataset: what it lists, every shard, and `rerender` images."""
    storage = Storage(place)
    manifest = Manifest.read(storage)
    wrong = []
    if not manifest.complete:
        wrong.append(f"{storage.path(MANIFEST)}: incomplete, {manifest.done} of {manifest.n} images")
    done(0, manifest.done)
    checked = 0
    with ThreadPoolExecutor(THREADS) as pool:
        for number, fault in zip(
            manifest.shards, pool.map(lambda i: fault_of(storage, manifest, i), manifest.shards), strict=True
        ):
            checked += manifest.shards[number].n
            done(checked, manifest.done)
            if fault:
                wrong.append(fault)
    if wrong or not rerender:
        return Verdict(manifest.n, manifest.count, tuple(wrong))
    return again(storage, manifest, rerender, seed)


def fault_of(storage: Storage, manifest: Manifest, number: int) -> str | None:
    """What is wrong with a shard, if anything is."""
    record = manifest.shards[number]
    try:
        path = local_shard(storage, manifest, number)
        found = sha256(path)
        if found != record.sha256:
            return f"{path}: damaged, its sha256 is {found}, not {record.sha256}"
        shard = open_shard(storage, manifest, number)
        try:
            return wrong_rows(shard, manifest, record)
        finally:
            shard.close()
    except (Failed, OSError) as error:
        return str(error)


def wrong_rows(shard: shards.Shard, manifest: Manifest, record: Record) -> str | None:
    """What is wrong with the rows of a shard whose checksum is right."""
    try:
        latents.check(shard.latents, str(shard.path))
    except Impossible as error:
        return str(error)
    source = manifest.source
    if source.get("kind") == "uniform":
        wanted = Uniform(source["seed"], source["split"])(record.start, record.n)
        if not np.array_equal(shard.latents, wanted):
            return f"{shard.path}: its latents are not those of seed {source['seed']}, split {source['split']}"
    total = shards.NOTHING
    for row in range(record.n):
        total = shards.add(total, shards.sums(shard.read("images", row)))
        for name in manifest.passes:
            shard.read(name, row)
    if total != record.sums:
        return f"{shard.path}: the sums of its pixels are {total}, {MANIFEST} says {record.sums}"
    return None


def psnr(one: Array, other: Array) -> float:
    """Peak signal-to-noise ratio of two 8-bit images, in dB."""
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def again(storage: Storage, manifest: Manifest, count: int, seed: int) -> Verdict:
    """Render some images again. The same engine gives the same bytes; another one comes close."""
    made_by = manifest.settings()
    settings = replace(made_by, gpus=min(made_by.gpus, cycles_gpus()) if made_by.gpus else 0)
    data = Dataset(storage.url)
    chosen = np.sort(np.random.default_rng(seed).choice(manifest.n, min(count, manifest.n), replace=False))
    images, raw = data[chosen]
    scores = [psnr(frame["image"], images[i]) for i, frame in gallery.frames(raw, settings)]
    identical, worst = sum(score == float("inf") for score in scores), min(scores)
    made = manifest.render or {}
    same_engine = settings == made_by and all(
        made.get(name) == value for name, value in renderer().items() if name != "ident"
    )
    wrong: tuple[str, ...] = ()
    if identical < len(scores) and (same_engine or worst < SAME_SCENE):
        of = "on the same engine, where they should be identical" if same_engine else "on another engine"
        differ = f"{len(scores) - identical} of {len(scores)} images differ"
        wrong = (f"{storage}: {differ}, rendered again {of}: {worst:.1f} dB for the worst",)
    return Verdict(manifest.n, manifest.count, wrong, len(scores), identical, None if worst == float("inf") else worst)
