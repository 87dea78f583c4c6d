"""Whether a dataset is what it says: every checksum, and every row."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ident.render import temporary, worlds
from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.store.columns import IMAGES, POSITIVE_LATENTS, add, no_sums, sums
from ident.render.store.dataset import fetch, open_file
from ident.render.store.format1 import upgraded_recipe
from ident.render.store.manifest import AGAIN, MANIFEST, Manifest
from ident.render.store.recipe import agreed, uniform
from ident.render.store.shards import FORMER, Shard
from ident.render.store.storage import Storage
from ident.render.worlds import World
from ident.render.worlds.factors import check_raw

THREADS = 4  # decoding leaves Python alone for most of the time


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


def verify(place: str, world: World | None = None, *, done: Tell) -> Verdict:
    """Check a dataset: what it lists, and every shard; its latents, too, if its world is ours or given."""
    storage = Storage(place)
    manifest = Manifest.read(storage)
    if world is None or world.digest != manifest.world.digest:
        world = worlds.known(manifest.world)
    wrong = []
    if not manifest.complete:
        wrong.append(f"{storage.path(MANIFEST)}: incomplete, {manifest.done} of {manifest.n} images are there; {AGAIN}")
    checked = 0
    done(checked, manifest.done)
    with ThreadPoolExecutor(THREADS) as pool:
        faults = pool.map(lambda number: fault_of(storage, manifest, number, world), manifest.shards)
        for record, fault in zip(manifest.shards.values(), faults, strict=True):
            checked += record.n
            done(checked, manifest.done)
            if fault:
                wrong.append(fault)
    return Verdict(manifest.n, manifest.count, tuple(wrong))


def fault_of(storage: Storage, manifest: Manifest, number: int, world: World | None) -> str | None:
    """What is wrong with a shard, if anything is. Of a remote one a fresh copy is looked at, not the cache's."""
    file, record = manifest.span(number).file, manifest.shards[number]
    try:
        if storage.folder:
            wrong = storage.fault(file, record.bytes, record.sha256)
            return (
                f"{storage.path(file)}: {wrong}; {AGAIN}"
                if wrong
                else rows_of(storage.folder / file, manifest, number, world)
            )
        with temporary.folder() as folder:
            fetch(storage, manifest, number, folder / "shard.h5")
            wrong = rows_of(folder / "shard.h5", manifest, number, world)
            return wrong and f"{storage.path(file)}: {wrong}"
    except (Failed, Impossible, OSError, MemoryError) as error:
        return str(error) or f"{storage.path(file)}: {type(error).__name__}"


def rows_of(path: Path, manifest: Manifest, number: int, world: World | None) -> str | None:
    """What is wrong with the rows of a shard whose checksum is right."""
    shard = open_file(path, manifest, number)
    try:
        return wrong_rows(shard, manifest, number, world)
    finally:
        shard.close()


def wrong_rows(shard: Shard, manifest: Manifest, number: int, world: World | None) -> str | None:
    """What does not fit dataset.json, of an open shard."""
    record = manifest.shards[number]
    check_raw(shard.latents, manifest.factors, str(shard.path))
    draws = uniform(manifest.source, world) if world else None
    if draws and not np.array_equal(shard.latents, draws(record.start, record.n)):
        return f"{shard.path}: its latents are not those of {json.dumps(manifest.source)}"
    if stated_recipe(shard) != agreed(manifest.recipe()):
        return f"{shard.path}: it was made by another recipe than {MANIFEST} says"
    total = no_sums(manifest.shape[2])
    for row in range(record.n):
        total = add(total, sums(shard.read(IMAGES, row)))
        for name in manifest.columns:
            if name == POSITIVE_LATENTS:
                check_raw(shard.read(name, row)[None], manifest.factors, f"{shard.path}: {name} {row}")
            elif name != IMAGES:
                shard.read(name, row)
    if total != record.sums:
        return f"{shard.path}: the sums of its pixels are {total}, {MANIFEST} says {record.sums}"
    return None


def stated_recipe(shard: Shard) -> dict[str, Any] | None:
    """By what a shard says that it was made."""
    try:
        recipe = json.loads(shard.recipe)
        return agreed(upgraded_recipe(recipe) if shard.format == FORMER else recipe)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
