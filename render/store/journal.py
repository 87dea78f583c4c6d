"""The journal of a shard's rows that are rendered already: a file that only grows, of records that check themselves.

Whatever stops its writer, the records that are whole stay; the rest of the shard is rendered by whoever opens the
journal next.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from ident.render.store.columns import Sums, add, no_sums
from ident.render.store.files import naming, open_plain

RECORD = struct.Struct("<cII")  # kind, bytes that follow, crc32 of both
KEY, BEGIN, FAIL, ROW = b"K", b"B", b"F", b"R"


class Journal:
    """The encoded rows of a shard so far, and how often the next row was begun in vain."""

    def __init__(self, path: Path, key: bytes, width: int, channels: int = 3, former: bytes = b"") -> None:
        """Open or make the journal of `width` columns; what was written under neither key is thrown away."""
        self.path, self._sizes = path, struct.Struct(f"<{width}I")
        self._head = struct.Struct(f"<I{2 * channels}q")  # the number of the row, and the sums of its image
        self._file = self._opened()
        self._rows: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.sums = no_sums(channels)
        self.begun: dict[bytes, int] = {}
        """Who began the next row how often."""
        self.failure = "its worker died or hung"
        end = self._recover((key, former))
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

    def _recover(self, keys: tuple[bytes, bytes]) -> int:
        """Read all whole records; gives the place where they end."""
        place, size = 0, os.fstat(self._file).st_size
        while place + RECORD.size <= size:
            kind, length, checksum = RECORD.unpack(os.pread(self._file, RECORD.size, place))
            data = os.pread(self._file, length, place + RECORD.size)
            if len(data) < length or zlib.crc32(kind + data) != checksum or (place == 0) != (kind == KEY):
                break
            if kind == KEY and data not in keys:
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
            row, *sums = self._head.unpack_from(data)
            self.sums = add(self.sums, tuple(sums))
            self._rows[row] = place + self._head.size + self._sizes.size, self._sizes.unpack_from(data, self._head.size)

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
        self._append(ROW, b"".join([self._head.pack(row, *sums), self._sizes.pack(*map(len, encoded)), *encoded]))

    def row(self, row: int) -> tuple[list[bytes], Sums]:
        """The encoded columns of a row, and its sums."""
        place, sizes = self._rows[row]
        starts = [place + sum(sizes[:i]) for i in range(len(sizes))]
        head = os.pread(self._file, self._head.size, place - self._sizes.size - self._head.size)
        encoded = [os.pread(self._file, size, start) for size, start in zip(sizes, starts, strict=True)]
        return encoded, self._head.unpack(head)[1:]

    def sizes(self, column: int) -> list[int]:
        """How many bytes each row of a column takes."""
        return [sizes[column] for _, (_, sizes) in sorted(self._rows.items())]

    def column(self, column: int) -> Iterator[bytes]:
        """The encoded rows of a column."""
        for _, (place, sizes) in sorted(self._rows.items()):
            yield os.pread(self._file, sizes[column], place + sum(sizes[:column]))
