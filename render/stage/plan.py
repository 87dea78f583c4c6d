"""What is to be rendered and to where; what is there already; and whether it can be."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ident.render.blender.settings import FORMER, Quality, Settings, preset
from ident.render.errors import Failed, Impossible
from ident.render.stage.pool import frames
from ident.render.stage.worker import Renders, blender
from ident.render.store.codecs import CODECS
from ident.render.store.files import SPARE, check_room, free_bytes
from ident.render.store.inventory import import_begun, manifest_there, shard_files, whole_shards
from ident.render.store.manifest import MANIFEST, MOST_SHARDS, Manifest, Recipe, Record, agreed
from ident.render.store.storage import Storage
from ident.render.threads import cores

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
    engine: Callable[[Settings], Renders] = blender

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
        pixel = CODECS[self.recipe.codec].bytes_a_pixel + sum(PASS_BYTES[name] for name in self.recipe.passes)
        images = CODECS[self.recipe.codec].bytes_a_pixel * (self.recipe.positives is not None)
        return (pixel + images) * self.recipe.settings.size**2 + 300

    def manifest(self, records: Mapping[int, Record]) -> Manifest:
        """The manifest with those shards that are finished."""
        return Manifest.of(self.recipe, self.n, records)


SHARD_SIZES = (16, 32, 64, 125, 250, 500, 1000)
SHARDS = 64
"""At least so many are cut, where there are images enough: a worker takes a shard at a time."""


def shard_size(out: Storage, n: int, forced: Recipe | None = None) -> int:
    """The shard size of the dataset that is there, else one that suits n images; it depends on no machine.

    A dataset that differs from the recipe of a forced run does not count: it is overwritten.
    """
    out.check_output()
    try:
        found = manifest_there(out)
    except Failed:
        if forced is None:
            raise
        found = None
    if found and forced:
        ours = {**forced.describe(), "shard_size": found.shard_size}
        found = found if found.n <= n and agreed(found.recipe()) == agreed(ours) else None
    if found:
        return found.shard_size
    return max(size for size in SHARD_SIZES if size == SHARD_SIZES[0] or size * SHARDS <= n)


def quality(out: Storage, name: str, size: int, *, force: bool = False) -> Quality:
    """A preset; for a dataset that was begun when it was another, that one, unless it is to be overwritten."""
    out.check_output()
    manifest = None if force or name not in FORMER else manifest_there(out)
    begun_with = manifest.settings().quality if manifest and manifest.render else None
    return FORMER[name] if begun_with == FORMER.get(name, ()) else preset(name, size)


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
    out, found = plan.out, manifest_there(plan.out)
    if found is None:
        if import_begun(out):
            raise Impossible(f"{out}: an import was begun there; give --force to overwrite it, or another --out")
        if shard_files(out):
            raise Impossible(
                f"{out}: {MANIFEST} is missing, but shards are; give --force to overwrite them, or another --out"
            )
        return {}
    wanted = plan.manifest({})
    wrong = differences(agreed(found.recipe()), agreed(wanted.recipe()))
    if found.n > plan.n:
        wrong.insert(0, f"n is {found.n}, not {plan.n}")
    if wrong:
        raise Impossible(
            f"{out}: holds another dataset ({'; '.join(wrong)}): give --force to overwrite it, or another --out"
        )
    return {i: record for i, record in whole_shards(out, found).items() if wanted.span(i).n == record.n}


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any], inside: str = "") -> list[str]:
    """What two recipes differ in, in words."""
    lines = []
    for name in dict.fromkeys([*found, *wanted]):
        one, two = found.get(name), wanted.get(name)
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
    for _, frame in frames(raw, plan.recipe.settings, plan.recipe.passes):
        arrays = {"images": frame["image"], "positives": frame["image"], "positive_latents": raw[0], **frame}
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
