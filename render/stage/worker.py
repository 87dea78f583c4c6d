"""What one worker does: with one engine that stays alive, render the rows of a shard, and put the shard in its place.

No Ray here: the stage wraps a Worker in an actor. Every row goes into a journal as it is rendered, so that whoever
takes the shard over, after whatever happened, goes on with the next row.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ident.render import children
from ident.render.aliases import Array, Float32s
from ident.render.errors import Failed, Impossible
from ident.render.store.columns import IMAGES, POSITIVE_LATENTS, POSITIVES, Sums, sums
from ident.render.store.files import LARGEST_NOTE, LOCK, PARTS, cache_folder, make_inside, read, write
from ident.render.store.format1 import former_recipe
from ident.render.store.inventory import put_shard
from ident.render.store.journal import Journal
from ident.render.store.manifest import Record
from ident.render.store.recipe import Recipe, agreed
from ident.render.store.shards import Span
from ident.render.store.storage import Storage
from ident.render.worlds.engine import Engine

SECONDS_BETWEEN_BEATS = 0.5
TRIES = 3  # of an image, before the run stops


class Hopeless(Failed):
    """A failure that no other worker would be spared."""


@dataclass(frozen=True)
class Job:
    """All that a worker must know of a run."""

    out: Storage
    recipe: Recipe
    owner: str
    """What the lock file of the output says, by which a worker knows that it sees the same folder."""
    recycle: int | None = None
    """How many images a worker renders, in case Blender leaks."""
    engine: Callable[[Any], Engine] | None = None
    """Starts another engine than the world's, in tests."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what renders where the run was started."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", self.versions or dict(self.recipe.settings.versions()))

    def key(self, span: Span | None = None) -> bytes:
        """What tells journals of this recipe, and of these rows, from others."""
        return _key(self.recipe.describe(), span)

    def former_key(self, span: Span) -> bytes:
        """The key of a journal that was begun when dataset.json had format 1; nothing if none could have been."""
        former = former_recipe(self.recipe.describe())
        return _key(former, span) if former else b""

    @property
    def parts(self) -> Path:
        """Where unfinished shards lie: with the finished ones, or on this machine if these are elsewhere."""
        if self.out.folder:
            return self.out.folder / PARTS
        return cache_folder("parts", f"{self.out.key}-{self.key().hex()[:16]}")


def _key(recipe: Mapping[str, Any], span: Span | None) -> bytes:
    return hashlib.sha256(json.dumps([agreed(recipe), span and asdict(span)]).encode()).digest()


@dataclass(frozen=True)
class Beat:
    """A sign of life: how many rows of the shard are done, and the median time of an image."""

    rows: int
    seconds: float


class Worker:
    """Renders shards, one after the other."""

    def __init__(self, job: Job | bytes, path: tuple[str, ...] = ()) -> None:
        """Work at a job, or at one that is pickled: what it names is looked for when the worker says hello.

        Modules that are not installed are looked for in the folders of `path`, as where the run was started.
        """
        self._packed, self._path = job, path
        self._engine: Engine | None = None
        self._rendered = 0
        self._seconds: deque[float] = deque(maxlen=32)

    @cached_property
    def _job(self) -> Job:
        children.follow(self._path)  # before the job is unpickled, which may name what lies there
        return pickle.loads(self._packed) if isinstance(self._packed, bytes) else self._packed

    def hello(self) -> None:
        """Make sure that this worker renders the same images, and sees the output."""
        node = os.uname().nodename
        versions = self._job.recipe.settings.versions()
        for name, version in self._job.versions.items():
            if versions[name] != version:
                raise Impossible(f"the worker on {node} has {name} {versions[name]}, not {version}: install the same")
        if folder := self._job.out.folder:
            try:
                same = read(folder / LOCK, LARGEST_NOTE) == self._job.owner.encode()
            except (OSError, Failed):
                same = False
            if not same:
                raise Impossible(
                    f"{folder}: the worker on {node} does not see it; give a folder that all nodes share, or s3://..."
                )

    def render(self, span: Span) -> Iterator[Beat | Record]:
        """Render what is missing of a shard; its record comes last. Without one the worker is to be replaced."""
        parts = self._job.parts
        make_inside(parts.parent, parts.name)
        finished = parts / f"{span.number:05d}.json"
        record = self._recorded(finished, span)
        if record is None:
            part = parts / f"{span.number:05d}.part"
            columns, former = self._job.recipe.columns, self._job.former_key(span)
            with Journal(part, self._job.key(span), len(columns), columns[IMAGES].shape[2], former) as journal:
                record = self._recorded(finished, span)  # by the worker, given up for lost, that had the journal before
                if record is None:
                    raw = self._job.recipe.source(span.start, span.n)
                    positives = self._job.recipe.positives
                    yield from self._fill(journal, raw, None if positives is None else positives(span.start, raw), span)
                    if len(journal) < span.n:
                        return
                    recipe, whole = self._job.recipe, part.with_suffix(".h5")
                    record = put_shard(self._job.out, whole, span, raw, columns, journal, recipe.describe())
                    write(finished, json.dumps(asdict(record)).encode())
                part.unlink(missing_ok=True)
        yield record

    def _recorded(self, finished: Path, span: Span) -> Record | None:
        """The record of a shard that was put in its place by a run that ended before it could say so."""
        try:
            record = Record(**json.loads(read(finished, LARGEST_NOTE)))
        except (OSError, ValueError, TypeError, Failed):
            return None
        wrong = (record.start, record.n) != (span.start, span.n)
        return None if wrong or self._job.out.fault(span.file, record.bytes, record.sha256) else record

    def _fill(self, journal: Journal, raw: Float32s, positive: Float32s | None, span: Span) -> Iterator[Beat]:
        who, beat = self._job.owner.encode(), time.monotonic()
        yield Beat(len(journal), self._median())
        for row in range(len(journal), span.n):
            if self._rendered == self._job.recycle:
                return
            if journal.begun.get(who, 0) >= TRIES:
                raise Hopeless(
                    f"image {span.start + row} failed {TRIES} times: {journal.failure}; its raw latents are "
                    f"[{', '.join(map(str, raw[row]))}]. What is done is kept; type the same command to try again"
                )
            journal.begin(who)
            start = time.monotonic()
            try:
                encoded, sums = self._row(raw[row], None if positive is None else positive[row])
            except Impossible:
                raise
            except Exception as error:  # whatever Blender raises, another worker may be spared
                why = " ".join(f"{type(error).__name__}: {error}".split())
                journal.fail(why)
                raise RuntimeError(f"image {span.start + row}: {why}") from None
            journal.add(row, encoded, sums)
            self._rendered += 1
            now = time.monotonic()
            self._seconds.append(now - start)
            if now - beat >= SECONDS_BETWEEN_BEATS:
                beat = now
                yield Beat(row + 1, self._median())

    def _median(self) -> float:
        return statistics.median(self._seconds) if self._seconds else 0.0

    def _row(self, raw: Float32s, positive: Float32s | None) -> tuple[list[bytes], Sums]:
        """The encoded arrays of one image, with those of its positive, and the image's sums."""
        recipe = self._job.recipe
        if self._engine is None:
            start = self._job.engine
            self._engine = start(recipe.settings) if start else recipe.settings.start(recipe.world)
        scene = recipe.world.scene_of(raw)
        arrays: dict[str, Array] = {IMAGES: self._engine.image(scene)}
        if recipe.passes:
            arrays |= self._engine.passes(scene, recipe.passes)
        if positive is not None:
            image = self._engine.image(recipe.world.scene_of(positive))
            arrays |= {POSITIVES: image, POSITIVE_LATENTS: positive}
        for name, column in recipe.columns.items():
            if arrays[name].shape != column.shape:
                raise Impossible(
                    f"world {recipe.world.name}: {name} of the raw latents {raw.tolist()} have the shape "
                    f"{arrays[name].shape}, those of others {column.shape}"
                )
        encoded = [column.encode(arrays[name]) for name, column in recipe.columns.items()]
        return encoded, sums(arrays[IMAGES])
