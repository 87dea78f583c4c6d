"""What decides a dataset's rows: where its latents are from, by what it is rendered, and how it is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ident.render.aliases import Float32s
from ident.render.checked import check_names, check_texts, whole_number
from ident.render.errors import Impossible
from ident.render.store.codecs import COMPACT, FAST
from ident.render.store.columns import IMAGES, POSITIVE_LATENTS, POSITIVES, Column, Columns, describe_columns
from ident.render.worlds import Interval, World, WorldFacts
from ident.render.worlds.engine import Settings
from ident.render.worlds.threedident import WORLD

LARGEST_SHARD = 2**24  # rows


class Positives(Protocol):
    """What gives each image a positive of its own. It says what it is, as JSON, so that a dataset can be continued."""

    def __call__(self, start: int, raw: Float32s, /) -> Float32s:
        """The raw latents (n, d) of the positives of images start to start + n, which have these raw latents."""

    def describe(self) -> dict[str, Any]:
        """All that decides them: the conditional, as it is written, and the seed."""


@dataclass(frozen=True)
class Uniform:
    """A world's draws, by (seed, split, index)."""

    seed: int
    split: str
    world: World = WORLD

    def __post_init__(self) -> None:
        if not isinstance(self.split, str) or not re.fullmatch(r"[\w-][\w.-]*", self.split, re.ASCII):
            raise Impossible(f"split {self.split!r}: give a name of letters, digits, and - _ .")
        self(0, 0)  # which says what is wrong with the seed

    def __call__(self, start: int, n: int) -> Float32s:
        """The raw latents (n, d) of the indices start to start + n."""
        return self.world.draw(seed=self.seed, split=self.split, start=start, n=n)

    def describe(self) -> dict[str, Any]:
        """All that decides the latents beside the world."""
        return {"kind": "uniform", "seed": self.seed, "split": self.split}


@dataclass(frozen=True)
class Imported:
    """Latents that came with images which others made."""

    layout: str
    origin: str

    def __post_init__(self) -> None:
        for name, value in (("layout", self.layout), ("origin", self.origin)):
            if not isinstance(value, str) or not value.isprintable():
                raise Impossible(f"{name} {value!r}: give a line of text")

    def describe(self) -> dict[str, Any]:
        """Where the latents are from."""
        return {"kind": "imported", "layout": self.layout, "origin": self.origin}


def uniform(source: Mapping[str, Any], world: World) -> Uniform | None:
    """The draws of a world that describe themselves so; None if they are another source."""
    return Uniform(source["seed"], source["split"], world) if source["kind"] == "uniform" else None


def check_source(described: Mapping[str, Any]) -> None:
    """Refuse the description of a source that nobody knows."""
    kinds = {"uniform": Uniform, "imported": Imported}
    rest = dict(described)
    kind = rest.pop("kind")
    if kind not in kinds:
        raise ValueError(f"source {kind!r}, not one of {', '.join(kinds)}")
    check_names(rest, "source", ("seed", "split") if kind == "uniform" else ("layout", "origin"))
    kinds[kind](**rest)


def check_positives(described: Mapping[str, Any]) -> None:
    """Refuse the description of positives that nothing gives."""
    check_names(described, "positives", ("conditional", "seed", "code"))
    whole_number(described["seed"], "positives.seed", 0, 2**64 - 1)
    check_texts({"code": "", **described}, "positives", ("conditional", "code"))


@dataclass(frozen=True)
class Recipe:
    """All that decides a dataset's rows, and how they lie in shards; not how many there are, nor who renders them."""

    source: Uniform
    settings: Settings
    passes: tuple[str, ...] = ()
    codec: str = ""
    """Of the images; by default compact, or fast for what that does not keep."""
    shard_size: int = 1000
    positives: Positives | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.shard_size <= LARGEST_SHARD:
            raise Impossible(f"shard size {self.shard_size}: give a whole number from 1 to {LARGEST_SHARD}")
        # Each worker has one GPU; how many there are changes no pixel, only whether there is one.
        object.__setattr__(self, "settings", self.settings.on(min(self.settings.gpus, 1)))
        arrays = self.settings.arrays(self.world)
        able = [name for name in arrays if name != IMAGES]
        for name in sorted(set(self.passes) - set(able)):
            raise Impossible(f"pass {name!r}: choose from {', '.join(able) or 'none, this world has no passes'}")
        object.__setattr__(self, "passes", tuple(name for name in able if name in self.passes))
        if not self.codec:
            object.__setattr__(self, "codec", COMPACT if arrays[IMAGES][0][2] == 3 else FAST)
        if self.positives is not None:
            for factor in self.world.factors:
                if factor.kind != Interval(-1, 1):
                    raise Impossible(
                        f"positives: are drawn in the box [-1, 1], and {factor.name} of world {self.world.name} is "
                        f"{factor.kind}; leave them out"
                    )
        object.__setattr__(self, "_columns", self._arrays(arrays))

    @property
    def world(self) -> World:
        """What is rendered."""
        return self.source.world

    @property
    def columns(self) -> Columns:
        """The arrays of a shard by name."""
        columns: Columns = self._columns  # type: ignore[attr-defined]
        return columns

    def _arrays(self, arrays: Mapping[str, tuple[tuple[int, ...], str]]) -> Columns:
        def column(name: str, codec: str = FAST) -> Column:
            shape, dtype = arrays[name]
            return Column(shape, np.dtype(dtype), codec)

        images = column(IMAGES, self.codec)
        columns = {IMAGES: images, **{name: column(name) for name in self.passes}}
        if self.positives is not None:
            latents = Column((len(self.world.factors),), np.dtype(np.float32), FAST)
            columns |= {POSITIVES: images, POSITIVE_LATENTS: latents}
        return columns

    def describe(self) -> dict[str, Any]:
        """The recipe as it stands in dataset.json."""
        return described(
            shard_size=self.shard_size,
            world=self.world.facts,
            columns=self.columns,
            source=self.source.describe(),
            positives=None if self.positives is None else self.positives.describe(),
            render=self.settings.describe(),
        )


def described(
    *,
    shard_size: int,
    world: WorldFacts,
    columns: Columns,
    source: Mapping[str, Any],
    positives: Mapping[str, Any] | None,
    render: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A recipe as it stands in dataset.json."""
    return {
        "shard_size": shard_size,
        "world": world.describe(),
        "columns": describe_columns(columns),
        "source": source,
        **({} if positives is None else {"positives": positives}),
        "render": render,
    }


def agreed(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What two recipes must have in common for one dataset: all but the version of ident, which is only noted."""
    render = recipe["render"]
    return {**recipe, "render": render and {name: value for name, value in render.items() if name != "ident"}}
