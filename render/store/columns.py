"""The arrays of a dataset: what a row of each is, and how it is kept. dataset.json has them as data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ident.render.aliases import Array
from ident.render.checked import check_names, whole_number
from ident.render.errors import Impossible
from ident.render.store.codecs import CODECS, ZSTD, Codec

IMAGES, POSITIVES, POSITIVE_LATENTS = "images", "positives", "positive_latents"
CHANNELS = (1, 3, 4)
"""Grey; red, green, blue; and these with alpha."""
DTYPES = ("uint8", "uint16", "int32", "int64", "float32", "float64")
TAKEN = ("latents", "index")
"""Names that arrays of every shard have, see `shards`."""
BESIDE = ("_crc32", "_offsets")
"""How the names of arrays end that lie beside a column's."""
MOST_COLUMNS, MOST_DIMENSIONS, LONGEST_SIDE = 64, 4, 2**16
LARGEST_ROW = 2**28  # bytes


@dataclass(frozen=True)
class Column:
    """One array of a dataset: the shape and dtype of a row of it, and the codec."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    codec: str

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise Impossible(f"codec {self.codec!r}: choose from {', '.join(CODECS)}")
        if not CODECS[self.codec].keeps(self.shape, self.dtype):
            able = ", ".join(name for name, codec in CODECS.items() if codec.keeps(self.shape, self.dtype))
            raise Impossible(f"codec {self.codec!r}: does not keep {self.dtype} {self.shape}; choose from {able}")

    @property
    def filtered(self) -> bool:
        """Whether HDF5 knows the encoding as a filter; else the encoded rows lie end to end."""
        return self._codec is ZSTD

    @property
    def row_bytes(self) -> int:
        """Of a row, decoded."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def most(self) -> int:
        """More bytes than any codec makes of a row."""
        return 2 * self.row_bytes + 4096

    @property
    def _codec(self) -> Codec:
        return CODECS[self.codec]

    def encode(self, row: Array) -> bytes:
        """A row's bytes."""
        assert row.shape == self.shape, f"{row.shape} is not {self.shape}"
        return self._codec.encode(row.astype(self.dtype, copy=False))

    def decode(self, data: bytes) -> Array:
        """A row of its bytes."""
        return self._codec.decode(data, self.shape, self.dtype)

    def describe(self, name: str) -> dict[str, Any]:
        """As it stands in dataset.json."""
        return {"name": name, "shape": list(self.shape), "dtype": self.dtype.name, "codec": self.codec}


Columns = Mapping[str, Column]


def describe_columns(columns: Columns) -> list[dict[str, Any]]:
    """As they stand in dataset.json, in the order in which a row's arrays are kept."""
    return [column.describe(name) for name, column in columns.items()]


def columns_of(described: Any) -> dict[str, Column]:
    """The columns that describe themselves so; an error says what is wrong."""
    if not isinstance(described, list) or not 1 <= len(described) <= MOST_COLUMNS:
        raise ValueError(f"columns are no list of 1 to {MOST_COLUMNS}")
    columns = dict[str, Column]()
    for one in described:
        check_names(one, "columns", ("name", "shape", "dtype", "codec"))
        name, shape, dtype = one["name"], one["shape"], one["dtype"]
        if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
            raise ValueError(f"column {name!r}, not a name of small letters")
        if name in columns or name in TAKEN or name.endswith(BESIDE):
            raise ValueError(f"column {name!r} collides with another array")
        if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
            raise ValueError(f"the shape of {name} is {shape!r}")
        sides = tuple(whole_number(side, f"the shape of {name}", 1, LONGEST_SIDE) for side in shape)
        if dtype not in DTYPES:
            raise ValueError(f"the dtype of {name} is {dtype!r}, not one of {', '.join(DTYPES)}")
        if not isinstance(one["codec"], str):
            raise ValueError(f"the codec of {name} is {one['codec']!r}")
        if math.prod(sides) * np.dtype(dtype).itemsize > LARGEST_ROW:
            raise ValueError(f"a row of {name} has more than {LARGEST_ROW} bytes")
        columns[name] = Column(sides, np.dtype(dtype), one["codec"])
    return columns


def check_columns(columns: Columns, width: int, *, positives: bool) -> None:
    """Refuse columns that no dataset with so many factors has."""
    if IMAGES not in columns:
        raise ValueError(f"no column {IMAGES!r}")
    images = columns[IMAGES]
    if len(images.shape) != 3 or images.shape[2] not in CHANNELS or images.dtype != np.uint8:
        raise ValueError(f"images are {images.dtype} {images.shape}, not uint8 (H, W, C) with C of 1, 3 or 4")
    if (POSITIVES in columns, POSITIVE_LATENTS in columns) != (positives, positives):
        raise ValueError(
            f"{POSITIVES} and {POSITIVE_LATENTS} are both columns of a dataset with positives, and of no other"
        )
    if positives:
        latents = columns[POSITIVE_LATENTS]
        if columns[POSITIVES] != images or (latents.shape, latents.dtype) != ((width,), np.dtype(np.float32)):
            raise ValueError(f"{POSITIVES} are not like {IMAGES}, or {POSITIVE_LATENTS} not float32 ({width},)")


Sums = tuple[int, ...]
"""The sum of all pixels in each channel, and the sums of their squares: exact, whatever the order."""


def sums(image: Array) -> Sums:
    """The sums of one image (H, W, C) uint8."""
    counts = [np.bincount(image[..., channel].ravel(), minlength=256) for channel in range(image.shape[-1])]
    values = np.arange(256)
    return tuple(int(count @ values**power) for power in (1, 2) for count in counts)


def add(one: Sums, other: Sums) -> Sums:
    """The sums of both."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def no_sums(channels: int) -> Sums:
    """Those of no image."""
    return (0,) * (2 * channels)
