"""Sets in numbered files, as damaged and as hostile as they come: a clear error, and nothing wrong accepted."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from ident.render.errors import Failed, Impossible
from ident.render.exchange import assembly, export
from ident.render.exchange.export import Export
from ident.render.exchange.import_ import import_path
from ident.render.exchange.layouts import LAYOUTS, mds
from ident.render.exchange.layouts.layout import Row
from ident.render.exchange.pictures import png
from ident.render.store.dataset import Dataset
from ident.render.store.files import npy
from ident.render.store.storage import Storage
from tests.render.exchange.test_import_ import RAW, tar
from tests.render.store.test_dataset import WANTED, N, paint

SHARDED = ("webdataset", "mds", "huggingface")
ROWS = [Row(png(WANTED[i]), RAW[i]) for i in range(3)]
PACKED = {layout: LAYOUTS[layout].pack(ROWS, 0) for layout in SHARDED}
EACH = pytest.mark.parametrize("layout", SHARDED)

Change = Callable[[Path], object]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The same dataset in each layout, five images in a file."""
    monkeypatch.setattr(assembly, "SHARD_SIZE", 8)
    monkeypatch.setattr(export, "FILE_BYTES", 3 * 16 * 16)
    paint(tmp_path / "d")
    for layout in SHARDED:
        Export(Dataset(tmp_path / "d"), layout, tmp_path / layout).run(force=False, tell=lambda *_: None)
    return {layout: tmp_path / layout for layout in SHARDED}


def bring(folder: Path, layout: str, out: Path, *, force: bool = False) -> Dataset:
    import_path(folder, layout, Storage(str(out)), codec="fast", force=force, tell=lambda *_: None)
    return Dataset(out)


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def edit(name: str, change: Callable[[Any], object]) -> Change:
    """Change a JSON file's content in place."""

    def edited(data: bytes) -> bytes:
        made = json.loads(data)
        change(made)
        return json.dumps(made).encode()

    return rewrite(name, edited)


def samples(files: dict[str, bytes]) -> Change:
    return rewrite("000002.tar", lambda _: tar(files).getvalue())


def table(**columns: Any) -> Change:
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return rewrite("data/00002-of-00004.parquet", lambda _: out.getvalue())


IMAGE = {"bytes": ROWS[0].image, "path": None}
TEN = [0.5] * 10
WRONG: list[tuple[str, str, Change]] = [
    ("webdataset", "look at part 3", remove("000003.tar")),
    ("webdataset", "look at part 1", remove("000001.tar")),
    ("webdataset", r"000002\.tar: not a whole tar archive", rewrite("000002.tar", lambda data: data[:700])),
    ("webdataset", "holds no rows", samples({})),
    ("webdataset", "sample 7 has txt, wanted are png and raw_latents.npy, npy or json", samples({"7.txt": b""})),
    ("webdataset", "sample 7 has png, wanted", samples({"7.png": ROWS[0].image})),
    ("webdataset", r"7\.npy: the numbers are <U3", samples({"7.png": b"", "7.npy": npy(np.array(["abc"] * 10))})),
    ("webdataset", r"7\.npy: .*its header says object", samples({"7.png": b"", "7.npy": npy(np.array([{}] * 10))})),
    ("webdataset", r"7\.json: no list of raw latents", samples({"7.png": b"", "7.json": b'{"latents": []}'})),
    ("webdataset", r"7\.json: the shape is \(1, 3\)", samples({"7.png": b"", "7.json": b"[1, 2, 3]"})),
    ("webdataset", r"7\.json: row 0, x is inf", samples({"7.png": b"", "7.json": b"[1e999,1,1,1,1,1,1,1,1,1]"})),
    ("webdataset", "not all of its rows have 10", samples({"7.png": ROWS[0].image, "7.npy": npy(RAW[:2])})),
    ("webdataset", "row 0: not an image", samples({"7.png": b"junk", "7.npy": npy(RAW[0])})),
    ("webdataset", "lies outside", samples({"../7.png": b""})),
    ("webdataset", "not JSON", rewrite("shardindex.json", lambda data: data[:20])),
    ("webdataset", "not an index", edit("shardindex.json", lambda made: made.update(shardlist=3))),
    ("webdataset", "not JSON", rewrite("shardindex.json", lambda _: b"[" * 10**5)),
    ("webdataset", "part 1 has 5 .* says 4", edit("shardindex.json", lambda it: it["shardlist"][1].update(nsamples=4))),
    ("mds", "has latents of 3 parts, not of 4: look at part 3", remove("shard.00003.mds")),
    ("mds", "look at part 1", remove("shard.00001.mds")),
    ("mds", "it is cut short", rewrite("shard.00002.mds", lambda data: data[:-1])),
    ("mds", "it is cut short", rewrite("shard.00002.mds", lambda data: b"\xff\xff\0\0" + data[4:])),
    ("mds", "4294967295 samples, where", rewrite("shard.00002.mds", lambda data: b"\xff" * 4 + data[4:])),
    ("mds", "0 samples, where", rewrite("shard.00002.mds", lambda data: b"\0" * 4 + data[4:])),
    ("mds", "do not follow each other", rewrite("shard.00002.mds", lambda data: data[:4] + b"\0" * 4 + data[8:])),
    ("mds", "the columns are a in pkl; wanted are image in png", rewrite("shard.00002.mds", lambda _: shard(a="pkl"))),
    ("mds", "not an MDS shard", rewrite("shard.00002.mds", lambda data: data.replace(b"_names", b"_nam_s"))),
    ("mds", "packed with zstd", edit("index.json", lambda made: made["shards"][0].update(compression="zstd"))),
    ("mds", "not an index", edit("index.json", lambda made: made.update(shards={"a": 1}))),
    ("huggingface", "look at part 3", remove("data/00003-of-00004.parquet")),
    ("huggingface", "not a Parquet file", rewrite("data/00002-of-00004.parquet", lambda data: data[:-1])),
    ("huggingface", "not a Parquet file", rewrite("data/00002-of-00004.parquet", lambda _: b"")),
    ("huggingface", "the columns are a; wanted are image and raw_latents", table(a=[1])),
    ("huggingface", "not a Parquet file", table(image=[3], raw_latents=[TEN])),
    ("huggingface", "an image has no bytes, but is", table(image=[IMAGE | {"bytes": None}], raw_latents=[TEN])),
    ("huggingface", "not a Parquet file", table(image=[IMAGE], raw_latents=["abc"])),
    ("huggingface", "not all of its rows have 10 latents", table(image=[IMAGE], raw_latents=[TEN[1:]])),
    ("huggingface", "row 0, x is 2.0, not in", table(image=[IMAGE], raw_latents=[[2.0, *TEN[1:]]])),
]


def shard(**columns: str) -> bytes:
    """An MDS shard of one empty sample with columns of these encodings."""
    head = json.dumps(
        {
            "column_names": list(columns),
            "column_encodings": list(columns.values()),
            "column_sizes": [None] * len(columns),
        }
    ).encode()
    return struct.pack("<III", 1, 12 + len(head), 12 + len(head)) + head


@pytest.mark.parametrize(("layout", "said", "change"), WRONG)
def test_what_is_wrong_is_named(
    folders: dict[str, Path], tmp_path: Path, layout: str, said: str, change: Change
) -> None:
    change(folders[layout])
    with pytest.raises(Failed, match=said):
        bring(folders[layout], layout, tmp_path / "back")
    assert not (tmp_path / "back" / "dataset.json").exists()


@EACH
@given(data=st.data())
def test_any_damage_is_an_error_or_does_nothing(layout: str, data: st.DataObject) -> None:
    packed = bytearray(PACKED[layout])
    if data.draw(st.booleans(), "cut"):
        del packed[data.draw(st.integers(0, len(packed) - 1)) :]
    else:
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(Failed):
        assert len(list(LAYOUTS[layout].unpack(io.BytesIO(packed), "it"))) == len(ROWS)


def test_no_byte_of_a_parquet_file_ends_the_process_or_loses_rows() -> None:
    packed = PACKED["huggingface"]
    for place, bits in product(range(len(packed)), (1, 7)):
        damaged = bytearray(packed)
        damaged[place] ^= bits
        with suppress(Failed):
            assert len(list(LAYOUTS["huggingface"].unpack(io.BytesIO(damaged), "it"))) == len(ROWS), (place, bits)


def test_an_archive_that_is_cut_between_two_files() -> None:
    whole = PACKED["webdataset"]
    for end in range(512, len(whole.rstrip(b"\0")), 512):
        with pytest.raises(Failed, match=r"not a whole tar archive|wanted are png"):
            list(LAYOUTS["webdataset"].unpack(io.BytesIO(whole[:end]), "it"))


@EACH
def test_one_file_of_a_set(tmp_path: Path, layout: str) -> None:
    paint(tmp_path / "few", n=5)
    Export(Dataset(tmp_path / "few"), layout, tmp_path / "one").run(force=False, tell=lambda *_: None)
    (file,) = (path for path in (tmp_path / "one").rglob("*0000*") if path.is_file())
    assert np.array_equal(bring(file, layout, tmp_path / "back").images(range(5)), WANTED[:5])


@EACH
def test_one_file_of_several(folders: dict[str, Path], tmp_path: Path, layout: str) -> None:
    (file,) = (path for path in folders[layout].rglob("*0002*") if "00002" in path.name)
    assert np.array_equal(bring(file, layout, tmp_path / "back").images(range(5)), WANTED[10:15])


@EACH
def test_an_archive_of_a_set(folders: dict[str, Path], tmp_path: Path, layout: str) -> None:
    found = {str(path.relative_to(tmp_path)): path for path in sorted(folders[layout].rglob("*")) if path.is_file()}
    (tmp_path / "set1.tar").write_bytes(tar({name: path.read_bytes() for name, path in found.items()}).getvalue())
    assert np.array_equal(bring(tmp_path / "set1.tar", layout, tmp_path / "back").images(range(N)), WANTED)


@EACH
def test_an_import_notices_a_change(folders: dict[str, Path], tmp_path: Path, layout: str) -> None:
    last = max(path for path in folders[layout].rglob("*0003*") if path.is_file())
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    with pytest.raises(Failed):
        bring(folders[layout], layout, tmp_path / "back")
    last.write_bytes(data)
    with pytest.raises(Impossible, match="holds something else: give --force"):
        bring(folders[layout], layout, tmp_path / "back")
    assert np.array_equal(bring(folders[layout], layout, tmp_path / "back", force=True).images(range(N)), WANTED)


def test_more_files_than_may_be_open(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "OPEN", 2)
    monkeypatch.setattr(assembly, "SHARD_SIZE", 3)
    assert np.array_equal(bring(folders["mds"], "mds", tmp_path / "back").images(range(N)), WANTED)


def test_two_splits_in_one_folder(folders: dict[str, Path], tmp_path: Path) -> None:
    for path in list((folders["huggingface"] / "data").iterdir()):
        for split in ("train", "test"):
            path.with_name(f"{split}-{path.name}").write_bytes(path.read_bytes())
        path.unlink()
    with pytest.raises(Impossible, match="holds more than one set, data/test- and data/train-"):
        bring(folders["huggingface"], "huggingface", tmp_path / "back")


def test_behind_a_link_and_into_itself(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "data").symlink_to(folders["huggingface"] / "data")
    (folders["huggingface"] / "data" / "again").symlink_to(folders["huggingface"])
    assert np.array_equal(bring(tmp_path / "linked", "huggingface", tmp_path / "back").images(range(N)), WANTED)
    for out in (folders["mds"], folders["mds"] / "in", folders["mds"].parent):
        with pytest.raises(Impossible, match="lie in each other"):
            bring(folders["mds"], "mds", out)


def test_another_set_of_the_same_name(folders: dict[str, Path], tmp_path: Path) -> None:
    paint(tmp_path / "few", n=5)
    Export(Dataset(tmp_path / "few"), "mds", tmp_path / "b" / "mds").run(force=False, tell=lambda *_: None)
    bring(folders["mds"], "mds", tmp_path / "back")
    bring(folders["mds"], "mds", tmp_path / "back")
    with pytest.raises(Impossible, match="holds something else"):
        bring(tmp_path / "b" / "mds", "mds", tmp_path / "back")
    assert len(bring(tmp_path / "b" / "mds", "mds", tmp_path / "back", force=True)) == 5


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(Impossible, match=r"needs pyarrow: pip install 'ident3d\[huggingface\]'"):
        LAYOUTS["huggingface"].pack(ROWS, 0)


def test_a_shard_of_mosaics_columns() -> None:
    """The sizes of a sample's columns are checked before its bytes are cut by them."""
    with pytest.raises(Failed, match="a sample has 3 bytes"):
        mds.values_of(b"abc", {"image": None, "raw_latents": 40}, "it")
    with pytest.raises(Failed, match="a sample has 8 bytes, its columns 144"):
        mds.values_of(struct.pack("<II", 100, 0), {"image": None, "raw_latents": 40}, "it")
