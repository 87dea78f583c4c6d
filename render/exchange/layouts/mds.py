"""The layout of Mosaic's streaming datasets: shard.00000.mds, ... and index.json, which describes each of them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any

import numpy as np

from ident.render.aliases import Array, Float32s
from ident.render.errors import Failed
from ident.render.exchange.layouts.files import LARGEST_IMAGE, read_json
from ident.render.exchange.layouts.layout import Row, Written
from ident.render.exchange.layouts.sharded import Sharded
from ident.render.store.manifest import Manifest

IMAGES = ("png", "jpeg", "bytes")
MOST_ROWS = 10**6
U4 = np.dtype("<u4")


@dataclass(frozen=True)
class MDS(Sharded):
    """A shard is the number of its samples, where each begins, the columns as JSON, and then the samples.

    A sample is the sizes of those of its columns that vary, then all columns, in the order of their names.
    """

    meaning = "Mosaic Streaming: index.json, shard.00000.mds"
    pattern = re.compile(r"(?P<root>(.*/)?)shard\.(?P<part>\d{1,9})\.mds|(.*/)?index\.json")
    last = ("index.json",)
    listing = ("shards", "samples")

    @property
    def format(self) -> Mapping[str, Any]:
        """What each shard says of its columns."""
        width = len(self.factors)
        return {
            "column_encodings": ["png", f"ndarray:float32:{width}", f"ndarray:float32:{width}"],
            "column_names": ["image", "latents", "raw_latents"],
            "column_sizes": [None, 4 * width, 4 * width],
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": None,
            "version": 2,
        }

    def path(self, number: int, count: int, part: int = 0) -> str:  # noqa: ARG002
        """The name of a shard."""
        return f"shard.{number:05d}.mds"

    def pack(self, rows: list[Row], _: int) -> bytes:
        """A shard."""
        columns = json.dumps(self.format, sort_keys=True).encode()
        samples = [self._sample(row) for row in rows]
        first = U4.itemsize * (len(rows) + 2) + len(columns)
        ends = first + np.cumsum([0, *map(len, samples)])
        return b"".join([U4.type(len(rows)).tobytes(), ends.astype(U4).tobytes(), columns, *samples])

    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The samples of a shard, packed by whomever."""
        count = int(numbers(file, 1, what)[0])
        if not 0 < count <= MOST_ROWS:
            raise Failed(f"{what}: {count} samples, where 1 to {MOST_ROWS} are allowed")
        ends = numbers(file, count + 1, what)
        sizes, dtype = columns_of(take(file, int(ends[0]) - U4.itemsize * (count + 2), what), len(self.factors), what)
        for start, end in pairwise(ends):
            values = values_of(take(file, int(end) - int(start), what), sizes, what)
            yield Row(values["image"], np.frombuffer(values["raw_latents"], dtype).astype(np.float32))

    def rest(self, _: Manifest, __: Float32s, files: list[Written]) -> dict[str, bytes]:
        """The index of the shards."""
        shards = [
            dict(
                self.format,
                raw_data={"basename": file.name, "bytes": file.bytes, "hashes": {}},
                samples=file.rows,
                zip_data=None,
            )
            for file in files
        ]
        return {"index.json": json.dumps({"shards": shards, "version": 2}, sort_keys=True).encode()}

    def _sample(self, row: Row) -> bytes:
        assert row.raw is not None
        values = self.scene_values(row.raw).astype("<f4")
        return U4.type(len(row.image)).tobytes() + row.image + values.tobytes() + row.raw.astype("<f4").tobytes()


def take(file: IO[bytes], count: int, what: str) -> bytes:
    """So many bytes."""
    if not 0 <= count <= LARGEST_IMAGE:
        raise Failed(f"{what}: not a whole MDS shard (its parts do not follow each other)")
    data = file.read(count)
    if len(data) < count:
        raise Failed(f"{what}: not a whole MDS shard (it is cut short)")
    return data


def numbers(file: IO[bytes], count: int, what: str) -> Array:
    """So many numbers."""
    return np.frombuffer(take(file, U4.itemsize * count, what), U4)


def columns_of(data: bytes, width: int, what: str) -> tuple[dict[str, int | None], np.dtype[Any]]:
    """The sizes of those columns that have one, and the numbers that `width` raw latents are made of."""
    described = read_json(io.BytesIO(data), what)
    try:
        names, encodings, sizes = (described[f"column_{name}"] for name in ("names", "encodings", "sizes"))
        encoded, sized = dict(zip(names, encodings, strict=True)), dict(zip(names, sizes, strict=True))
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{what}: not an MDS shard ({type(error).__name__}: {error})") from error
    vectors = {f"ndarray:{kind}:{width}": np.dtype(kind) for kind in ("float32", "float64")}
    if encoded.get("image") not in IMAGES or encoded.get("raw_latents") not in vectors:
        wanted = f"image in {' or '.join(IMAGES)}, raw_latents in {' or '.join(vectors)}"
        columns = ", ".join(f"{name} in {encoding}" for name, encoding in encoded.items())
        raise Failed(f"{what}: the columns are {columns}; wanted are {wanted}")
    dtype = vectors[encoded["raw_latents"]]
    if sized["raw_latents"] != dtype.itemsize * width or any(
        size is not None and not (type(size) is int and size > 0) for size in sizes
    ):
        raise Failed(f"{what}: not an MDS shard (the sizes of its columns are {sizes})")
    return sized, dtype


def values_of(data: bytes, sizes: Mapping[str, int | None], what: str) -> dict[str, bytes]:
    """The columns of a sample."""
    place = U4.itemsize * list(sizes.values()).count(None)
    if len(data) < place:
        raise Failed(f"{what}: a sample has {len(data)} bytes")
    varying = iter(np.frombuffer(data, U4, place // U4.itemsize).tolist())
    values = {}
    for name, size in sizes.items():
        end = place + (next(varying) if size is None else size)
        values[name], place = data[place:end], end
    if place != len(data):
        raise Failed(f"{what}: a sample has {len(data)} bytes, its columns {place}")
    return values
