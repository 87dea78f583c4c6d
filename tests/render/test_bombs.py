"""Files that ask for far more memory than they have bytes: refused by name before it is taken."""

from __future__ import annotations

import bz2
import gc
import io
import json
import lzma
import os
import re
import struct
import subprocess
import sys
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from ident.render.errors import Failed, Impossible
from ident.render.exchange.import_ import import_path
from ident.render.exchange.layouts import LAYOUTS, pages
from ident.render.exchange.layouts.files import Header, files_of_archive
from ident.render.exchange.layouts.layout import detect
from ident.render.stage.gallery import read_raw
from ident.render.store.dataset import Dataset
from ident.render.store.files import sha256
from ident.render.store.manifest import Manifest, Record
from ident.render.store.storage import Storage
from ident.render.worlds.threedident import WORLD
from tests.render.exchange.test_import_ import FILES, RAW, npy, tar
from tests.render.store.test_dataset import paint

GIB = 2**30


@contextmanager
def little_memory(most: int = 2**28) -> Iterator[None]:
    """Fail where Python and NumPy ask for more."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def sparse(path: Path, begin: bytes, size: int) -> Path:
    """A file of zeros behind its begin, which takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(begin)
    os.truncate(path, size)
    return path


def bring(path: Path, layout: str, out: Path) -> None:
    import_path(path, layout, Storage(str(out)), codec="fast", force=False, tell=lambda *_: None)


def member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def pax(**fields: str) -> bytes:
    info = tarfile.TarInfo("images/00.png")
    info.pax_headers = {name.replace("_", "."): text for name, text in fields.items()}
    return info.tobuf(tarfile.PAX_FORMAT)


HEADERS = {
    "pax": member("a", 3 * GIB, tarfile.XHDTYPE),
    "pax for all": member("a", 3 * GIB, tarfile.XGLTYPE),
    "GNU longname": member("a", 3 * GIB, tarfile.GNUTYPE_LONGNAME),
    "GNU longlink": member("a", 3 * GIB, tarfile.GNUTYPE_LONGLINK),
    "sparse": pax(GNU_sparse_major="1", GNU_sparse_minor="0") + b"999999999\n" + b"0\n" * 2**23,
    "many": member("a", 0, tarfile.GNUTYPE_LONGNAME) * 2**12,
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_of_gigabytes(tmp_path: Path, kind: str) -> None:
    path = sparse(tmp_path / "a.tar", HEADERS[kind], 3 * GIB + 2**20)
    with little_memory(2**26), path.open("rb") as file, pytest.raises(Failed, match=r"a\.tar: .*more than 65536 bytes"):
        list(files_of_archive(file, str(path)))
    with little_memory(2**26), pytest.raises(Impossible, match=r"a\.tar: not a tar archive"):
        bring(path, "3dident", tmp_path / "d")


def test_an_archive_keeps_none_of_its_members() -> None:
    many = io.BytesIO(b"".join(member(f"{i}/{'x' * 80}", 0) for i in range(5000)) + bytes(1024))
    count = 0
    for _ in files_of_archive(many, "it"):
        count += 1
    assert count == 5000
    left = list[Header]()
    many.seek(0)
    for i, _ in enumerate(files_of_archive(many, "it")):
        if i == 4000:
            left = [one for one in gc.get_objects() if type(one) is Header]
    assert len(left) < 10


def test_names_of_an_archive_in_no_layout(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar({f"{i}/{'x' * 30_000}": b"" for i in range(200)}).getvalue())
    with (
        little_memory(2**21),
        path.open("rb") as file,
        pytest.raises(Impossible, match=r"a\.tar: in none of the layouts") as error,
    ):
        detect(files_of_archive(file, "a.tar"), LAYOUTS, "a.tar")
    assert len(str(error.value)) < 1000


def test_bzip2_of_megabytes_in_a_few_bytes(tmp_path: Path) -> None:
    packer, path = bz2.BZ2Compressor(), tmp_path / "a.tar.bz2"
    pieces = [member("a.txt", 2**28), *[bytes(2**24)] * 16, bytes(1024)]
    path.write_bytes(b"".join(map(packer.compress, pieces)) + packer.flush())
    assert path.stat().st_size < 1000
    with little_memory(2**25), path.open("rb") as file:
        assert [name for name, _ in files_of_archive(file, "it")] == ["a.txt"]


def test_xz_that_wants_gigabytes(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(tar(FILES).getvalue()))
    head = slice(12, 12 + 4 * (packed[12] + 1))
    block = packed[head]
    assert block[2:4] == b"\x21\x01"
    block[4] = 40  # a dictionary of 4 GiB
    block[-4:] = struct.pack("<I", zlib.crc32(block[:-4]))
    packed[head] = block
    (tmp_path / "a.tar.xz").write_bytes(packed)
    with (
        (tmp_path / "a.tar.xz").open("rb") as file,
        pytest.raises(Failed, match=r"a\.tar\.xz: not a whole tar archive \(Memory usage limit exceeded\)"),
    ):
        list(files_of_archive(file, "a.tar.xz"))


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, lambda data: lzma.compress(data, lzma.FORMAT_ALONE)])
def test_packed_archives_are_read(pack: Callable[[bytes], bytes]) -> None:
    whole = tar(FILES).getvalue()
    packed = [pack(whole)]
    if pack is not bz2.compress and packed[0][:1] == b"\xfd":
        packed.append(pack(whole[:5000]) + bytes(8) + pack(whole[5000:]))
    for data in packed:
        assert [name for name, _ in files_of_archive(io.BytesIO(data), "it")] == list(FILES)
        with pytest.raises(Failed, match="not a whole tar archive"):
            list(files_of_archive(io.BytesIO(data[: len(data) // 2]), "it"))


def test_a_sample_of_gigabytes(tmp_path: Path) -> None:
    members = [(f"7.{i}", 2**25) for i in range(40)]
    with (tmp_path / "0.tar").open("wb") as file:
        for name, size in members:
            file.write(member(name, size))
            file.truncate(file.tell() + size)
            file.seek(size, io.SEEK_CUR)
        file.write(bytes(1024))
    with little_memory(), pytest.raises(Failed, match=r"0\.tar: the sample 7 has 0, 1, .*, wanted are png"):
        bring(tmp_path / "0.tar", "webdataset", tmp_path / "d")
    files = {f"7.{i}": b"" for i in range(200)}
    (tmp_path / "0.tar").write_bytes(tar(files).getvalue())
    with pytest.raises(Failed, match=r"0\.tar: the sample 7 has more than 100 files"):
        bring(tmp_path / "0.tar", "webdataset", tmp_path / "e")


def header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": shape})  # type: ignore[no-untyped-call]
    return out.getvalue()


ARRAYS = {
    "its header says float32": header((10**12, 10)),
    "its header says object": header((1, 10), "|O"),
    "it is cut short": header((10**5, 10)) + bytes(99),
    "its header is none": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31),
}


@pytest.mark.parametrize("said", ARRAYS)
def test_arrays_that_are_none(tmp_path: Path, said: str) -> None:
    size = 0 if said == "it is cut short" else 3 * GIB
    sparse(tmp_path / "in" / "raw_latents.npy", ARRAYS[said], max(size, len(ARRAYS[said])))
    path = tmp_path / "in" / "raw_latents.npy"
    with little_memory(), pytest.raises(Impossible, match=rf"raw_latents\.npy: not a \.npy file of numbers \({said}"):
        read_raw(path, WORLD)
    with little_memory(), pytest.raises(Failed, match=rf"raw_latents\.npy: not a \.npy file of numbers \({said}"):
        bring(tmp_path / "in", "3dident", tmp_path / "d")


def test_latents_take_no_more_than_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.zeros((10**6, 10), np.float32))
    with little_memory(160_000_000):
        assert len(read_raw(tmp_path / "z.npy", WORLD)) == 10**6


@pytest.mark.parametrize(("layout", "name"), [("mds", "index.json"), ("webdataset", "shardindex.json")])
def test_an_index_of_gigabytes(tmp_path: Path, layout: str, name: str) -> None:
    sparse(tmp_path / "in" / name, b"[", GIB)
    with little_memory(), pytest.raises(Failed, match=rf"{name}: has more than 16777216 bytes"):
        bring(tmp_path / "in", layout, tmp_path / "d")


def test_an_mds_sample_of_a_gigabyte(tmp_path: Path) -> None:
    sparse(tmp_path / "shard.00000.mds", struct.pack("<III", 1, 12, 12 + 2**29), GIB)
    with little_memory(), pytest.raises(Failed, match=r"shard\.00000\.mds: not"):
        bring(tmp_path / "shard.00000.mds", "mds", tmp_path / "d")
    sparse(tmp_path / "shard.00000.mds", struct.pack("<III", 1, 2**29, 2**30), GIB)
    with little_memory(), pytest.raises(Failed, match=r"shard\.00000\.mds: not"):
        bring(tmp_path / "shard.00000.mds", "mds", tmp_path / "e")


LIMITED = r"""
import re, sys
from pathlib import Path
from ident.render.exchange.import_ import import_path
from ident.render.store.storage import Storage
try:
    import_path(Path(sys.argv[1]), "huggingface", Storage(sys.argv[2]), codec="fast", force=False, tell=lambda *_: None)
except Exception as error:
    print(type(error).__name__, error)
print(1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]))
"""


def measured(path: Path, out: Path) -> tuple[str, int]:
    """What an import says, and how much memory it took, in a process of its own."""
    (out.parent / "limited.py").write_text(LIMITED)
    done = subprocess.run(
        [sys.executable, out.parent / "limited.py", path, out], capture_output=True, text=True, check=True
    )
    *said, peak = done.stdout.splitlines()
    return "\n".join(said), int(peak)


TEN = [0.5] * 10
PARQUET: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "one image in a page": ("a page of image has 268435", lambda: {"image": [bytes(2**28)], "raw_latents": [TEN]}),
    "one image many times": (
        "row 0: not an image",
        lambda: {"image": pa.array([bytes(2**21)] * 300), "raw_latents": [TEN] * 300},
    ),
    "latents without end": (
        "1 rows have 50000000 values of raw_latents",
        lambda: {
            "image": [b"x"],
            "raw_latents": pa.ListArray.from_arrays([0, 5 * 10**7], pa.array(np.zeros(5 * 10**7, np.float32))),
        },
    ),
}


@pytest.mark.parametrize("kind", PARQUET)
def test_a_parquet_file_of_gigabytes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "00000-of-00001.parquet"
    parquet.write_table(pa.table(PARQUET[kind][1]()), path, compression="zstd")
    assert path.stat().st_size < 100_000
    said, peak = measured(path, tmp_path / "d")
    assert re.fullmatch(f"Failed {path}.*{PARQUET[kind][0]}.*", said)
    assert peak < 300_000_000


def test_a_footer_that_lies(tmp_path: Path) -> None:
    """What a page asks for stands in the page; what a file's footer says of it is not believed."""
    path = tmp_path / "00000-of-00001.parquet"
    parquet.write_table(pa.table(PARQUET["one image in a page"][1]()), path, compression="zstd", use_dictionary=False)
    data = path.read_bytes()
    size = parquet.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size

    def varint(value: int) -> bytes:
        value, out = value << 1, b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    footer = data.rindex(varint(size)[:4])
    assert data[footer:].startswith(varint(size))
    path.write_bytes(data[:footer] + bytes([0x82 | 0, 0x80, 0x80, 0x80, 0x00]) + data[footer + len(varint(size)) :])
    said, peak = measured(path, tmp_path / "d")
    assert re.fullmatch(f"Failed {path}.*a page of image has 268435.*", said)
    assert peak < 300_000_000


def number(value: int) -> bytes:
    value, data = value << 1 if value >= 0 else (-value << 1) - 1, b""
    while value > 127:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def page(unpacked: int, packed: int, more: bytes = b"", count: int = 1) -> bytes:
    """A page's header: a data page by its kind, its sizes, what else there is, and how many values it has."""
    sizes = b"\x15" + number(0) + b"\x15" + number(unpacked) + b"\x15" + number(packed)
    return sizes + more + b"\x0c" + number(5) + b"\x15" + number(count) + b"\x00\x00"


HUGE = 2**31 - 1
PAGES = {
    "has 2147483647 bytes": page(HUGE, 0, b"\x06" + number(2) + number(1)),  # the size again, as 64 bits
    "rows have 2147483648 values": page(1, 0, b"\x0c" + number(8) + b"\x15" + number(HUGE) + b"\x00"),
    "rows have -1 values": page(1, 0, count=-1) + page(1, 0),
    "has 4294967296 bytes, more than there are": page(1, 2**32) + page(HUGE, 0),
    "has -9 bytes, more than there are": page(1, -9),
    "does not end": b"\x15" + b"\xff" * 20,
    "a field is of kind 14": page(1, 0, b"\x1e"),
}


def parquet_of(pages: bytes, rows: int = 1) -> io.BytesIO:
    """Pages of one column, and a footer that says where they lie."""
    metadata = b"\x39\x18\x05image" + b"\x46" + number(len(pages)) + b"\x26" + number(0) + b"\x00"
    group = b"\x19\x1c" + b"\x3c" + metadata + b"\x00" + b"\x26" + number(rows) + b"\x00"
    footer = b"\x49\x1c" + group + b"\x00"
    return io.BytesIO(pages + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("said", PAGES)
def test_pages_that_ask_for_what_is_not_there(said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pages.check(parquet_of(PAGES[said]), {"image": 1})
    pages.check(parquet_of(page(100, 50) + bytes(50)), {"image": 1})


@pytest.mark.parametrize("tail", [b"", b"PAR1", bytes(4) + b"PAR1", b"\xff" * 4 + b"PAR1", b"\x01\x00\x00\x00PAR2"])
def test_footers_that_are_none(tail: bytes) -> None:
    with pytest.raises(ValueError, match=r"it ends in b'.*' behind a footer of \d+ bytes"):
        pages.check(io.BytesIO(tail), {"image": 1})


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet_of_all_kinds_is_read(codec: str, version: str) -> None:
    images = [bytes([i]) * 2000 for i in range(30)] * 3
    out = io.BytesIO()
    parquet.write_table(
        pa.table({"image": [{"bytes": image, "path": "a"} for image in images], "raw_latents": [TEN] * 90}),
        out, compression=codec, data_page_version=version, row_group_size=40, data_page_size=5000,
        write_statistics=True, write_page_index=True, write_page_checksum=True,
    )  # fmt: skip
    rows = list(LAYOUTS["huggingface"].unpack(io.BytesIO(out.getvalue()), "it"))
    assert [row.image for row in rows] == images


def shard_of(folder: Path, change: Callable[[h5py.File], object]) -> Dataset:
    """A dataset whose first shard was changed, with a dataset.json that agrees."""
    paint(folder)
    path = folder / "shards" / "00000.h5"
    with h5py.File(path, "a") as file:
        change(file)
    manifest = Manifest.read(Storage(str(folder)))
    record = manifest.shards[0]
    shards = {
        **manifest.shards,
        0: Record(record.start, record.n, path.stat().st_size, sha256(path), record.sums),
    }
    (folder / "dataset.json").write_text(replace(manifest, shards=shards).to_json())
    return Dataset(folder)


def replaced(file: h5py.File, name: str, **options: Any) -> None:
    del file[name]
    file.create_dataset(name, **options)


SHARDS: dict[str, Callable[[h5py.File], object]] = {
    "latents .*not": lambda file: replaced(file, "latents", shape=(10**9, 10), dtype="f4"),
    "latents does not lie in one piece": lambda file: replaced(
        file, "latents", data=np.zeros((8, 10), "f4"), chunks=(8, 10), compression="gzip"
    ),
    "index does not lie in one piece": lambda file: replaced(file, "index", shape=(8,), dtype="i8", chunks=(1,)),
    "images does not lie in one piece": lambda file: replaced(
        file, "images", shape=(GIB,), dtype="u1", chunks=(2**26,), compression="gzip"
    ),
    "images_crc32 is": lambda file: replaced(file, "images_crc32", data=np.zeros((2**20, 8), "u4")),
}


@pytest.mark.parametrize("said", SHARDS)
def test_a_shard_of_gigabytes(tmp_path: Path, said: str) -> None:
    data = shard_of(tmp_path / "d", SHARDS[said])
    with little_memory(), pytest.raises(Failed, match=rf"00000\.h5: damaged \({said}"):
        data.image(0)


def test_a_note_of_gigabytes(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(FILES).getvalue())
    sparse(tmp_path / "d" / ".imported", json.dumps({"key": ""}).encode(), 3 * GIB)
    with little_memory(), pytest.raises(Impossible, match="holds something else"):
        bring(tmp_path / "a.tar", "3dident", tmp_path / "d")


def test_what_is_honest_is_still_read(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.asfortranarray(RAW))
    assert np.array_equal(read_raw(tmp_path / "z.npy", WORLD), RAW)
    (tmp_path / "y.npy").write_bytes(npy(RAW.astype(np.float64)))
    assert np.array_equal(read_raw(tmp_path / "y.npy", WORLD), RAW)
