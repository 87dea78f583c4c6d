"""What the pages of a Parquet file ask for, read before pyarrow unpacks them: a few bytes can ask for gigabytes.

A page's header is a structure in Thrift's compact protocol; field numbers are those of parquet.thrift.
"""

from __future__ import annotations

import io
from typing import IO, Any

LARGEST_PAGE = 2**27  # bytes, unpacked
LARGEST_HEADER = 2**20

UNPACKED, PACKED, DATA, DATA_V2 = 2, 3, 5, 8
"""Fields of a page's header: its sizes, and what is said of its values, of which the first field is how many."""


def check(metadata: Any, file: IO[bytes], most: dict[str, int]) -> None:
    """Refuse pages that ask for more than LARGEST_PAGE, or hold more values of a column than `most` for each row."""
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            name = column.path_in_schema.partition(".")[0]
            if name not in most:
                continue
            place = min(column.dictionary_page_offset or column.data_page_offset, column.data_page_offset)
            end, values = place + column.total_compressed_size, 0
            while place < end:
                file.seek(place)
                begin = io.BytesIO(file.read(LARGEST_HEADER))
                header = structure(begin)
                if not 0 <= header[UNPACKED] <= LARGEST_PAGE:
                    raise ValueError(f"a page of {name} has {header[UNPACKED]} bytes, more than {LARGEST_PAGE}")
                counts = [header[kind][1] for kind in (DATA, DATA_V2) if kind in header]
                values += sum(counts)
                if min(counts, default=0) < 0 or values > most[name] * group.num_rows:
                    raise ValueError(f"{group.num_rows} rows have {values} values of {name}")
                place += begin.tell() + header[PACKED]
                if header[PACKED] < 0 or place > end:
                    raise ValueError(f"a page of {name} has {header[PACKED]} bytes, more than there are")


def structure(file: IO[bytes]) -> dict[int, Any]:
    """The fields of a structure that are structures or numbers of 32 bits, as those that count are."""
    fields, name = dict[int, Any](), 0
    while head := file.read(1)[0]:
        name = name + (head >> 4) if head >> 4 else number(file)
        match head & 15:
            case 1 | 2:  # true, false
                pass
            case 3:
                file.read(1)
            case 4 | 6:
                number(file)
            case 5:
                fields[name] = number(file)
            case 8:
                file.seek(varint(file), io.SEEK_CUR)
            case 12:
                fields[name] = structure(file)
            case kind:
                raise ValueError(f"a page's header has a field of kind {kind}")
    return fields


def number(file: IO[bytes]) -> int:
    """A whole number: its sign is its last bit."""
    value = varint(file)
    return value >> 1 ^ -(value & 1)


def varint(file: IO[bytes]) -> int:
    """A number of seven bits a byte."""
    value = 0
    for shift in range(0, 70, 7):
        (byte,) = file.read(1)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("a page's header has a number that does not end")
