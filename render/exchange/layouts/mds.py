"""The layout of Mosaic's streaming datasets: shard.00000.mds, ... and index.json, which describes each of them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import IO, Any

import numpy as np

from ident.render.aliases import Float32s
from ident.render.errors import Failed
from ident.render.exchange.layouts.files import LARGEST_IMAGE, read_json
from ident.render.exchange.layouts.layout import Row, Written
from ident.render.exchange.layouts.sharded import Sharded
from ident.render.store.manifest import Manifest
from ident.render.worlds.threedident import WORLD

VECTOR = f"ndarray:float32:{len(WORLD.factors)}"
COLUMNS = {"image": "png", "latents": VECTOR, "raw_latents": VECTOR}
SIZES = {"image": None, "latents": 4 * len(WORLD.factors), "raw_latents": 4 * len(WORLD.factors)}
FORMAT: Mapping[str, Any] = {
    "column_encodings": list(COLUMNS.values()),
    "column_names": list(COLUMNS),
    "column_sizes": list(SIZES.values()),
    "compression": None,
    "format": "mds",
    "hashes": [],
    "size_limit": None,
    "version": 2,
}
VECTORS = {f"ndarray:{kind}:{len(WORLD.factors)}": np.dtype(kind) for kind in ("float32", "float64")}
IMAGES = ("png", "jpeg", "bytes")
MOST_ROWS = 10**6
U4 = np.dtype("<u4")


class MDS(Sharded):
    """A shard is the number of its samples, where each begins, the columns as JSON, and then the samples.

    A sample is the sizes of those of its columns that vary, then all columns, in the order of their names.
    """

    meaning = "Mosaic Streaming: index.json, shard.00000.mds"
    pattern = re.compile(r"(?P<root>(.*/)?)shard\.(?P<part>\d{1,9})\.mds|(.*/)?index\.json")
    last = ("index.json",)
    listing = ("shards", "samples")

    def path(self, number: int, _: int) -> str:
        """The name of a shard."""
        return f"shard.{number:05d}.mds"

    def pack(self, rows: list[Row], _: int) -> bytes:
        """A shard."""
        columns = json.dumps(FORMAT, sort_keys=True).encode()
        samples = [sample(row) for row in rows]
        first = U4.itemsize * (len(rows) + 2) + len(columns)
        ends = first + np.cumsum([0, *map(len, samples)])
        return b"".join([U4.type(len(rows)).tobytes(), ends.astype(U4).tobytes(), columns, *samples])

    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The samples of a shard, packed by whomever."""
        count = int(numbers(file, 1, what)[0])
        if not 0 < count <= MOST_ROWS:
            raise Failed(f"{what}: {count} samples, where 1 to {MOST_ROWS} are allowed")
        ends = numbers(file, count + 1, what)
        sizes, dtype = columns_of(take(file, int(ends[0]) - U4.itemsize * (count + 2), what), what)
        for start, end in pairwise(ends):
            values = values_of(take(file, int(end) - int(start), what), sizes, what)
            yield Row(values["image"], np.frombuffer(values["raw_latents"], dtype).astype(np.float32))

    def rest(self, _: Manifest, __: Float32s, files: list[Written]) -> dict[str, bytes]:
        """The index of the shards."""
        shards = [
            dict(
                FORMAT,
                raw_data={"basename": file.name, "bytes": file.bytes, "hashes": {}},
                samples=file.rows,
                zip_data=None,
            )
            for file in files
        ]
        return {"index.json": json.dumps({"shards": shards, "version": 2}, sort_keys=True).encode()}


def sample(row: Row) -> bytes:
    """A sample's bytes."""
    assert row.raw is not None
    values = WORLD.values(row.raw).astype("<f4")
    return U4.type(len(row.image)).tobytes() + row.image + values.tobytes() + row.raw.astype("<f4").tobytes()


def take(file: IO[bytes], count: int, what: str) -> bytes:
    """So many bytes."""
    if not 0 <= count <= LARGEST_IMAGE:
        raise Failed(f"{what}: not a whole MDS shard (its parts do not follow each other)")
    data = file.read(count)
    if len(data) < count:
        raise Failed(f"{what}: not a whole MDS shard (it is cut short)")
    return data


def numbers(file: IO[bytes], count: int, what: str) -> np.ndarray:  # type: ignore[type-arg]
    """So many numbers."""
    return np.frombuffer(take(file, U4.itemsize * count, what), U4)


def columns_of(data: bytes, what: str) -> tuple[dict[str, int | None], np.dtype[Any]]:
    """The columns, the sizes of those that have one, and what the raw latents are made of."""
    made = read_json(io.BytesIO(data), what)
    try:
        names, encodings, sizes = made["column_names"], made["column_encodings"], made["column_sizes"]
        encoded, sized = dict(zip(names, encodings, strict=True)), dict(zip(names, sizes, strict=True))
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{what}: not an MDS shard ({type(error).__name__}: {error})") from error
    if encoded.get("image") not in IMAGES or encoded.get("raw_latents") not in VECTORS:
        wanted = f"image in {' or '.join(IMAGES)}, raw_latents in {' or '.join(VECTORS)}"
        found = ", ".join(f"{name} in {encoding}" for name, encoding in encoded.items())
        raise Failed(f"{what}: the columns are {found}; wanted are {wanted}")
    dtype = VECTORS[encoded["raw_latents"]]
    if sized["raw_latents"] != dtype.itemsize * len(WORLD.factors) or any(
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
