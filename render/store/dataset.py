"""The reader: the images and latents of a dataset by index. It needs no Blender, no Ray and no torch."""

from __future__ import annotations

import operator
import os
import resource
import shlex
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.render.aliases import Array, Float32s
from ident.render.errors import Failed, Impossible
from ident.render.store.files import cache_folder, check_room, lock, whole
from ident.render.store.manifest import AGAIN, MANIFEST, Manifest
from ident.render.store.shards import Shard
from ident.render.store.storage import Storage
from ident.render.worlds import Factor

OPEN_SHARDS = min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
"""At once in a process; each takes a file descriptor."""

DEFAULT = "data/3dident"
"""Where `ident render` and `ident pull` put a dataset; behind it the split, if it is another than train."""

Indices = Sequence[int] | npt.NDArray[np.integer[Any]]


class Dataset:
    """The images and latents of a dataset, by index; a map-style torch Dataset too, in any number of workers.

    data[i] is (image, raw latents): (H, W, C) uint8 and (d,) float32. data[indices] are arrays of them.
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self.storage = Storage(os.fspath(place))
        self.manifest = Manifest.read(self.storage)
        if not self.manifest.complete:
            raise Impossible(
                f"{self.storage}: incomplete, {self.manifest.done} of {self.manifest.n} images are there; {AGAIN}"
            )
        self._columns = self.manifest.columns
        self._open: dict[int, Shard] = {}
        self._process = os.getpid()

    def __len__(self) -> int:
        return self.manifest.n

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": {}}

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What varies from image to image, in the order of the latents' columns."""
        return self.manifest.factors

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the factors."""
        return tuple(factor.name for factor in self.factors)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an image: height, width, channels."""
        return self.manifest.shape

    @cached_property
    def latents(self) -> Float32s:
        """All raw latents (n, d), in memory, read-only."""
        raw = np.concatenate([self._shard(number).latents for number in range(self.manifest.count)])
        raw.flags.writeable = False
        return raw

    @cached_property
    def positive_latents(self) -> Float32s:
        """The raw latents (n, d) of the positives that were rendered for each image, read-only."""
        raw = self.read_many("positive_latents", np.arange(len(self)))
        raw.flags.writeable = False
        return raw

    def positives(self, indices: Indices) -> Array:
        """The positives (len(indices), H, W, C) uint8 that were rendered for images."""
        return self.read_many("positives", indices)

    def image(self, index: int) -> Array:
        """An image (H, W, C) uint8."""
        return self.read("images", index)

    def images(self, indices: Indices) -> Array:
        """Images (len(indices), H, W, C) uint8, in that order."""
        return self.read_many("images", indices)

    def read(self, name: str, index: int) -> Array:
        """A row of an array: images, or another that the dataset has, see `manifest.columns`."""
        shard, row = self._place(operator.index(index))
        return self._shard(shard).read(self._named(name), row)

    def read_many(self, name: str, indices: Indices) -> Array:
        """Rows of an array in the order of the indices; each shard is visited once."""
        wanted = np.asarray(indices)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise IndexError(f"indices {wanted.dtype} {wanted.shape}: give a list of whole numbers")
        places = [self._place(int(index)) for index in wanted]
        column = self._columns[self._named(name)]
        rows = np.empty((len(places), *column.shape), column.dtype)
        for i in sorted(range(len(places)), key=places.__getitem__):
            shard, row = places[i]
            rows[i] = self._shard(shard).read(name, row)
        return rows

    def __getitem__(self, index: Any) -> tuple[Array, Float32s]:
        try:
            shard, row = self._place(operator.index(index))
        except TypeError:  # not one number: a slice, a mask, or an array of them
            indices = np.arange(len(self))[index]
            return self.images(indices), self.latents[indices]
        opened = self._shard(shard)
        return opened.read("images", row), opened.latents[row].copy()

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
            self._open, self._process = {}, os.getpid()
        # Threads may meet here: each line is one step for them. A shard that is let go is closed by its last reader.
        shard = self._open.pop(number, None) or open_shard(self.storage, self.manifest, number)
        self._open[number] = shard
        for oldest in list(self._open)[:-OPEN_SHARDS]:
            self._open.pop(oldest, None)
        return shard


def check_there(place: str, purpose: str = "", *, n: int = 1000, split: str = "train", instead: str = "") -> None:
    """Refuse a place without a dataset, saying what to type to have one of n images there."""
    try:
        next(iter(Storage(place).stream(MANIFEST)), b"")  # not its size, which not every server says
    except (FileNotFoundError, NotADirectoryError):
        pass
    else:
        return
    usual = DEFAULT + f"-{split}" * (split != "train")
    to = "" if "://" in place else f" --out {shlex.quote(place)}"
    rendered = f"ident render --n {n}" + f" --split {split}" * (split != "train") + to * (place != usual)
    pulled = "ident pull 3dident" + to * (place != usual)
    either = pulled if place == usual or split == "train" else ""
    typed = " or ".join(filter(None, [rendered, either]))
    raise Impossible(f"{place}: no dataset{purpose}; type {typed}{instead}")


def open_shard(storage: Storage, manifest: Manifest, number: int) -> Shard:
    """A finished shard, open; of a remote dataset its copy in the cache, fetched and checked at first."""
    span, record = manifest.span(number), manifest.shards[number]
    if storage.folder:
        return open_file(storage.folder / span.file, manifest, number)
    path = cache_folder("datasets") / f"{record.sha256}.h5"
    with lock(path.with_suffix(".lock")):
        if not path.exists() or path.stat().st_size != record.bytes:
            with whole(path) as part:
                fetch(storage, manifest, number, part)
    return open_file(path, manifest, number)


def fetch(storage: Storage, manifest: Manifest, number: int, path: Path) -> None:
    """Copy a finished shard of a remote dataset to a path, and check it."""
    file, record = manifest.span(number).file, manifest.shards[number]
    said = f"{record.bytes / 1e9:.2f} GB of {storage.path(file)} are to come,"
    check_room(path.parent, record.bytes, said, "let IDENT_CACHE and TMPDIR name other folders")
    try:
        storage.fetch(file, path, record.bytes)
    except FileNotFoundError as error:
        raise Failed(f"{storage.path(file)}: is missing; {AGAIN}") from error
    wrong = Storage(str(path.parent)).fault(path.name, record.bytes, record.sha256)
    if wrong:
        raise Failed(f"{storage.path(file)}: {wrong}; delete it, and {AGAIN}")


def open_file(path: Path, manifest: Manifest, number: int) -> Shard:
    """The file of a finished shard, open, with the rows that it should have."""
    span, record = manifest.span(number), manifest.shards[number]
    size = path.stat().st_size if path.exists() else None
    if size != record.bytes:
        wrong = "is missing" if size is None else f"is damaged, {size} bytes and not {record.bytes}"
        raise Failed(f"{path}: {wrong}; {AGAIN}")
    shard = Shard(path, manifest.columns, span.n, len(manifest.factors))
    if not np.array_equal(shard.index, np.arange(span.start, span.start + span.n)):
        raise Failed(f"{path}: holds other rows than {MANIFEST} says")
    return shard
