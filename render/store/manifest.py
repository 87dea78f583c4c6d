"""dataset.json: what a dataset is, and which shards of it are there."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from ident.render import worlds
from ident.render.checked import check_names, check_tree, whole_number
from ident.render.errors import Failed, Impossible
from ident.render.store import format1
from ident.render.store.columns import IMAGES, Columns, Sums, add, check_columns, columns_of, no_sums
from ident.render.store.recipe import LARGEST_SHARD, Recipe, check_positives, check_source, described
from ident.render.store.shards import FORMAT, FORMATS, FORMER, Span
from ident.render.store.storage import Storage
from ident.render.worlds import Factor, World, WorldFacts
from ident.render.worlds.engine import Settings
from ident.render.worlds.factors import factor_of

MANIFEST = "dataset.json"
LARGEST_MANIFEST = 2**26  # bytes
MOST_IMAGES = 2**40
MOST_SHARDS = 100_000
AGAIN = "type the command again that made it"

Shape = tuple[int, int, int]


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

    def check_sums(self, shape: Shape) -> None:
        """Refuse sums that no pixels of images (H, W, C) have."""
        height, width, channels = shape
        if len(self.sums) != 2 * channels:
            raise ValueError(f"sums are {self.sums}, not {2 * channels} numbers")
        count = self.n * height * width
        for one, two in zip(self.sums[:channels], self.sums[channels:], strict=True):
            whole_number(one, "sums", 0, 255 * count)
            whole_number(two, "sums", -(-one * one // count), 255 * one)


@dataclass(frozen=True)
class Manifest:
    """dataset.json: what a dataset is, whether it is complete, and its shards."""

    n: int
    shard_size: int
    world: WorldFacts
    columns: Columns
    source: Mapping[str, Any]
    render: Mapping[str, Any] | None
    """The settings of the engine, as they describe themselves; None where the images were made elsewhere."""
    shards: Mapping[int, Record]
    positives: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("columns", "source", "render", "positives"):  # so that nobody else has them
            object.__setattr__(self, name, copy.deepcopy(getattr(self, name)))
        object.__setattr__(self, "shards", dict(self.shards))

    @classmethod
    def of(cls, recipe: Recipe, n: int, shards: Mapping[int, Record]) -> Self:
        """The manifest of a dataset of n rows by a recipe, with those shards that are finished."""
        return cls(
            n=n,
            shard_size=recipe.shard_size,
            world=recipe.world.facts,
            columns=recipe.columns,
            source=recipe.source.describe(),
            render=recipe.settings.describe(),
            shards=shards,
            positives=None if recipe.positives is None else recipe.positives.describe(),
        )

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
        return self.world.factors

    @property
    def shape(self) -> Shape:
        """Of an image: height, width, channels."""
        height, width, channels = self.columns[IMAGES].shape
        return height, width, channels

    @property
    def codec(self) -> str:
        """Of the images."""
        return self.columns[IMAGES].codec

    @property
    def disk(self) -> int:
        """How many bytes the finished shards take."""
        return sum(record.bytes for record in self.shards.values())

    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel in [0, 1], exact but for one rounding."""
        height, width, channels = self.shape
        total = no_sums(channels)
        for record in self.shards.values():
            total = add(total, record.sums)
        count = self.done * height * width
        ones, twos = total[:channels], total[channels:]
        mean = [one / (255 * count) for one in ones]
        sd = [math.sqrt(count * two - one * one) / (255 * count) for one, two in zip(ones, twos, strict=True)]
        return mean, sd

    def recipe(self) -> dict[str, Any]:
        """What `Recipe.describe` gave."""
        return described(
            shard_size=self.shard_size,
            world=self.world,
            columns=self.columns,
            source=self.source,
            positives=self.positives,
            render=self.render,
        )

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
        names = self.describe()
        shards = ",\n".join(f"    {json.dumps(shard)}" for shard in names.pop("shards"))
        lines = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in names.items())
        return f'{{\n{lines}  "shards": [\n{shards}\n  ]\n}}\n'

    @classmethod
    def read(cls, storage: Storage) -> Self:
        """The manifest of a dataset."""
        where = storage.path(MANIFEST)
        try:
            return cls.from_json(storage.read(MANIFEST, LARGEST_MANIFEST), where)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Impossible(f"{storage}: no dataset there, {MANIFEST} is missing") from error

    @classmethod
    def from_json(cls, text: bytes | str, where: str) -> Self:
        """The manifest in a text from anywhere, checked."""
        try:
            told = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Failed(f"{where}: not JSON, or cut short ({error})") from error
        try:
            return cls._checked(told)
        except (Impossible, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise Failed(f"{where}: not a dataset.json that this version of ident understands ({said})") from error

    @classmethod
    def _checked(cls, told: Any) -> Self:
        if not isinstance(told, dict):
            raise ValueError("no object")
        number = told.get("format")
        if isinstance(number, bool) or number not in FORMATS:
            later = "; a later version of ident reads it" if isinstance(number, int) and number > FORMAT else ""
            raise ValueError(f"format {number!r}, not {' or '.join(map(str, FORMATS))}{later}")
        if number == FORMER:
            told = format1.upgraded(told)
        names = [field.name for field in fields(cls)]
        check_names(told, MANIFEST, (*names, "format", "complete", "mean", "sd"))
        check_names(told["world"], "world", ("name", "digest", "factors"))
        facts = {**told["world"], "factors": tuple(factor_of(factor) for factor in told["world"]["factors"])}
        manifest = cls(
            n=whole_number(told["n"], "n", 1, MOST_IMAGES),
            shard_size=whole_number(told["shard_size"], "shard_size", 1, LARGEST_SHARD),
            world=WorldFacts(**facts),
            columns=columns_of(told["columns"]),
            source=told["source"],
            render=told["render"],
            shards={},
            positives=told.get("positives"),
        )
        manifest._check_recipe()
        manifest = replace(manifest, shards=manifest._shards_of(told["shards"]))
        for name in ("complete", "mean", "sd"):
            computed = manifest.complete if name == "complete" else manifest.describe()[name]
            if told[name] != computed:
                raise ValueError(
                    f"{name} is {told[name]!r}, by the {len(manifest.shards)} shards of {manifest.count} {computed}"
                )
        return manifest

    def _shards_of(self, told: Any) -> dict[int, Record]:
        shards = dict[int, Record]()
        for listed in told:
            facts = dict(listed)
            file, record = facts.pop("file"), Record(**facts)
            number = record.start // self.shard_size
            span = self.span(number)
            if number in shards:
                raise ValueError(f"{span.file} is there twice")
            if (file, record.start, record.n) != (span.file, span.start, span.n):
                raise ValueError(f"a shard {file!r} of {record.n} rows from {record.start} on")
            record.check_sums(self.shape)
            shards[number] = record
        return shards

    def _check_recipe(self) -> None:
        whole_number(self.count, "the number of shards", 1, MOST_SHARDS)
        check_source(self.source)
        if self.positives is not None:
            check_positives(self.positives)
        check_columns(self.columns, len(self.factors), positives=self.positives is not None)
        if self.render is not None and not isinstance(self.render, dict):
            raise ValueError(f"render is {self.render!r}")
        check_tree(self.render, "render")
        if world := worlds.known(self.world):
            if world.factors != self.factors:
                raise ValueError(f"factors other than those of world {world.name}")
            if self.render is None:
                return
            if world.engine_settings.read(self.render).arrays(world)[IMAGES] != (self.shape, "uint8"):
                raise ValueError(f"images are {self.shape}, by the settings of the engine others")

    def settings(self, world: World) -> Settings:
        """The settings that it was rendered by, of a world that is the dataset's."""
        if self.render is None:
            raise Impossible(f"{MANIFEST} does not say how the images were rendered")
        try:
            return world.engine_settings.read(self.render)
        except (Impossible, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Failed(
                f"{MANIFEST}: the engine of world {world.name} does not know its settings ({error})"
            ) from error
