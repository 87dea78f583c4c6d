"""A world: named factors, how they are drawn, and what a draw looks like."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.render import children, plugins
from ident.render.aliases import Array, Float32s, Float64s, Uint8s
from ident.render.errors import Impossible
from ident.render.worlds.engine import ENGINES, Settings
from ident.render.worlds.factors import Category, Factor, check_factors, check_raw

DRAWN = "drawn"
WORDS = 4  # of a block that Philox gives; an index owns as many blocks as its factors need

Picture = Callable[[Float64s, int], Uint8s]


@dataclass(frozen=True)
class WorldFacts:
    """What a dataset says of its world: enough to read it where nobody knows that world."""

    name: str
    digest: str
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.digest, str) or not re.fullmatch("[0-9a-f]{64}", self.digest):
            raise Impossible(f"digest {self.digest!r} of world {self.name}: give 64 digits in lower case")
        object.__setattr__(self, "factors", check_factors(tuple(self.factors)))

    def describe(self) -> dict[str, Any]:
        """As it stands in dataset.json."""
        return {
            "name": self.name,
            "digest": self.digest,
            "factors": [factor.describe() for factor in self.factors],
        }


@dataclass(frozen=True)
class World:
    """Factors that are drawn independently and uniformly, and how their scene values become an image.

    Either `picture` draws the image (H, W, C) uint8 of scene values (d,) at a size, in numpy; or `scene` describes a
    scene, which is rendered by an engine: a name of `engine.ENGINES`, or module:name of your own.
    A world that has neither can be drawn from, and not rendered.
    """

    name: str
    factors: tuple[Factor, ...]
    picture: Picture | None = None
    scene: Callable[[Float64s], Any] | None = None
    engine: str = ""
    size: int = 64
    """Pixels along the longer side of an image, unless the user says otherwise."""
    stream: str | None = None
    """What sets its draws apart from those of other worlds by the same seed: its name, if nothing else is said."""
    source: str = ""
    """The sha256 of the file that defines it, if it is a user's: see `worlds.load`."""
    reference: str = field(default="", compare=False, repr=False)
    """Where it was loaded from, if it is a user's; other processes load it from there."""

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "factors", check_factors(tuple(self.factors)))
        if self.picture is not None and not self.engine:
            object.__setattr__(self, "engine", DRAWN)
        if (self.picture is not None and self.scene is not None) or (self.scene is None) != (
            self.engine in ("", DRAWN)
        ):
            raise Impossible(f"world {self.name}: give it a picture, or a scene and its engine, or none of them")

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A user's world is loaded anew by a process that it is sent to, from the path that was given."""
        if not self.reference:
            return super().__reduce_ex__(protocol)
        return _reload, (self.reference, self.digest, children.path())

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the factors."""
        return tuple(factor.name for factor in self.factors)

    @cached_property
    def digest(self) -> str:
        """The sha256 of its definition: equal worlds draw and show the same."""
        definition = {
            "name": self.name,
            "factors": [factor.describe() for factor in self.factors],
            "mechanisms": "independent",
            "stream": self.stream,
            "engine": self.engine,
            "source": self.source,
        }
        return hashlib.sha256(json.dumps(definition).encode()).hexdigest()

    @property
    def facts(self) -> WorldFacts:
        """What a dataset of it says."""
        return WorldFacts(self.name, self.digest, self.factors)

    def draw(self, *, seed: int, split: str, start: int, n: int) -> Float32s:
        """Raw latents (n, d) of the indices start to start + n.

        Index i depends on (world, seed, split, i) alone: the generator counts, and i says where.
        """
        for name, value, most in (("seed", seed, 2**64), ("start", start, 2**62), ("n", n, 2**40)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < most:
                raise Impossible(f"{name} {value!r}: give a whole number from 0 to {most - 1}")
        blocks, start, n = -(-len(self.factors) // WORDS), int(start), int(n)
        prefix = self.name if self.stream is None else self.stream
        text = f"{prefix}/{split}" if prefix else split
        stream = int.from_bytes(hashlib.sha256(text.encode(errors="surrogateescape")).digest()[:8], "little")
        generator = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64), counter=blocks * start)
        words = generator.random_raw(WORDS * blocks * n).reshape(n, WORDS * blocks)
        raw = np.empty((n, len(self.factors)), np.float32)
        for i, factor in enumerate(self.factors):
            # The upper 24 bits, the most that a float32 in [-1, 1) holds without rounding.
            fractions = (words[:, i] >> np.uint64(40)) * 2.0**-24
            kind = factor.kind
            if isinstance(kind, Category):
                raw[:, i] = np.floor(fractions * len(kind.names))
            else:
                raw[:, i] = kind.low + (kind.high - kind.low) * fractions
        return raw

    def check(self, raw: Array, what: str = "raw latents") -> Float32s:
        """The raw latents as float32 (n, d), or an error that says what is wrong with them."""
        return check_raw(raw, self.factors, what)

    def values(self, raw: npt.ArrayLike) -> Float64s:
        """Scene values (..., d) of raw latents (..., d)."""
        array = np.asarray(raw, dtype=np.float64)
        if array.shape[-1:] != (len(self.factors),):
            raise Impossible(f"raw latents: the shape is {array.shape}, not (..., {len(self.factors)})")
        return array * [factor.scale for factor in self.factors]

    def scene_of(self, raw: npt.ArrayLike) -> Any:
        """What the engine takes for raw latents (d,): the scene, or the scene values that a picture is drawn of."""
        values = self.values(raw)
        return values if self.scene is None else self.scene(values)

    @property
    def engine_settings(self) -> type[Settings]:
        """The class of its engine's settings."""
        if not self.engine:
            raise Impossible(f"world {self.name}: has neither a picture nor a scene, so that it cannot be rendered")
        settings: type[Settings] = plugins.load(ENGINES.get(self.engine, self.engine))
        return settings

    def settings(self, **options: Any) -> Settings:
        """Those of its engine that options mean; None is as good as left out."""
        typed = {"size": self.size} | {name: value for name, value in options.items() if value is not None}
        return self.engine_settings.of(typed)


def check_name(name: object) -> None:
    """Refuse what is no name of a world: a folder is called after it."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]{0,79}", name, re.ASCII):
        raise Impossible(f"world {name!r}: give a name of letters, digits, and - _ .")


def _reload(reference: str, digest: str, folders: tuple[str, ...]) -> World:
    from ident.render.worlds import load

    children.follow(folders)
    world = load(reference)
    if world.digest != digest:
        raise Impossible(f"{reference}: was changed after the command was typed; type it again")
    return world
