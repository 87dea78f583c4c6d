"""What the pages of a Parquet file ask for, read before pyarrow unpacks them: a few bytes can ask for gigabytes.

A page's header is a structure in Thrift's compact protocol; field numbers are those of parquet.thrift.
"""

from __future__ import annotations

import io
from typing import IO, Any

LARGEST_PAGE = 2**27  # bytes, unpacked
LARGEST_HEADER = 2**20

LARGEST_FOOTER = 2**24
MAGIC = b"PAR1"

Field = tuple[int, int]
"""The kind of a value, and the field's number: a reader passes by what has another kind than the field's."""
I32, I64, TEXT, LIST, STRUCTURE = 5, 6, 8, 9, 12

UNPACKED, PACKED, DATA, DATA_V2, COUNT = (I32, 2), (I32, 3), (STRUCTURE, 5), (STRUCTURE, 8), (I32, 1)
"""Fields of a page's header: its sizes, and what is said of its values, of which the last field is how many."""
GROUPS, COLUMNS, ROWS, METADATA = (LIST, 4), (LIST, 1), (I64, 3), (STRUCTURE, 3)
"""Fields of a footer, of a row group (two of them), and of a column there."""
PATH, BYTES, FIRST_PAGE, DICTIONARY = (LIST, 3), (I64, 7), (I64, 9), (I64, 11)
"""Fields of a column's metadata. pyarrow has them, too, but ends the process where they do not fit its schema."""


def check(file: IO[bytes], most: dict[str, int]) -> None:
    """Refuse pages that ask for more than LARGEST_PAGE, or hold more values of a column than `most` for each row."""
    for group in footer(file)[GROUPS]:
        rows = group[ROWS]
        for column in (chunk[METADATA] for chunk in group[COLUMNS]):
            name = column[PATH][0].decode()
            if name not in most:
                continue
            place = min(column.get(DICTIONARY) or column[FIRST_PAGE], column[FIRST_PAGE])
            end, values = place + column[BYTES], 0
            while place < end:
                file.seek(place)
                begin = io.BytesIO(file.read(LARGEST_HEADER))
                header = structure(begin)
                if not 0 <= header[UNPACKED] <= LARGEST_PAGE:
                    raise ValueError(f"a page of {name} has {header[UNPACKED]} bytes, more than {LARGEST_PAGE}")
                counts = [header[kind][COUNT] for kind in (DATA, DATA_V2) if kind in header]
                values += sum(counts)
                if min(counts, default=0) < 0 or values > most[name] * rows:
                    raise ValueError(f"{rows} rows have {values} values of {name}")
                place += begin.tell() + header[PACKED]
                if header[PACKED] < 0 or place > end:
                    raise ValueError(f"a page of {name} has {header[PACKED]} bytes, more than there are")


def footer(file: IO[bytes]) -> dict[Field, Any]:
    """The fields of what stands at a file's end, which says where its pages lie."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - 8))
    size, magic = int.from_bytes(file.read(4), "little"), file.read()
    if magic != MAGIC or not 0 < size <= min(LARGEST_FOOTER, end - 8):
        raise ValueError(f"it ends in {magic!r} behind a footer of {size} bytes")
    file.seek(end - 8 - size)
    return structure(io.BytesIO(file.read(size)))


def structure(file: IO[bytes]) -> dict[Field, Any]:
    """The fields of a structure."""
    fields, name = dict[Field, Any](), 0
    while head := file.read(1)[0]:
        name = name + (head >> 4) if head >> 4 else number(file)
        kind = head & 15
        fields[kind, name] = None if kind in (1, 2) else value(file, kind)  # a field that is true or false
    return fields


def value(file: IO[bytes], kind: int) -> Any:
    """A value of a kind, if its kind is one that Parquet has."""
    match kind:
        case 1 | 2 | 3:  # in a list, true and false take a byte
            return file.read(1)[0]
        case 4 | 5 | 6:  # whole numbers
            return number(file)
        case 7:
            return file.read(8)
        case 8:  # TEXT
            return file.read(varint(file))
        case 9 | 10:
            head = file.read(1)[0]
            return [value(file, head & 15) for _ in range(varint(file) if head >> 4 == 15 else head >> 4)]
        case 12:
            return structure(file)
    raise ValueError(f"a field is of kind {kind}")


def number(file: IO[bytes]) -> int:
    """A whole number: its sign is its last bit."""
    folded = varint(file)
    return folded >> 1 ^ -(folded & 1)


def varint(file: IO[bytes]) -> int:
    """A number of seven bits a byte."""
    total = 0
    for shift in range(0, 70, 7):
        (byte,) = file.read(1)
        total |= (byte & 127) << shift
        if byte < 128:
            return total
    raise ValueError("a page's header has a number that does not end")
