"""A shard: some hundred rows of a dataset in one HDF5 file, and the journal of the rows that are rendered already.

    images, mask, depth, normal    one row an image; attributes codec, shape, dtype
    positives, positive_latents    likewise, where each image has a positive of its own
    latents (n, 10) float32        raw
    index (n,) int64               of the row in the whole dataset

An array in zstd is (n, H, W, ...), one row a chunk, through HDF5's registered zstd filter: h5py reads it after
`import hdf5plugin`. WebP files lie end to end in one array of bytes: row i from images_offsets[i] to [i + 1].
Either way images_crc32[i] is the checksum of the row's encoded bytes. No time stamps: equal rows give equal files.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5p, h5s, h5t, h5z

from ident.render.aliases import Array, Float32s
from ident.render.errors import Failed
from ident.render.store.codecs import CODECS, ZSTD, Codec, Damaged
from ident.render.store.files import naming, open_plain
from ident.render.worlds import latents

FORMAT = 1
ZSTD_FILTER = 32015  # HDF5's registry of filters


@dataclass(frozen=True)
class Column:
    """One array of a shard: what a row of it is, and how it is kept."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    codec: str

    @property
    def filtered(self) -> bool:
        """Whether HDF5 knows the encoding as a filter; else the encoded rows lie end to end."""
        return self._kept is ZSTD

    @property
    def most(self) -> int:
        """More bytes than any codec makes of a row."""
        return 2 * math.prod(self.shape) * self.dtype.itemsize + 4096

    @property
    def _kept(self) -> Codec:
        return CODECS[self.codec]

    def encode(self, row: Array) -> bytes:
        """A row's bytes."""
        assert row.shape == self.shape, f"{row.shape} is not {self.shape}"
        return self._kept.encode(row.astype(self.dtype, copy=False))

    def decode(self, data: bytes) -> Array:
        """A row of its bytes."""
        return self._kept.decode(data, self.shape, self.dtype)


def columns(size: int, codec: str, passes: tuple[str, ...], *, positives: bool = False) -> dict[str, Column]:
    """The arrays of a shard by name."""
    image = Column((size, size, 3), np.dtype(np.uint8), codec)
    paired = {"positives": image, "positive_latents": Column((len(latents.LATENTS),), np.dtype(np.float32), "fast")}
    passing = {
        "mask": Column((size, size), np.dtype(np.uint8), "fast"),
        "depth": Column((size, size), np.dtype(np.float32), "fast"),
        "normal": Column((size, size, 3), np.dtype(np.float32), "fast"),
    }
    return {"images": image, **{name: passing[name] for name in passes}, **(paired if positives else {})}


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


Sums = tuple[int, ...]
"""The sum of all pixels in red, green and blue, and the sums of their squares: exact, whatever the order."""


def sums(image: Array) -> Sums:
    """The sums of one image (H, W, 3) uint8."""
    counts = [np.bincount(image[..., channel].ravel(), minlength=256) for channel in range(3)]
    values = np.arange(256)
    return tuple(int(count @ values**power) for power in (1, 2) for count in counts)


def add(one: Sums, other: Sums) -> Sums:
    """The sums of both."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


NOTHING: Sums = (0,) * 6


# The journal: a file that only grows, of records that check themselves. Whatever stops its writer, the records that
# are whole stay; the rest of the shard is rendered by whoever opens the journal next.

RECORD = struct.Struct("<cII")  # kind, bytes that follow, crc32 of both
KEY, BEGIN, FAIL, ROW = b"K", b"B", b"F", b"R"
HEAD = struct.Struct("<I6q")  # the number of the row, and its sums


class Journal:
    """The encoded rows of a shard so far, and how often the next row was begun in vain."""

    def __init__(self, path: Path, key: bytes, width: int) -> None:
        """Open or make the journal of `width` columns; what was written under another key is thrown away."""
        self.path, self._sizes = path, struct.Struct(f"<{width}I")
        self._file = self._opened()
        self._rows: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.sums = NOTHING
        self.begun: dict[bytes, int] = {}
        """Who began the next row how often."""
        self.failure = "its worker died or hung"
        end = self._recover(key)
        os.ftruncate(self._file, end)
        if not end:
            self._append(KEY, key)

    def _opened(self) -> int:
        """The journal, locked: a writer that was given up may not have died yet, or may remove it right now."""
        while True:
            number = open_plain(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            fcntl.flock(number, fcntl.LOCK_EX)
            if self.path.exists() and os.path.samestat(os.fstat(number), self.path.stat()):
                return number
            os.close(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __len__(self) -> int:
        return len(self._rows)

    def _recover(self, key: bytes) -> int:
        """Read all whole records; gives the place where they end."""
        place, size = 0, os.fstat(self._file).st_size
        while place + RECORD.size <= size:
            kind, length, checksum = RECORD.unpack(os.pread(self._file, RECORD.size, place))
            data = os.pread(self._file, length, place + RECORD.size)
            if len(data) < length or zlib.crc32(kind + data) != checksum or (place == 0) != (kind == KEY):
                break
            if kind == KEY and data != key:
                return 0
            self._note(kind, data, place + RECORD.size)
            place += RECORD.size + length
        return place

    def _append(self, kind: bytes, data: bytes) -> None:
        place = os.fstat(self._file).st_size
        record = RECORD.pack(kind, len(data), zlib.crc32(kind + data)) + data
        with naming(self.path):
            while record:
                record = record[os.write(self._file, record) :]
        self._note(kind, data, place + RECORD.size)

    def _note(self, kind: bytes, data: bytes, place: int) -> None:
        if kind == BEGIN:
            self.begun[data] = self.begun.get(data, 0) + 1
        elif kind == FAIL:
            self.failure = data.decode(errors="replace")
        elif kind == ROW:
            self.begun.clear()
            row, *sums = HEAD.unpack_from(data)
            self.sums = add(self.sums, tuple(sums))
            self._rows[row] = place + HEAD.size + self._sizes.size, self._sizes.unpack_from(data, HEAD.size)

    def begin(self, who: bytes) -> None:
        """Say that the next row is being rendered."""
        self._append(BEGIN, who)

    def fail(self, why: str) -> None:
        """Say why the next row could not be rendered."""
        self._append(FAIL, why.encode(errors="replace"))

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    def add(self, row: int, encoded: list[bytes], sums: Sums) -> None:
        """Keep a row: its encoded columns."""
        self._append(ROW, b"".join([HEAD.pack(row, *sums), self._sizes.pack(*map(len, encoded)), *encoded]))

    def row(self, row: int) -> tuple[list[bytes], Sums]:
        """The encoded columns of a row, and its sums."""
        place, sizes = self._rows[row]
        starts = [place + sum(sizes[:i]) for i in range(len(sizes))]
        head = os.pread(self._file, HEAD.size, place - self._sizes.size - HEAD.size)
        encoded = [os.pread(self._file, size, start) for size, start in zip(sizes, starts, strict=True)]
        return encoded, HEAD.unpack(head)[1:]

    def sizes(self, column: int) -> list[int]:
        """How many bytes each row of a column takes."""
        return [sizes[column] for _, (_, sizes) in sorted(self._rows.items())]

    def column(self, column: int) -> Iterator[bytes]:
        """The encoded rows of a column."""
        for _, (place, sizes) in sorted(self._rows.items()):
            yield os.pread(self._file, sizes[column], place + sum(sizes[:column]))


def write(path: Path, span: Span, raw: Float32s, kept: Mapping[str, Column], journal: Journal, recipe: str) -> None:
    """Write a shard of the rows in a journal."""
    assert len(raw) == len(journal) == span.n
    with naming(path), _hdf5(path) as file:
        file.attrs.update({"format": FORMAT, "recipe": recipe})
        file["latents"] = raw
        file["latents"].attrs["names"] = list(latents.NAMES)
        file["index"] = np.arange(span.start, span.start + span.n, dtype=np.int64)
        for i, (name, column) in enumerate(kept.items()):
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
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_chunk((1, *column.shape))
    made.set_filter(ZSTD_FILTER, h5z.FLAG_OPTIONAL, (0,))
    made.set_obj_track_times(False)
    made.set_fill_time(h5d.FILL_TIME_NEVER)
    space = h5s.create_simple((len(sizes), *column.shape))
    array = h5d.create(file.id, name.encode(), h5t.py_create(column.dtype), space, made)
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

    def __init__(self, path: Path, kept: Mapping[str, Column], n: int) -> None:
        self.path = path
        try:
            self._file = h5py.File(path, "r", locking=False, rdcc_nbytes=0)
        except OSError as error:
            raise Failed(f"{path}: cannot be read ({error.strerror or 'not a whole HDF5 file'})") from error
        try:
            if self._file.attrs.get("format") != FORMAT:
                raise Damaged(f"format {self._file.attrs.get('format')}, not {FORMAT}")
            self.latents: Float32s = self._array("latents", (n, len(latents.LATENTS)), np.float32)[:]
            self.index: npt.NDArray[np.int64] = self._array("index", (n,), np.int64)[:]
            self.recipe = str(self._file.attrs["recipe"])
            self._columns = {name: self._open(name, column, n) for name, column in kept.items()}
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
            made = array.id.get_create_plist()
            filters = [made.get_filter(i)[0] for i in range(made.get_nfilters())]
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
