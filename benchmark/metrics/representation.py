"""Anybody's representation, from a file, with the factors behind it: of a dataset, or from a file, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ident.benchmark.metrics.arrays import LEAST, varies
from ident.benchmark.registry import Slot
from ident.render.aliases import Float64s, Int64s
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset, check_there
from ident.render.store.files import read_npy_file
from ident.render.worlds.factors import MOST_CATEGORIES, MOST_FACTORS, Category, Circle, Factor, Interval, Kind

MOST_OUTPUTS = 1000
FURTHEST = 1e100
"""The largest value, whose square is finite."""


@dataclass(frozen=True)
class Representation:
    """Outputs (n, k) of an encoder, and the factors (n, d) that the same rows have."""

    outputs: Float64s
    factors: Float64s
    described: tuple[Factor, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the factors."""
        return tuple(factor.name for factor in self.described)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What each factor is."""
        return tuple(factor.kind for factor in self.described)

    def sampled(self, most: int, *, seed: int) -> Representation:
        """At most so many rows, in random order: some metrics are fitted on the first and tested on the last."""
        rows = np.random.default_rng(seed).permutation(len(self.outputs))[:most]
        return replace(self, outputs=self.outputs[rows], factors=self.factors[rows])

    def varying(self) -> tuple[Representation, tuple[str, ...]]:
        """It with those factors alone that vary, and the names of the others."""
        kept = varies(self.factors)
        if not kept.any():
            raise Impossible("every factor has one value: give rows of several")
        described = tuple(factor for factor, keep in zip(self.described, kept, strict=True) if keep)
        constant = tuple(name for name, keep in zip(self.names, kept, strict=True) if not keep)
        return replace(self, factors=self.factors[:, kept], described=described), constant


def of_dataset(path: Path, place: str, index: Path | None) -> Representation:
    """The representation in a file of a dataset's images, all or those of an index."""
    check_there(place, instead=", or give --latents, a .npy file")
    data = Dataset(place)
    outputs, factors = read_numbers(path), np.asarray(data.latents, np.float64)
    return checked(path, outputs, factors[rows_of(path, outputs, factors, place, index)], data.factors)


def of_latents(path: Path, latents: Path, index: Path | None, kinds: Mapping[str, Slot]) -> Representation:
    """The representation in a file of the factors in another, which are intervals where nothing else is said."""
    outputs, factors = read_numbers(path), read_numbers(latents)
    numbers = {str(number): number for number in range(factors.shape[1])}
    if wrong := sorted(set(kinds) - set(numbers)):
        raise Impossible(f"kind of {wrong[0]}: {latents} has columns 0 to {len(numbers) - 1}; give one of these")
    described = tuple(
        Factor(name, kind_of(kinds.get(name, Slot("interval")), factors[:, number], name))
        for name, number in numbers.items()
    )
    return checked(path, outputs, factors[rows_of(path, outputs, factors, str(latents), index)], described)


def kind_of(slot: Slot, values: Float64s, name: str) -> Kind:
    """The kind of factor that `circle(low, high)`, `category` or `interval` says, of these values (n,)."""
    if slot.keywords or (slot.arguments and (slot.name != "circle" or len(slot.arguments) != 2)):
        raise Impossible(f"kind {slot} of {name}: give interval, category or circle(low, high), one turn")
    if slot.name == "circle":
        return Circle(*slot.arguments)  # type: ignore[arg-type]  # which it checks
    if slot.name == "category":
        if not ((values >= 0) & (values < MOST_CATEGORIES) & (values == np.floor(values))).all():
            raise Impossible(f"kind category of {name}: give whole numbers from 0 to {MOST_CATEGORIES - 1}")
        return Category(tuple(map(str, range(int(values.max()) + 1))))
    if slot.name == "interval":
        return Interval()
    raise Impossible(f"kind {slot} of {name}: choose from interval, circle, category")


def rows_of(path: Path, outputs: Float64s, factors: Float64s, place: str, index: Path | None) -> Int64s:
    """The row of the factors that each row of the outputs is of."""
    if index is None:
        if len(outputs) != len(factors):
            raise Impossible(
                f"{path} has {len(outputs)} rows, {place} {len(factors)}: give a row for each, in their order, or "
                "--index, a .npy file that says which they are of"
            )
        return np.arange(len(factors))
    rows = read_npy_file(index, "a .npy file")
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or len(rows) != len(outputs):
        raise Impossible(f"{index}: {rows.dtype} {rows.shape}; give a whole number for each of {len(outputs)} rows")
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(factors)):
        raise Impossible(f"{index}: goes from {rows.min()} to {rows.max()}; {place} has rows 0 to {len(factors) - 1}")
    if len(np.unique(rows)) < len(rows):
        raise Impossible(f"{index}: has some rows twice, which would be fitted and tested on; give each once")
    return rows.astype(np.int64)


def read_numbers(path: Path) -> Float64s:
    """A matrix (n, k) of a .npy file; a vector is a matrix of one column."""
    values = read_npy_file(path, "a .npy file")
    if values.dtype.kind not in "fiub":
        raise Impossible(f"{path}: holds {values.dtype}; give numbers")
    if values.ndim not in (1, 2) or not values.size:
        raise Impossible(f"{path}: has the shape {values.shape}; give (rows, columns), flattened if it has more")
    matrix: Float64s = values.reshape(len(values), -1).astype(np.float64)
    fits = np.abs(matrix) <= FURTHEST  # false for NaN, too
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        raise Impossible(f"{path}: row {row}, column {column} is {matrix[row, column]}; give finite numbers")
    return matrix


def checked(path: Path, outputs: Float64s, factors: Float64s, described: Sequence[Factor]) -> Representation:
    """Outputs and factors of the same rows, if there are enough and not too many columns."""
    if len(outputs) < LEAST:
        raise Impossible(f"{path}: {len(outputs)} samples; a score needs {LEAST} or more")
    for count, most, what in ((outputs.shape[1], MOST_OUTPUTS, "outputs"), (factors.shape[1], MOST_FACTORS, "factors")):
        if count > most:
            raise Impossible(f"{path}: {count} {what}; at most {most} are scored")
    return Representation(outputs, factors, tuple(described))


def blocks_of(blocks: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of the factors in each block, by the name of the block."""
    for block, members in blocks.items():
        if wrong := [name for name in members if name not in names]:
            raise Impossible(f"block {block}: no factor {wrong[0]!r}; choose from {', '.join(names)}")
    return {block: [names.index(name) for name in dict.fromkeys(members)] for block, members in blocks.items()}
