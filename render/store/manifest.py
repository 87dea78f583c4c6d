"""What a dataset is: the recipe it is made by, and dataset.json, which says what is there."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Protocol, Self

from ident.render.aliases import Float32s
from ident.render.blender.settings import SIZES, Exposure, Quality, Settings, check_passes, renderer
from ident.render.errors import Failed, Impossible
from ident.render.store.codecs import CODECS
from ident.render.store.shards import NOTHING, Column, Span, Sums, add, columns
from ident.render.store.storage import Storage
from ident.render.worlds import latents
from ident.render.worlds.factors import Factor

FORMAT = 1
MANIFEST = "dataset.json"
LARGEST_MANIFEST = 2**26  # bytes
MOST_IMAGES = 2**40
LARGEST_SHARD = 2**24  # rows
MOST_SHARDS = 100_000
AGAIN = "type the command again that made it"


class Source(Protocol):
    """Where raw latents come from. It says what it is, as JSON, so that a dataset can be continued."""

    def __call__(self, start: int, n: int) -> Float32s:
        """The raw latents (n, 10) of the indices start to start + n."""

    def describe(self) -> dict[str, Any]:
        """All that decides the latents."""


class Positives(Protocol):
    """What gives each image a positive of its own. It says what it is, as JSON, so that a dataset can be continued."""

    def __call__(self, start: int, raw: Float32s) -> Float32s:
        """The raw latents (n, 10) of the positives of images start to start + n, which have these raw latents."""

    def describe(self) -> dict[str, Any]:
        """All that decides them: the conditional, as it is written, and the seed."""


@dataclass(frozen=True)
class Uniform:
    """Uniform samples, by (seed, split, index)."""

    seed: int
    split: str

    def __post_init__(self) -> None:
        if not isinstance(self.split, str) or not re.fullmatch(r"[\w-][\w.-]*", self.split, re.ASCII):
            raise Impossible(f"split {self.split!r}: give a name of letters, digits, and - _ .")
        self(0, 0)  # which says what is wrong with the seed

    def __call__(self, start: int, n: int) -> Float32s:
        """The raw latents (n, 10) of the indices start to start + n."""
        return latents.sample(seed=self.seed, split=self.split, start=start, n=n)

    def describe(self) -> dict[str, Any]:
        """All that decides the latents."""
        return {"kind": "uniform", "seed": self.seed, "split": self.split}


@dataclass(frozen=True)
class Imported:
    """Latents that came with images which others made: how many of them each part has is all that is known."""

    layout: str
    origin: str

    def __post_init__(self) -> None:
        for name, value in (("layout", self.layout), ("origin", self.origin)):
            if not isinstance(value, str) or not value.isprintable():
                raise Impossible(f"{name} {value!r}: give a line of text")

    def __call__(self, start: int, n: int) -> Float32s:  # noqa: ARG002
        """There is no rule by which the latents could be had again."""
        raise Impossible(f"latents imported from {self.origin} follow from nothing but their file")

    def describe(self) -> dict[str, Any]:
        """Where the latents are from."""
        return {"kind": "imported", "layout": self.layout, "origin": self.origin}


SOURCES: Mapping[str, type[Source]] = MappingProxyType({"uniform": Uniform, "imported": Imported})
"""The sources of latents by the kind that dataset.json gives."""


def source_of(described: Mapping[str, Any]) -> Source:
    """The source that describes itself so."""
    given = dict(described)
    kind = given.pop("kind")
    if kind not in SOURCES:
        raise ValueError(f"source {kind!r}, not one of {', '.join(SOURCES)}")
    return SOURCES[kind](**given)


def describe_latents() -> list[Mapping[str, Any]]:
    """The latents as they stand in dataset.json."""
    return [
        {"name": factor.name, "meaning": factor.meaning, "unit": factor.unit, "scale": factor.scale}
        for factor in latents.LATENTS
    ]


@dataclass(frozen=True)
class Recipe:
    """All that decides a dataset's rows, and how they lie in shards; not how many there are, nor who renders them."""

    source: Source
    settings: Settings
    passes: tuple[str, ...] = ()
    codec: str = "compact"
    shard_size: int = 1000
    positives: Positives | None = None

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise Impossible(f"codec {self.codec!r}: choose from {', '.join(CODECS)}")
        if not 1 <= self.shard_size <= LARGEST_SHARD:
            raise Impossible(f"shard size {self.shard_size}: give a whole number from 1 to {LARGEST_SHARD}")
        object.__setattr__(self, "passes", check_passes(self.passes))
        # Each worker has one GPU; how many there are changes no pixel, only whether there is one.
        object.__setattr__(self, "settings", replace(self.settings, gpus=min(self.settings.gpus, 1)))

    @property
    def columns(self) -> dict[str, Column]:
        """The arrays of a shard."""
        return columns(self.settings.size, self.codec, self.passes, positives=self.positives is not None)

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
                **self.settings.quality.describe(),
            },
            "latents": describe_latents(),
            **({} if self.positives is None else {"positives": self.positives.describe()}),
        }


def agreed(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What two recipes must have in common for one dataset: all but the version of ident, which is only noted."""
    render = recipe["render"]
    return {**recipe, "render": render and {name: value for name, value in render.items() if name != "ident"}}


@dataclass(frozen=True)
class Record:
    """A finished shard, as dataset.json lists it."""

    start: int
    n: int
    bytes: int
    sha256: str
    sums: Sums

    def __post_init__(self) -> None:
        for name, most in (("start", MOST_IMAGES), ("n", LARGEST_SHARD), ("bytes", 2**50)):
            whole_number(getattr(self, name), name, 0, most)
        if not isinstance(self.sha256, str) or not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 is {self.sha256!r}, not 64 digits in lower case")
        object.__setattr__(self, "sums", tuple(self.sums))
        if len(self.sums) != len(NOTHING):
            raise ValueError(f"sums are {self.sums}, not {len(NOTHING)} numbers")

    def check_sums(self, size: int) -> None:
        """Refuse sums that no pixels have."""
        count = self.n * size**2
        for one, two in zip(self.sums[:3], self.sums[3:], strict=True):
            whole_number(one, "sums", 0, 255 * count)
            whole_number(two, "sums", -(-one * one // count), 255 * one)


@dataclass(frozen=True)
class Manifest:
    """dataset.json: what a dataset is, whether it is complete, and its shards."""

    n: int
    size: int
    codec: str
    passes: list[str]
    shard_size: int
    source: Mapping[str, Any]
    render: Mapping[str, Any] | None
    latents: list[Mapping[str, Any]]
    shards: Mapping[int, Record]
    positives: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, recipe: Recipe, n: int, shards: Mapping[int, Record]) -> Self:
        """The manifest of a dataset of n rows by a recipe, with those shards that are finished."""
        return cls(n=n, shards=shards, **recipe.describe())

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
    def factors(self) -> tuple[Factor, ...]:
        """What varies from image to image: the columns of the latents."""
        return latents.LATENTS

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an image: height, width, channels."""
        return self.size, self.size, 3

    @property
    def columns(self) -> dict[str, Column]:
        """The arrays of a shard."""
        return columns(self.size, self.codec, tuple(self.passes), positives=self.positives is not None)

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

    def recipe(self) -> dict[str, Any]:
        """What `Recipe.describe` gave."""
        made = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("n", "shards")}
        return {name: value for name, value in made.items() if name != "positives" or value is not None}

    def describe(self) -> dict[str, Any]:
        """What dataset.json says."""
        mean, sd = self.moments() if self.complete else (None, None)
        shards = [{"file": self.span(i).file, **asdict(record)} for i, record in sorted(self.shards.items())]
        return {
            "format": FORMAT,
            "complete": self.complete,
            "n": self.n,
            **self.recipe(),
            "mean": mean,
            "sd": sd,
            "shards": shards,
        }

    def to_json(self) -> str:
        """The text of dataset.json: a line for each name, and one for each shard."""
        made = self.describe()
        shards = ",\n".join(f"    {json.dumps(shard)}" for shard in made.pop("shards"))
        lines = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in made.items())
        return f'{{\n{lines}  "shards": [\n{shards}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: bytes | str, where: str) -> Self:
        """The manifest in a text from anywhere, checked."""
        try:
            made = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Failed(f"{where}: not JSON, or cut short ({error})") from error
        try:
            return cls._checked(made)
        except (Impossible, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise Failed(f"{where}: not a dataset.json that this version of ident understands ({said})") from error

    @classmethod
    def _checked(cls, made: Any) -> Self:
        if not isinstance(made, dict) or made.get("format") != FORMAT:
            raise ValueError(f"format {made.get('format')!r}, not {FORMAT}" if isinstance(made, dict) else "no object")
        names = [field.name for field in fields(cls)]
        unknown = set(made) - set(names) - {"format", "complete", "mean", "sd"}
        if unknown:
            raise ValueError(f"unknown: {', '.join(sorted(map(repr, unknown)))}")
        shards = dict[int, Record]()
        given = {name: made[name] for name in names if name != "positives"} | {"positives": made.get("positives")}
        manifest = cls(**given | {"shards": shards})
        manifest._check_recipe()
        for listed in made["shards"]:
            facts = dict(listed)
            file, record = facts.pop("file"), Record(**facts)
            number = record.start // manifest.shard_size
            if number in shards:
                raise ValueError(f"{manifest.span(number).file} is there twice")
            if (file, record.start, record.n) != (
                manifest.span(number).file,
                manifest.span(number).start,
                manifest.span(number).n,
            ):
                raise ValueError(f"a shard {file!r} of {record.n} rows from {record.start} on")
            record.check_sums(manifest.size)
            shards[number] = record
        for name in ("complete", "mean", "sd"):
            computed = manifest.complete if name == "complete" else manifest.describe()[name]
            if made[name] != computed:
                raise ValueError(
                    f"{name} is {made[name]!r}, by the {len(shards)} shards of {manifest.count} {computed}"
                )
        return manifest

    def _check_recipe(self) -> None:
        whole_number(self.n, "n", 1, MOST_IMAGES)
        whole_number(self.size, "size", SIZES.start, SIZES.stop - 1)
        whole_number(self.shard_size, "shard_size", 1, LARGEST_SHARD)
        whole_number(self.count, "the number of shards", 1, MOST_SHARDS)
        if self.codec not in CODECS:
            raise ValueError(f"codec {self.codec!r}, not one of {', '.join(CODECS)}")
        if list(check_passes(self.passes)) != self.passes:
            raise ValueError(f"passes {self.passes!r}")
        if self.latents != describe_latents():
            raise ValueError(f"latents other than {', '.join(latents.NAMES)}, with their units and scales")
        source_of(self.source)
        if self.positives is not None:
            check_names(self.positives, "positives", ("conditional", "seed", "code"))
            whole_number(self.positives["seed"], "positives.seed", 0, 2**64 - 1)
            check_texts({"code": "", **self.positives}, "positives", ("conditional", "code"))
        if self.render is not None:
            check_names(self.render, "render", (*renderer(), "device", *(field.name for field in fields(Quality))))
            self.settings()
            check_texts(self.render, "render", renderer())

    @classmethod
    def read(cls, storage: Storage) -> Self:
        """The manifest of a dataset."""
        where = storage.path(MANIFEST)
        try:
            return cls.from_json(storage.read(MANIFEST, LARGEST_MANIFEST), where)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Impossible(f"{storage}: no dataset there, {MANIFEST} is missing") from error

    def settings(self) -> Settings:
        """The settings that it was rendered by."""
        if self.render is None:
            raise Impossible(f"{MANIFEST} does not say how the images were rendered")
        for one in self.render["exposures"]:
            check_names(one, "render.exposures", [field.name for field in fields(Exposure)])
        exposures = tuple(
            Exposure(
                tuple(one["lights"]),
                *(whole_number(one[name], name, 0, 2**20) for name in ("samples", "object_samples")),
            )
            for one in self.render["exposures"]
        )
        if self.render["device"] not in ("cpu", "gpu"):
            raise ValueError(f"render.device {self.render['device']!r}")
        denoise, known_ground = self.render["denoise"], self.render.get("known_ground", False)
        if not isinstance(denoise, bool) or not isinstance(known_ground, bool):
            raise ValueError(f"render.denoise {denoise!r}, render.known_ground {known_ground!r}")
        quality = Quality(exposures, denoise, known_ground)
        return Settings(self.size, quality, int(self.render["device"] == "gpu"))


def check_names(described: Mapping[str, Any], where: str, names: Iterable[str]) -> None:
    """Refuse an object that has other names than these."""
    if unknown := set(described) - set(names):
        raise ValueError(f"unknown in {where}: {', '.join(sorted(map(repr, unknown)))}")


def check_texts(described: Mapping[str, Any], where: str, names: Iterable[str]) -> None:
    """Refuse an object whose values of these names are not a line of text each."""
    for name in names:
        if not isinstance(described[name], str) or not described[name].isprintable():
            raise ValueError(f"{where}.{name} is {described[name]!r}")


def whole_number(value: Any, name: str, least: int, most: int) -> int:
    """The value, if it is a whole number in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}, not a whole number from {least} to {most}")
    return value
