"""A dataset: the recipe it is made by, dataset.json that says what is there, and the reader. No Blender, no Ray."""

from __future__ import annotations

import json
import math
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from ident.render import latents
from ident.render.codecs import CODECS
from ident.render.errors import Failed, Impossible
from ident.render.latents import Float32s
from ident.render.settings import SIZES, Exposure, Quality, Settings, check_passes, renderer
from ident.render.shards import NOTHING, Array, Column, Shard, Span, Sums, add, columns
from ident.render.storage import Storage, cache_folder, lock, sha256, whole

FORMAT = 1
MANIFEST = "dataset.json"
LARGEST_MANIFEST = 2**28
MOST_IMAGES = 2**40


class Source(Protocol):
    """Where raw latents come from. It says what it is, as JSON, so that a dataset can be continued."""

    def __call__(self, start: int, n: int) -> Float32s:
        """The raw latents (n, 10) of the indices start to start + n."""

    def describe(self) -> dict[str, Any]:
        """All that decides the latents."""


@dataclass(frozen=True)
class Uniform:
    """Uniform samples, by (seed, split, index)."""

    seed: int
    split: str

    def __post_init__(self) -> None:
        latents.sample(seed=self.seed, split=self.split, start=0, n=0)  # says what is wrong with them

    def __call__(self, start: int, n: int) -> Float32s:
        """The raw latents (n, 10) of the indices start to start + n."""
        return latents.sample(seed=self.seed, split=self.split, start=start, n=n)

    def describe(self) -> dict[str, Any]:
        """All that decides the latents."""
        return {"kind": "uniform", "seed": self.seed, "split": self.split}


@dataclass(frozen=True)
class Recipe:
    """All that decides a dataset's rows, and how they lie in shards; not how many there are, nor who renders them."""

    source: Source
    settings: Settings
    passes: tuple[str, ...] = ()
    codec: str = "compact"
    shard_size: int = 1000

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise Impossible(f"codec {self.codec!r}: choose from {', '.join(CODECS)}")
        if not 1 <= self.shard_size <= 2**24:
            raise Impossible(f"shard size {self.shard_size}: give a whole number from 1 to {2**24}")
        object.__setattr__(self, "passes", check_passes(self.passes))
        # Each worker has one GPU; how many there are changes no pixel, only whether there is one.
        object.__setattr__(self, "settings", replace(self.settings, gpus=min(self.settings.gpus, 1)))

    @property
    def columns(self) -> dict[str, Column]:
        """The arrays of a shard."""
        return columns(self.settings.size, self.codec, self.passes)

    def describe(self) -> dict[str, Any]:
        """The recipe as it stands in dataset.json."""
        return {
            "size": self.settings.size,
            "codec": self.codec,
            "passes": list(self.passes),
            "shard_size": self.shard_size,
            "source": self.source.describe(),
            "render": {
                **renderer(),
                "device": "gpu" if self.settings.gpus else "cpu",
                **json.loads(json.dumps(asdict(self.settings.quality))),
            },
            "latents": [asdict(latent) for latent in latents.LATENTS],
        }


@dataclass(frozen=True)
class Record:
    """A finished shard."""

    start: int
    n: int
    bytes: int
    sha256: str
    sums: Sums


@dataclass(frozen=True)
class Manifest:
    """dataset.json: what a dataset is, whether it is complete, and its shards."""

    n: int
    size: int
    codec: str
    passes: tuple[str, ...]
    shard_size: int
    source: Mapping[str, Any]
    render: Mapping[str, Any] | None
    latents: tuple[Mapping[str, Any], ...]
    shards: Mapping[int, Record]

    @classmethod
    def of(cls, recipe: Recipe, n: int, shards: Mapping[int, Record]) -> Self:
        """The manifest of a dataset of n rows by a recipe, with those shards that are finished."""
        made = recipe.describe()
        made |= {"passes": tuple(made["passes"]), "latents": tuple(made["latents"])}
        return cls(n=n, shards=shards, **made)

    @property
    def count(self) -> int:
        """How many shards there should be."""
        return -(-self.n // self.shard_size)

    def span(self, number: int) -> Span:
        """The rows of a shard."""
        start = number * self.shard_size
        return Span(number, start, min(self.shard_size, self.n - start))

    @property
    def complete(self) -> bool:
        """Whether all shards are finished."""
        return len(self.shards) == self.count

    @property
    def done(self) -> int:
        """How many rows are in finished shards."""
        return sum(record.n for record in self.shards.values())

    @property
    def columns(self) -> dict[str, Column]:
        """The arrays of a shard."""
        return columns(self.size, self.codec, self.passes)

    @property
    def disk(self) -> int:
        """How many bytes the finished shards take."""
        return sum(record.bytes for record in self.shards.values())

    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of red, green and blue in [0, 1], exact but for one rounding."""
        total = NOTHING
        for record in self.shards.values():
            total = add(total, record.sums)
        count = self.done * self.size**2
        mean = [one / (255 * count) for one in total[:3]]
        sd = [math.sqrt(count * two - one * one) / (255 * count) for one, two in zip(total[:3], total[3:], strict=True)]
        return mean, sd

    def to_json(self) -> str:
        """The text of dataset.json."""
        mean, sd = self.moments() if self.complete else (None, None)
        shards = [
            {"file": Span(i, record.start, record.n).file, **asdict(record)}
            for i, record in sorted(self.shards.items())
        ]
        made: dict[str, Any] = {"format": FORMAT, "complete": self.complete}
        made |= {field.name: getattr(self, field.name) for field in fields(self) if field.name != "shards"}
        lines = [f'  "{name}": {json.dumps(value)}' for name, value in (made | {"mean": mean, "sd": sd}).items()]
        rows = ",\n".join(f"    {json.dumps(shard)}" for shard in shards)
        return "{\n" + ",\n".join(lines) + f',\n  "shards": [\n{rows}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: bytes | str, where: str) -> Self:
        """The manifest in a text from anywhere, checked."""
        try:
            made = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Failed(f"{where}: not JSON, or cut short ({error})") from error
        try:
            return cls._check(made)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise Failed(f"{where}: not a dataset.json that this version of ident understands ({said})") from error

    @classmethod
    def _check(cls, made: Any) -> Self:
        if not isinstance(made, dict):
            raise ValueError("not an object")
        if made.get("format") != FORMAT:
            raise ValueError(f"format {made.get('format')!r}, not {FORMAT}")
        names = {field.name for field in fields(cls)}
        unknown = set(made) - names - {"format", "complete", "mean", "sd"}
        if unknown:
            raise ValueError(f"unknown: {', '.join(sorted(map(repr, unknown)))}")
        values = {name: made[name] for name in names}
        whole_number(values["n"], "n", 1, MOST_IMAGES)
        whole_number(values["size"], "size", SIZES.start, SIZES.stop - 1)
        whole_number(values["shard_size"], "shard_size", 1, 2**24)
        if values["codec"] not in CODECS:
            raise ValueError(f"codec {values['codec']!r}, not one of {', '.join(CODECS)}")
        try:
            passes = check_passes(values["passes"])
        except Impossible as error:
            raise ValueError(str(error)) from error
        if list(passes) != values["passes"]:
            raise ValueError(f"passes {values['passes']}")
        if [latent["name"] for latent in values["latents"]] != list(latents.NAMES):
            raise ValueError(f"latents other than {', '.join(latents.NAMES)}")
        if not isinstance(values["source"], dict) or not isinstance(values["render"], dict | None):
            raise ValueError("source or render is no object")
        values |= {"passes": passes, "latents": tuple(values["latents"])}
        listed, shards = values["shards"], dict[int, Record]()
        manifest = cls(**values | {"shards": shards})
        for shard in listed:
            number = whole_number(shard["start"], "start", 0, values["n"] - 1) // values["shard_size"]
            span = manifest.span(number)
            record = Record(**{field.name: shard[field.name] for field in fields(Record)})
            whole_number(record.bytes, "bytes", 1, 2**50)
            if (shard["file"], record.start, record.n) != (span.file, span.start, span.n):
                raise ValueError(f"a shard {shard['file']!r} of {record.n!r} rows from {record.start} on")
            if not isinstance(record.sha256, str) or len(record.sha256) != 64 or number in shards:
                raise ValueError(f"sha256 of {span.file}, or it is there twice")
            exact = tuple(whole_number(one, "sums", 0, 2**63) for one in record.sums)
            if len(exact) != len(NOTHING):
                raise ValueError(f"sums of {span.file}")
            shards[number] = replace(record, sums=exact)
        if made["complete"] != manifest.complete:
            raise ValueError(f"complete is {made['complete']!r} with {len(shards)} shards of {manifest.count}")
        return manifest

    @classmethod
    def read(cls, storage: Storage) -> Self:
        """The manifest of a dataset."""
        where = storage.path(MANIFEST)
        try:
            size = storage.size(MANIFEST)
            if size is not None and size > LARGEST_MANIFEST:
                raise Failed(f"{where}: {size} bytes, more than any dataset.json has")
            return cls.from_json(storage.read(MANIFEST), where)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Impossible(
                f"{storage}: no dataset there, {MANIFEST} is missing; `ident render --out {storage}` makes one"
            ) from error

    def settings(self) -> Settings:
        """The settings that it was rendered by."""
        try:
            render = self.render or {}
            exposures = tuple(
                Exposure(tuple(one["lights"]), one["samples"], one["object_samples"]) for one in render["exposures"]
            )
            return Settings(self.size, Quality(exposures, render["denoise"]), int(render["device"] == "gpu"))
        except (KeyError, TypeError) as error:
            raise Impossible(f"dataset.json does not say how the images were rendered ({error})") from error


def whole_number(value: Any, name: str, least: int, most: int) -> int:
    """The value, if it is a whole number in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}, not a whole number from {least} to {most}")
    return value


OPEN_SHARDS = 256  # at once in a process, of which each takes a file descriptor


class Dataset:
    """The images and latents of a dataset, by index; a map-style torch Dataset too, in any number of workers.

    data[i] is (image, raw latents): (H, W, 3) uint8 and (10,) float32. data[indices] are arrays of them.
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self.storage = Storage(os.fspath(place))
        self.manifest = Manifest.read(self.storage)
        if not self.manifest.complete:
            raise Impossible(
                f"{self.storage}: incomplete, {self.manifest.done} of {self.manifest.n} images; "
                "type the command that renders it again"
            )
        self._columns = self.manifest.columns
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._process = os.getpid()

    def __len__(self) -> int:
        return self.manifest.n

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": OrderedDict()}

    @cached_property
    def latents(self) -> Float32s:
        """All raw latents (n, 10), in memory, read-only."""
        raw = np.concatenate([self._shard(number).latents for number in range(self.manifest.count)])
        raw.flags.writeable = False
        return raw

    def image(self, index: int) -> Array:
        """An image (H, W, 3) uint8."""
        return self.read("images", index)

    def images(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Array:
        """Images (len(indices), H, W, 3) uint8, in that order."""
        return self.read_many("images", indices)

    def read(self, name: str, index: int) -> Array:
        """A row of an array: images, or a pass that was rendered."""
        shard, row = self._place(index)
        return self._shard(shard).read(self._named(name), row)

    def read_many(self, name: str, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Array:
        """Rows of an array in the order of the indices; each shard is visited once."""
        places = [self._place(int(index)) for index in indices]
        column = self._columns[self._named(name)]
        rows = np.empty((len(places), *column.shape), column.dtype)
        for i in sorted(range(len(places)), key=places.__getitem__):
            shard, row = places[i]
            rows[i] = self._shard(shard).read(name, row)
        return rows

    def __getitem__(self, index: Any) -> tuple[Array, Float32s]:
        if isinstance(index, int | np.integer):
            shard, row = self._place(int(index))
            return self._shard(shard).read("images", row), self._shard(shard).latents[row]
        indices = np.arange(len(self))[index]
        return self.images(indices), self.latents[indices]

    def _named(self, name: str) -> str:
        if name not in self._columns:
            raise Impossible(f"{self.storage}: has no {name}; there are {', '.join(self._columns)}")
        return name

    def _place(self, index: int) -> tuple[int, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} in a dataset of {len(self)}")
        return divmod(index % len(self), self.manifest.shard_size)

    def _shard(self, number: int) -> Shard:
        if self._process != os.getpid():  # after a fork: the files are the parent's
            self._open, self._process = OrderedDict(), os.getpid()
        # Another thread may do the same: no step here minds. A shard that is let go is closed by its last reader.
        shard = self._open.pop(number, None) or open_shard(self.storage, self.manifest, number)
        self._open[number] = shard
        if len(self._open) > OPEN_SHARDS:
            self._open.popitem(last=False)
        return shard


def local_shard(storage: Storage, manifest: Manifest, number: int) -> Path:
    """The file of a finished shard; of a remote dataset its copy in the cache, fetched and checked at first."""
    file, record = manifest.span(number).file, manifest.shards[number]
    if storage.folder:
        path = storage.folder / file
    else:
        path = cache_folder("datasets") / f"{record.sha256}.h5"
        with lock(path.with_suffix(".lock")):
            if not path.exists():
                with whole(path) as part:
                    storage.fetch(file, part)
                    found = sha256(part)
                    if found != record.sha256:
                        raise Failed(f"{storage.path(file)}: damaged, its sha256 is {found}, not {record.sha256}")
    size = path.stat().st_size if path.exists() else None
    if size != record.bytes:
        problem = "is missing" if size is None else f"is damaged, {size} bytes and not {record.bytes}"
        raise Failed(f"{path}: {problem}; type the command again that made it")
    return path


def open_shard(storage: Storage, manifest: Manifest, number: int) -> Shard:
    """A finished shard, open, with the rows that it should have."""
    span = manifest.span(number)
    shard = Shard(local_shard(storage, manifest, number), manifest.columns, span.n)
    if not np.array_equal(shard.index, np.arange(span.start, span.start + span.n)):
        raise Failed(f"{shard.path}: holds other rows than {MANIFEST} says")
    return shard
