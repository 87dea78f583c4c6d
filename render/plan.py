"""What is to be rendered and to where; what is there already; and whether it can be."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from ident.render import gallery
from ident.render.cluster import cores
from ident.render.codecs import CODECS
from ident.render.errors import Failed, Impossible
from ident.render.manifest import MANIFEST, MOST_SHARDS, Manifest, Recipe, Record
from ident.render.settings import Settings
from ident.render.storage import PART, SPARE, Storage, check_room, free_bytes
from ident.render.worker import Renders, blender

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


def shard_size(out: Storage, n: int) -> int:
    """The shard size of the dataset that is there, else one that suits n images; it depends on no machine."""
    try:
        return Manifest.read(out).shard_size
    except (Impossible, Failed):
        return max(size for size in SHARD_SIZES if size == SHARD_SIZES[0] or size * SHARDS <= n)


def take_up(plan: Plan) -> dict[int, Record]:
    """The finished shards of the output, by number; an error if another dataset is there."""
    out = plan.out
    try:
        found = Manifest.read(out)
    except Impossible as error:
        if shard_files(out):
            raise Impossible(f"{error}, but shards are; give --force to overwrite them, or another --out") from error
        return {}
    except Failed as error:
        raise Failed(f"{error}: give --force to make the dataset anew, or another --out") from error
    wanted = plan.manifest({})
    wrong = differences(found.recipe(), wanted.recipe())
    if found.n > plan.n:
        wrong.insert(0, f"n is {found.n}, not {plan.n}")
    if wrong:
        raise Impossible(
            f"{out}: holds another dataset ({'; '.join(wrong)}): give --force to overwrite it, or another --out"
        )
    kept = {i: record for i, record in found.shards.items() if wanted.span(i).n == record.n}

    def fault(number: int) -> str | None:
        return out.fault(wanted.span(number).file, kept[number].bytes, kept[number].sha256)

    with ThreadPoolExecutor(8) as pool:
        return {number: kept[number] for number, wrong in zip(kept, pool.map(fault, kept), strict=True) if not wrong}


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


def clear(out: Storage) -> None:
    """Remove the dataset that is there, and nothing else; its manifest first, so that no reader sees a half."""
    out.delete(MANIFEST)
    for name in shard_files(out):
        out.delete(name)


def shard_files(out: Storage) -> list[str]:
    """The files there whose names only shards have."""
    return [name for name in out.names("shards/*.h5") if re.fullmatch(r"shards/\d{5,}\.h5", name)]


def tidy(out: Storage) -> None:
    """Remove what was not whole when a run was killed."""
    if out.folder:
        for part in [*out.folder.glob(f"{PART}*"), *(out.folder / "shards").glob(f"{PART}*")]:
            part.unlink()


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


TRIAL = 8  # images


def estimate(plan: Plan, workers: int, *, force: bool) -> Estimate:
    """What the run would take, by a few images rendered now."""
    plan.out.check_output()
    missing = plan.n - (0 if force else plan.manifest(take_up(plan)).done)
    raw = plan.recipe.source(0, TRIAL)
    times, size = [], 0
    for _, frame in gallery.frames(raw, plan.recipe.settings, plan.recipe.passes):
        arrays = {"images": frame["image"], "positives": frame["image"], "positive_latents": raw[0], **frame}
        size += sum(len(column.encode(arrays[name])) for name, column in plan.recipe.columns.items())
        times.append(time.monotonic())
    engines = 1 if plan.gpus else min(cores(), len(raw))
    pace = (times[-1] - times[0]) / (len(times) - 1) * (1 if plan.recipe.positives is None else 2)
    return Estimate(
        images=plan.n,
        missing=missing,
        shards=plan.manifest({}).count,
        workers=workers,
        seconds=missing * pace * engines / (workers if plan.gpus else min(workers, engines)),
        bytes=int(plan.n * (size / len(raw) + 60)),
        free=free_bytes(plan.out.folder) if plan.out.folder else None,
    )
