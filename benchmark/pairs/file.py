"""Pairs in an HDF5 file, with what they were made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import h5py

from ident.benchmark.pairs.samplers import DrawnPairs
from ident.render.errors import Impossible
from ident.render.store.files import make_folder, whole
from ident.render.store.storage import Storage


def check_target(files: Sequence[Path], recipe: str, data: Storage, *, force: bool) -> None:
    """Refuse to overwrite what was made of something else. The first file is that of the pairs."""
    out = files[0]
    if out.suffix not in (".h5", ".hdf5") or out.is_dir():
        raise Impossible(f"{out}: give --out the name of a file that ends in .h5")
    if data.folder and data.folder.resolve() in out.resolve().parents:
        raise Impossible(f"{out}: lies in the dataset; give another --out")
    make_folder(out.absolute().parent)
    there = next((path for path in files if path.exists()), None)
    if there and not force and recipe_in(out) != recipe:
        raise Impossible(f"{there}: holds something else; give --force to overwrite it, or another --out")


def save(batches: Iterable[DrawnPairs], n: int, recipe: str, path: Path) -> None:
    """Write n pairs as HDF5 batch by batch, as they are drawn, with what they were made of."""
    with whole(path) as part, h5py.File(part, "w") as file:
        file.attrs["recipe"] = recipe
        start = 0
        for pairs in batches:
            for field in fields(pairs):
                rows = getattr(pairs, field.name)
                stored = file.require_dataset(field.name, (n, *rows.shape[1:]), rows.dtype)
                stored[start : start + len(pairs)] = rows
            start += len(pairs)


def recipe_in(path: Path) -> str | None:
    """What the pairs in a file were made of."""
    try:
        if not path.is_file():  # HDF5 would wait for a pipe
            return None
        with h5py.File(path) as file:
            return str(file.attrs["recipe"])
    except (OSError, KeyError):
        return None
