"""Whether a dataset is what it says: every checksum, every row, and some images rendered again."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ident.render import temporary
from ident.render.aliases import Array, Tell
from ident.render.blender.settings import absent, renderer
from ident.render.errors import Failed, Impossible
from ident.render.stage.cluster import cycles_gpus
from ident.render.stage.pool import frames
from ident.render.store import shards
from ident.render.store.dataset import Dataset, fetch, open_file
from ident.render.store.manifest import AGAIN, MANIFEST, Manifest, Uniform, agreed, source_of
from ident.render.store.shards import Shard
from ident.render.store.storage import Storage
from ident.render.worlds import latents

THREADS = 4  # decoding leaves Python alone for most of the time
SAME_SCENE = 35.0
"""PSNR in dB from which two engines are believed to show the same scene: presets reach 42, another scene 25."""


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


def verify(place: str, *, rerender: int = 0, seed: int = 0, done: Tell) -> Verdict:
    """Check a dataset: what it lists, every shard, and `rerender` images."""
    storage = Storage(place)
    manifest = Manifest.read(storage)
    if rerender:
        check_rerender(storage, manifest, rerender)
    wrong = []
    if not manifest.complete:
        wrong.append(f"{storage.path(MANIFEST)}: incomplete, {manifest.done} of {manifest.n} images are there; {AGAIN}")
    rerender = min(rerender, manifest.n)
    checked, total = 0, manifest.done + rerender
    done(checked, total)
    with ThreadPoolExecutor(THREADS) as pool:
        faults = pool.map(lambda number: fault_of(storage, manifest, number), manifest.shards)
        for record, fault in zip(manifest.shards.values(), faults, strict=True):
            checked += record.n
            done(checked, total)
            if fault:
                wrong.append(fault)
    if wrong or not rerender:
        return Verdict(manifest.n, manifest.count, tuple(wrong))
    return again(storage, manifest, rerender, seed, done=lambda count: done(checked + count, total))


def check_rerender(storage: Storage, manifest: Manifest, count: int) -> None:
    """Refuse to begin where images cannot be rendered again."""
    if manifest.render is None:
        raise Impossible(f"{storage.path(MANIFEST)} does not say how the images were rendered: leave out --rerender")
    if lacking := absent():
        raise Impossible(f"--rerender {count}: {lacking}, or leave out --rerender")


def fault_of(storage: Storage, manifest: Manifest, number: int) -> str | None:
    """What is wrong with a shard, if anything is. Of a remote one a fresh copy is looked at, not the cache's."""
    file, record = manifest.span(number).file, manifest.shards[number]
    try:
        if storage.folder:
            wrong = storage.fault(file, record.bytes, record.sha256)
            return (
                f"{storage.path(file)}: {wrong}; {AGAIN}" if wrong else rows_of(storage.folder / file, manifest, number)
            )
        with temporary.folder() as folder:
            fetch(storage, manifest, number, folder / "shard.h5")
            wrong = rows_of(folder / "shard.h5", manifest, number)
            return wrong and f"{storage.path(file)}: {wrong}"
    except (Failed, Impossible, OSError, MemoryError) as error:
        return str(error) or f"{storage.path(file)}: {type(error).__name__}"


def rows_of(path: Path, manifest: Manifest, number: int) -> str | None:
    """What is wrong with the rows of a shard whose checksum is right."""
    shard = open_file(path, manifest, number)
    try:
        return wrong_rows(shard, manifest, number)
    finally:
        shard.close()


def wrong_rows(shard: Shard, manifest: Manifest, number: int) -> str | None:
    """What does not fit dataset.json, of an open shard."""
    record = manifest.shards[number]
    latents.check(shard.latents, str(shard.path))
    source = source_of(manifest.source)
    if isinstance(source, Uniform) and not np.array_equal(shard.latents, source(record.start, record.n)):
        return f"{shard.path}: its latents are not those of {json.dumps(manifest.source)}"
    if stated_recipe(shard) != agreed(manifest.recipe()):
        return f"{shard.path}: it was made by another recipe than {MANIFEST} says"
    total = shards.NOTHING
    for row in range(record.n):
        total = shards.add(total, shards.sums(shard.read("images", row)))
        for name in manifest.columns:
            if name == "positive_latents":
                latents.check(shard.read(name, row)[None], f"{shard.path}: {name} {row}")
            elif name != "images":
                shard.read(name, row)
    if total != record.sums:
        return f"{shard.path}: the sums of its pixels are {total}, {MANIFEST} says {record.sums}"
    return None


def stated_recipe(shard: Shard) -> dict[str, Any] | None:
    """By what a shard says that it was made."""
    try:
        return agreed(json.loads(shard.recipe))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def psnr(one: Array, other: Array) -> float:
    """Peak signal-to-noise ratio of two 8-bit images, in dB."""
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def again(storage: Storage, manifest: Manifest, count: int, seed: int, done: Callable[[int], object]) -> Verdict:
    """Render some images again. The same engine gives the same bytes; another one comes close."""
    made_by = manifest.settings()
    settings = replace(made_by, gpus=min(made_by.gpus, cycles_gpus()) if made_by.gpus else 0)
    chosen = np.sort(np.random.default_rng(seed).choice(manifest.n, count, replace=False))
    data = Dataset(storage.url)
    images, raw = data[chosen]
    if manifest.positives is not None:
        images = np.concatenate([images, data.positives(chosen)])
        raw = np.concatenate([raw, data.read_many("positive_latents", chosen)])
    scores = list[float]()
    for i, frame in frames(raw, settings):
        scores.append(psnr(frame["image"], images[i]))
        done(min(len(scores), count))
    identical, worst = sum(score == float("inf") for score in scores), min(scores)
    made = manifest.render or {}
    versions = {name: value for name, value in renderer().items() if name != "ident"}
    same_engine = settings == made_by and all(made.get(name) == value for name, value in versions.items())
    wrong: tuple[str, ...] = ()
    if identical < len(scores) and (same_engine or worst < SAME_SCENE):
        of = "on the same engine, where they should be identical" if same_engine else "on another engine"
        differ = f"{len(scores) - identical} of {len(scores)} images differ"
        wrong = (f"{storage}: {differ}, rendered again {of}: {worst:.1f} dB for the worst",)
    return Verdict(manifest.n, manifest.count, wrong, len(scores), identical, None if worst == float("inf") else worst)
