"""Factors: what of a world varies, each along an interval, around a circle, or between categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from ident.render.aliases import Array, Float32s
from ident.render.errors import Impossible

MOST_FACTORS = 256
MOST_CATEGORIES = 2**16
LONGEST_TEXT = 200  # characters
LARGEST_BOUND = 1e6


@dataclass(frozen=True)
class Interval:
    """Values from low to high."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _set_bounds(self)


@dataclass(frozen=True)
class Circle:
    """Values from low to high, which are one point: what leaves at one end comes in at the other."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _set_bounds(self)


@dataclass(frozen=True)
class Category:
    """One of some names; its value is the name's number, from 0 on."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.names, str) or not isinstance(self.names, Sequence):
            raise Impossible(f"names {self.names!r}: give a list of at least one")
        object.__setattr__(self, "names", tuple(self.names))
        if not 1 <= len(self.names) <= MOST_CATEGORIES:
            raise Impossible(f"{len(self.names)} names of a category: give 1 to {MOST_CATEGORIES}")
        for name in self.names:
            _check_text(name, "the name of a category")
        if len(set(self.names)) < len(self.names):
            raise Impossible(f"names {', '.join(self.names)}: give each once")

    @property
    def low(self) -> float:
        """The first name's number."""
        return 0.0

    @property
    def high(self) -> float:
        """The last name's number."""
        return len(self.names) - 1.0


Kind = Interval | Circle | Category
KINDS: Mapping[str, type[Kind]] = MappingProxyType({"interval": Interval, "circle": Circle, "category": Category})
"""By the name that dataset.json has for each."""


@dataclass(frozen=True)
class Factor:
    """What varies from image to image: a raw value, which times the scale is the scene value, in the unit."""

    name: str
    kind: Kind
    meaning: str = ""
    unit: str = ""
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("name", "meaning", "unit"):
            _check_text(getattr(self, name), f"the {name} of a factor", least=int(name == "name"))
        if not isinstance(self.kind, Kind):
            raise Impossible(f"kind {self.kind!r} of {self.name}: give an Interval, a Circle or a Category")
        object.__setattr__(self, "scale", _number(self.scale, f"the scale of {self.name}"))
        if self.scale == 0:
            raise Impossible(f"the scale of {self.name} is 0: give another number")

    def describe(self) -> dict[str, Any]:
        """The factor as it stands in dataset.json."""
        (kind,) = (name for name, each in KINDS.items() if isinstance(self.kind, each))
        values = {"names": list(self.kind.names)} if isinstance(self.kind, Category) else asdict(self.kind)
        rest = {"meaning": self.meaning, "unit": self.unit, "scale": self.scale}
        return {"name": self.name, "kind": kind, **values, **rest}


def factor_of(described: Mapping[str, Any]) -> Factor:
    """The factor that describes itself so; an error says what is wrong."""
    if not isinstance(described, Mapping):
        raise Impossible(f"factor {described!r}: give an object")
    kind = described.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Impossible(f"kind {kind!r} of a factor: choose from {', '.join(KINDS)}")
    of_kind = {field.name for field in fields(KINDS[kind])}
    wanted = of_kind | {field.name for field in fields(Factor)}
    if wrong := sorted(map(repr, set(described) ^ wanted)):
        raise Impossible(f"factor {described.get('name')!r}: {', '.join(wrong)} is missing or unknown")
    rest = {name: value for name, value in described.items() if name not in of_kind | {"kind"}}
    return Factor(kind=KINDS[kind](**{name: described[name] for name in of_kind}), **rest)


def check_factors(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """The factors of one world: some, of different names."""
    if not 1 <= len(factors) <= MOST_FACTORS or not all(isinstance(factor, Factor) for factor in factors):
        raise Impossible(f"{len(factors)} factors: give 1 to {MOST_FACTORS}, each a Factor")
    names = [factor.name for factor in factors]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise Impossible(f"several factors are called {', '.join(repeated)}: give each a name of its own")
    return factors


def check_raw(raw: Array, factors: tuple[Factor, ...], what: str = "raw latents") -> Float32s:
    """The raw latents as float32 (n, d), or an error that says what is wrong with them."""
    if raw.ndim != 2 or raw.shape[1] != len(factors) or len(raw) == 0:
        raise Impossible(f"{what}: the shape is {raw.shape}, not (N, {len(factors)}) with N at least 1")
    if raw.dtype not in (np.float32, np.float64):
        raise Impossible(f"{what}: the numbers are {raw.dtype}, not float32 or float64")
    for i, factor in enumerate(factors):
        column, kind = raw[:, i], factor.kind
        # Bounds as the numbers' own type has them: 0.1 of 32 bits is above 0.1 of 64.
        low, high = (raw.dtype.type(bound) for bound in (kind.low, kind.high))
        fits = (column >= low) & (column <= high)  # false for NaN, too
        if isinstance(kind, Category):
            fits &= column == np.floor(column)
        if not fits.all():
            row = int(np.argmin(fits))
            allowed = "a whole number " * isinstance(kind, Category) + f"in [{kind.low:g}, {kind.high:g}]"
            scaled = np.abs(raw).max() <= max(abs(each.scale * each.kind.high) for each in factors)
            hint = "; is this latents.npy? Give raw_latents.npy" if scaled else ""
            raise Impossible(f"{what}: row {row}, {factor.name} is {column[row]!s}, not {allowed}{hint}")
    return raw.astype(np.float32)


def _set_bounds(kind: Interval | Circle) -> None:
    for name in ("low", "high"):
        object.__setattr__(kind, name, _number(getattr(kind, name), name))
    if not np.float32(kind.low) < np.float32(kind.high):
        raise Impossible(f"from {kind.low} to {kind.high}: give two numbers, the lower one first")


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST_BOUND:
        raise Impossible(f"{what} is {value!r}: give a number from {-LARGEST_BOUND:g} to {LARGEST_BOUND:g}")
    return float(value)


def _check_text(value: object, what: str, least: int = 1) -> None:
    if not isinstance(value, str) or not value.isprintable() or not least <= len(value) <= LONGEST_TEXT:
        raise Impossible(f"{what} is {value!r}: give a line of {least} to {LONGEST_TEXT} characters")
