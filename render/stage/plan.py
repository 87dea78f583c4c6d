"""What is to be rendered and to where; what is there already; and whether it can be."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ident.render.errors import Failed, Impossible
from ident.render.stage.cluster import check_gpus, gpus_there
from ident.render.stage.pool import frames
from ident.render.store.codecs import CODECS
from ident.render.store.columns import IMAGES, POSITIVE_LATENTS, POSITIVES
from ident.render.store.files import SPARE, check_room, free_bytes
from ident.render.store.inventory import import_begun, manifest_there, shard_files, whole_shards
from ident.render.store.manifest import MANIFEST, MOST_SHARDS, Manifest, Record
from ident.render.store.recipe import Recipe, agreed
from ident.render.store.storage import Storage
from ident.render.threads import cores
from ident.render.worlds import World
from ident.render.worlds.engine import Engine

PASS_BYTES = {"mask": 0.05, "depth": 1.5, "normal": 3.0}
"""About how many bytes a pixel of a pass takes."""


@dataclass(frozen=True)
class Plan:
    """What is to be rendered, to where, and by whom."""

    out: Storage
    recipe: Recipe
    n: int
    gpus: int = 0
    workers: int | None = None
    """How many at once: by default one a GPU, or one a core."""
    recycle: int | None = None
    """A worker is replaced after so many images."""
    max_failures: int = 10
    """The run stops when more workers than this failed with no shard finished in between."""
    patience: float | None = None
    """Seconds without a sign of life after which a worker hangs, if not the stage's own."""
    engine: Callable[[Any], Engine] | None = None
    """Starts another engine than the world's, in tests."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("n", self.n, 1),
            ("workers", self.workers, 1),
            ("recycle", self.recycle, 1),
            ("max-failures", self.max_failures, 0),
            ("gpus", self.gpus, 0),
        ):
            if value is not None and not least <= value <= 2**40:
                raise Impossible(f"--{name} {value}: give a whole number from {least} to {2**40}")
        if self.n > MOST_SHARDS * self.recipe.shard_size:
            raise Impossible(
                f"--n {self.n} with a shard size of {self.recipe.shard_size}: more than {MOST_SHARDS} files; "
                "give a larger --shard-size"
            )
        if self.workers and self.gpus and self.workers > self.gpus:
            raise Impossible(f"--workers {self.workers} with --gpus {self.gpus}: each has a GPU of its own; give fewer")

    @property
    def bytes_an_image(self) -> float:
        """About how much disk an image takes, with its passes."""
        height, width, _ = self.recipe.columns[IMAGES].shape
        images = CODECS[self.recipe.codec].bytes_a_pixel * (1 if self.recipe.positives is None else 2)
        passes = sum(PASS_BYTES.get(name, 1.0) for name in self.recipe.passes)
        return (images + passes) * height * width + 300

    def manifest(self, records: Mapping[int, Record]) -> Manifest:
        """The manifest with those shards that are finished."""
        return Manifest.of(self.recipe, self.n, records)


SHARD_SIZES = (16, 32, 64, 125, 250, 500, 1000)
SHARDS = 64
"""At least so many are cut, where there are images enough: a worker takes a shard at a time."""


def gpus_for(world: World, asked: int | None, address: str | None) -> int:
    """On how many GPUs a world is rendered: on all that there are, unless so many are asked for."""
    if asked is None:
        asked = gpus_there(address) if world.engine_settings.ON_GPUS else 0
    if address is None:
        check_gpus(asked)
    return asked


def going_on(out: Storage, recipe: Recipe, n: int, *, shard_size: int | None = None, force: bool = False) -> Recipe:
    """A recipe with the shard size of the dataset that is there, or what suits n images; it depends on no machine.

    A dataset that was begun when the options of its settings meant others goes on with those. One that differs from
    the recipe of a forced run does not count: it is overwritten.
    """
    out.check_output()
    try:
        begun = manifest_there(out)
    except Failed:
        if not force:
            raise
        begun = None
    if begun and not force and begun.world == recipe.world.facts and begun.render is not None:
        recipe = replace(recipe, settings=recipe.settings.as_begun(begun.settings(recipe.world)))
    if begun and force:
        kept = begun.n <= n and agreed(begun.recipe()) == agreed({**recipe.describe(), "shard_size": begun.shard_size})
        begun = begun if kept else None
    if shard_size is None and begun:
        shard_size = begun.shard_size
    if shard_size is None:
        shard_size = max(size for size in SHARD_SIZES if size == SHARD_SIZES[0] or size * SHARDS <= n)
    return replace(recipe, shard_size=shard_size)


def take_up(plan: Plan, *, force: bool) -> dict[int, Record] | None:
    """The finished shards of the output, by number; if another dataset is there, an error, or with force None."""
    try:
        return finished(plan)
    except (Failed, Impossible):
        if not force:
            raise
        return None


def finished(plan: Plan) -> dict[int, Record]:
    """The finished shards of the output, by number; an error if another dataset is there."""
    out, begun = plan.out, manifest_there(plan.out)
    if begun is None:
        if import_begun(out):
            raise Impossible(f"{out}: an import was begun there; give --force to overwrite it, or another --out")
        if shard_files(out):
            raise Impossible(
                f"{out}: {MANIFEST} is missing, but shards are; give --force to overwrite them, or another --out"
            )
        return {}
    wanted = plan.manifest({})
    wrong = differences(comparable(begun.recipe()), comparable(wanted.recipe()))
    if begun.n > plan.n:
        wrong.insert(0, f"n is {begun.n}, not {plan.n}")
    if wrong:
        raise Impossible(
            f"{out}: holds another dataset ({'; '.join(wrong)}): give --force to overwrite it, or another --out"
        )
    return {i: record for i, record in whole_shards(out, begun).items() if wanted.span(i).n == record.n}


def comparable(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe, but for what may differ, and for its columns by name."""
    columns = {column["name"]: column for column in recipe["columns"]}
    return {**agreed(recipe), "world": {**recipe["world"], "factors": None}, "columns": columns}


def differences(begun: Mapping[str, Any], wanted: Mapping[str, Any], inside: str = "") -> list[str]:
    """What two recipes differ in, in words."""
    lines = []
    for name in dict.fromkeys([*begun, *wanted]):
        one, two = begun.get(name), wanted.get(name)
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            lines += differences(one, two, f"{inside}{name}.")
        elif one != two:
            lines.append(f"{inside}{name} is {json.dumps(one)}, not {json.dumps(two)}")
    return lines


def check_disk(plan: Plan, missing: int) -> None:
    """Refuse to start where the disk is too small for the images that are missing."""
    if plan.out.folder is None or not missing:
        return
    needed = plan.bytes_an_image * missing
    said = f"{missing} images take about {needed / 1e9:.2f} GB, and {SPARE / 1e9:.2f} GB shall stay free;"
    check_room(plan.out.folder, needed, said, "give another --out or a smaller --n")


@dataclass(frozen=True)
class Estimate:
    """What a run would take."""

    images: int
    missing: int
    shards: int
    workers: int
    seconds: float
    bytes: int
    free: int | None
    """Bytes on the disk there; None if it is not a folder."""

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


TRIAL = 3  # images an engine


def estimate(plan: Plan, there: int, *, force: bool) -> Estimate:
    """What the run would take with so many cores, by a few images rendered now on each of this machine's."""
    plan.out.check_output()
    missing = plan.n - plan.manifest(take_up(plan, force=force) or {}).done
    raw = plan.recipe.source(0, TRIAL * (1 if plan.gpus else cores()))
    seconds, size = list[float](), 0
    for _, frame in frames(plan.recipe.world, plan.recipe.settings, raw, plan.recipe.passes):
        arrays = {IMAGES: frame["image"], POSITIVES: frame["image"], POSITIVE_LATENTS: raw[0], **frame}
        size += sum(len(column.encode(arrays[name])) for name, column in plan.recipe.columns.items())
        seconds.append(float(frame["seconds"]))
    workers = plan.workers or plan.gpus or there
    pace = statistics.median(seconds) * (1 if plan.recipe.positives is None else 2)
    return Estimate(
        images=plan.n,
        missing=missing,
        shards=plan.manifest({}).count,
        workers=workers,
        seconds=missing * pace / (workers if plan.gpus else min(workers, there)),
        bytes=int(plan.n * (size / len(raw) + 60)),
        free=free_bytes(plan.out.folder) if plan.out.folder else None,
    )
