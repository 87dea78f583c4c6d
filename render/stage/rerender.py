"""Whether images of a dataset, rendered again, are those that it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ident.render import worlds
from ident.render.aliases import Array, Tell
from ident.render.errors import Impossible
from ident.render.stage.cluster import cycles_gpus
from ident.render.stage.pool import frames
from ident.render.store.columns import POSITIVE_LATENTS
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import MANIFEST, Manifest
from ident.render.store.storage import Storage
from ident.render.store.verify import Verdict, verify
from ident.render.worlds import World

SAME_SCENE = 35.0
"""PSNR in dB from which two engines are believed to show the same scene: presets reach 42, another scene 25."""


def rendered_world(manifest: Manifest, world: World | None = None) -> World:
    """The world by which a dataset's images can be rendered again: one of ours, or the one given; an error if not."""
    if manifest.render is None:
        raise Impossible(f"{MANIFEST} does not say how the images were rendered")
    facts = manifest.world
    if world is None:
        if facts.name not in worlds.WORLDS:
            raise Impossible(f"world {facts.name} is not one of {', '.join(worlds.WORLDS)}")
        world = worlds.load(facts.name)
    if world.digest != facts.digest:
        raise Impossible(
            f"the dataset was made by another definition of world {facts.name}, {facts.digest[:12]}; that of "
            f"{world.name} here is {world.digest[:12]}"
        )
    if lacking := world.engine_settings.absent():
        raise Impossible(lacking)
    return world


def verify_and_rerender(place: str, count: int, world: World, *, seed: int = 0, done: Tell) -> Verdict:
    """Check a dataset of a world, and render so many of its images again."""
    manifest = Manifest.read(Storage(place))
    count = min(count, manifest.n)
    total = manifest.done + count
    verdict = verify(place, world, done=lambda checked, _: done(checked, total))
    if verdict.wrong or not count:
        return verdict
    return rerender(place, count, world, verdict, seed=seed, done=lambda scored, _: done(manifest.done + scored, total))


def psnr(one: Array, other: Array) -> float:
    """Peak signal-to-noise ratio of two 8-bit images, in dB."""
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def rerender(place: str, count: int, world: World, verdict: Verdict, *, seed: int, done: Tell) -> Verdict:
    """Render so many images again. The same engine gives the same bytes; another one comes close."""
    data = Dataset(place)
    manifest = data.manifest
    rendered_by = manifest.settings(world)
    settings = rendered_by.on(min(rendered_by.gpus, cycles_gpus()) if rendered_by.gpus else 0)
    chosen = np.sort(np.random.default_rng(seed).choice(manifest.n, count, replace=False))
    images, raw = data[chosen]
    if manifest.positives is not None:
        images = np.concatenate([images, data.positives(chosen)])
        raw = np.concatenate([raw, data.read_many(POSITIVE_LATENTS, chosen)])
    scores = list[float]()
    for i, frame in frames(world, settings, raw):
        scores.append(psnr(frame["image"], images[i]))
        done(min(len(scores), count), count)
    identical, worst = sum(score == float("inf") for score in scores), min(scores)
    versions = {name: version for name, version in settings.versions().items() if name != "ident"}
    stated = manifest.render or {}
    same_engine = settings == rendered_by and all(stated.get(name) == version for name, version in versions.items())
    wrong: tuple[str, ...] = ()
    if identical < len(scores) and (same_engine or worst < SAME_SCENE):
        engine = "on the same engine, where they should be identical" if same_engine else "on another engine"
        differ = f"{len(scores) - identical} of {len(scores)} images differ"
        wrong = (f"{data.storage}: {differ}, rendered again {engine}: {worst:.1f} dB for the worst",)
    return replace(
        verdict,
        wrong=wrong,
        rerendered=len(scores),
        identical=identical,
        psnr=None if worst == float("inf") else worst,
    )
