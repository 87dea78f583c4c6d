"""A shard: some hundred rows of a dataset in one HDF5 file.

    images, mask, depth, normal    one row an image; attributes codec, shape, dtype
    positives, positive_latents    likewise, where each image has a positive of its own
    latents (n, d) float32         raw
    index (n,) int64               of the row in the whole dataset

An array in zstd is (n, H, W, ...), one row a chunk, through HDF5's registered zstd filter: h5py reads it after
`import hdf5plugin`. WebP files lie end to end in one array of bytes: row i from images_offsets[i] to [i + 1].
Either way images_crc32[i] is the checksum of the row's encoded bytes. No time stamps: equal rows give equal files.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5p, h5s, h5t, h5z

from ident.render.aliases import Array, Float32s
from ident.render.errors import Failed
from ident.render.store.codecs import Damaged
from ident.render.store.columns import Column, Columns
from ident.render.store.files import naming
from ident.render.store.journal import Journal

FORMATS = FORMER, FORMAT = 1, 2
"""A shard of the former one says in another form how it was made."""
ZSTD_FILTER = 32015  # HDF5's registry of filters


@dataclass(frozen=True)
class Span:
    """Which rows a shard holds: n of them from start on."""

    number: int
    start: int
    n: int

    @property
    def file(self) -> str:
        """The name of the shard within the dataset."""
        return f"shards/{self.number:05d}.h5"


def write(
    path: Path, span: Span, raw: Float32s, names: Sequence[str], columns: Columns, journal: Journal, recipe: str
) -> None:
    """Write a shard of the rows in a journal, whose raw latents (n, d) have these names."""
    assert len(raw) == len(journal) == span.n
    with naming(path), _hdf5(path) as file:
        file.attrs.update({"format": FORMAT, "recipe": recipe})
        file["latents"] = raw
        file["latents"].attrs["names"] = list(names)
        file["index"] = np.arange(span.start, span.start + span.n, dtype=np.int64)
        for i, (name, column) in enumerate(columns.items()):
            written = _write_filtered if column.filtered else _write_end_to_end
            array = written(file, name, column, journal.sizes(i), journal.column(i))
            array.attrs.update({"codec": column.codec, "shape": column.shape, "dtype": column.dtype.str})
            file[f"{name}_crc32"] = np.array([zlib.crc32(row) for row in journal.column(i)], np.uint32)


@contextmanager
def _hdf5(path: Path) -> Iterator[h5py.File]:
    """A new file. HDF5 says in a RuntimeError's text alone that the disk was full as the file was closed."""
    path.unlink(missing_ok=True)
    try:
        with h5py.File(path, "x") as file:  # "w" would write where a link leads
            yield file
    except RuntimeError as error:
        number = re.search(r"errno = (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def _write_filtered(
    file: h5py.File, name: str, column: Column, sizes: list[int], rows: Iterator[bytes]
) -> h5py.Dataset:
    """One row a chunk, encoded here: HDF5 itself could not without a plug-in."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_chunk((1, *column.shape))
    properties.set_filter(ZSTD_FILTER, h5z.FLAG_OPTIONAL, (0,))
    properties.set_obj_track_times(False)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    space = h5s.create_simple((len(sizes), *column.shape))
    array = h5d.create(file.id, name.encode(), h5t.py_create(column.dtype), space, properties)
    for i, row in enumerate(rows):
        array.write_direct_chunk((i, *(0 for _ in column.shape)), row)
    return file[name]


def _write_end_to_end(file: h5py.File, name: str, _: Column, sizes: list[int], rows: Iterator[bytes]) -> h5py.Dataset:
    ends = np.cumsum([0, *sizes], dtype=np.int64)
    file[f"{name}_offsets"] = ends
    array = file.create_dataset(name, (int(ends[-1]),), np.uint8)
    for i, row in enumerate(rows):
        array[ends[i] : ends[i + 1]] = np.frombuffer(row, np.uint8)
    return array


class Shard:
    """A shard, open for reading. What it holds is compared with what it should before anything is believed."""

    def __init__(self, path: Path, columns: Columns, n: int, width: int) -> None:
        """Open the shard of n rows of these columns, which has the latents of so many factors."""
        self.path = path
        try:
            self._file = h5py.File(path, "r", locking=False, rdcc_nbytes=0)
        except OSError as error:
            raise Failed(f"{path}: cannot be read ({error.strerror or 'not a whole HDF5 file'})") from error
        try:
            self.format = self._file.attrs.get("format")
            if self.format not in FORMATS:
                raise Damaged(f"format {self.format}, not {' or '.join(map(str, FORMATS))}")
            self.latents: Float32s = self._array("latents", (n, width), np.float32)[:]
            self.index: npt.NDArray[np.int64] = self._array("index", (n,), np.int64)[:]
            self.recipe = str(self._file.attrs["recipe"])
            self._columns = {name: self._open(name, column, n) for name, column in columns.items()}
        except (Damaged, OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
            self.close()
            raise Failed(f"{path}: damaged ({error}); `ident verify` says more") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _array(self, name: str, shape: tuple[int, ...] | None, dtype: Any, *, plain: bool = True) -> h5py.Dataset:
        """An array that lies in this very file, and is what it should be; plain ones are as large as they say."""
        if not isinstance(self._file.get(name, getlink=True), h5py.HardLink):
            raise Damaged(f"no {name}")
        array = self._file[name]
        if not isinstance(array, h5py.Dataset) or array.is_virtual or array.external:
            raise Damaged(f"{name} does not lie in the file")
        if plain and (array.chunks or array.id.get_storage_size() != array.nbytes):
            raise Damaged(f"{name} does not lie in one piece")
        if array.dtype != dtype or (array.shape != shape if shape else len(array.shape) != 1):
            raise Damaged(f"{name} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape or '(bytes,)'}")
        return array

    def _open(self, name: str, column: Column, n: int) -> tuple[Column, h5py.Dataset, Array, Array | None]:
        checksums = self._array(f"{name}_crc32", (n,), np.uint32)[:]
        if column.filtered:
            array = self._array(name, (n, *column.shape), column.dtype, plain=False)
            properties = array.id.get_create_plist()
            filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
            if array.chunks != (1, *column.shape) or filters != [ZSTD_FILTER]:
                raise Damaged(f"{name} is not kept a row a chunk in zstd")
            sizes: list[int] = []
            array.id.chunk_iter(lambda chunk: sizes.append(chunk.size))
            if max(sizes, default=0) > column.most:
                raise Damaged(f"{name} has a row of {max(sizes)} bytes")
            return column, array, checksums, None
        array = self._array(name, None, np.uint8)
        ends = self._array(f"{name}_offsets", (n + 1,), np.int64)[:]
        if ends[0] != 0 or ends[-1] != len(array) or (np.diff(ends) < 0).any():
            raise Damaged(f"{name}_offsets do not fit {name}")
        if np.diff(ends).max() > column.most:
            raise Damaged(f"{name} has a row of {np.diff(ends).max()} bytes")
        return column, array, checksums, ends

    def read(self, name: str, row: int) -> Array:
        """A row of a column."""
        column, array, checksums, ends = self._columns[name]
        try:
            if ends is None:
                data = bytes(array.id.read_direct_chunk((row, *(0 for _ in column.shape)))[1])
            else:
                data = array[ends[row] : ends[row + 1]].tobytes()
            if zlib.crc32(data) != checksums[row]:
                raise Damaged("checksum")
            return column.decode(data)
        except (Damaged, OSError, RuntimeError, ValueError) as error:
            raise Failed(f"{self.path}: row {row} of {name} is damaged ({error}); `ident verify` says more") from error
