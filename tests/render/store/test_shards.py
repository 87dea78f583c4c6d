"""Journals that survive, and shards that other programs can read and that lie to nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401, registers HDF5's zstd filter
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from ident.render.blender.settings import Settings
from ident.render.errors import Failed
from ident.render.store import shards
from ident.render.store.columns import Columns, sums
from ident.render.store.journal import Journal
from ident.render.store.recipe import Recipe, Uniform
from ident.render.store.shards import Shard, Span
from ident.render.worlds.threedident import WORLD

N, SIZE = 5, 16
KEY, ME = b"k" * 32, b"me"
RAW = np.linspace(-1, 1, 10 * N, dtype=np.float32).reshape(N, 10)
IMAGES = np.random.default_rng(0).integers(0, 256, (N, SIZE, SIZE, 3), np.uint8)
PASSES = {
    "images": IMAGES,
    "mask": IMAGES[..., 0] % 3,
    "depth": IMAGES[..., 0].astype(np.float32),
    "normal": IMAGES.astype(np.float32),
}


def columns(size: int, codec: str, passes: tuple[str, ...]) -> Columns:
    """Those of rendered images."""
    return Recipe(Uniform(0, "train"), Settings(size), passes, codec).columns


def fill(journal: Journal, codec: str, rows: range) -> None:
    kept = columns(SIZE, codec, ("mask", "depth", "normal"))
    for i in rows:
        journal.begin(ME)
        journal.add(i, [column.encode(PASSES[name][i]) for name, column in kept.items()], sums(IMAGES[i]))


def make(path: Path, codec: str) -> Path:
    kept = columns(SIZE, codec, ("mask", "depth", "normal"))
    with Journal(path.with_suffix(".part"), KEY, len(kept)) as journal:
        fill(journal, codec, range(N))
        shards.write(path, Span(3, 15, N), RAW, WORLD.names, kept, journal, "{}")
    return path


CODECS = pytest.mark.parametrize("codec", ["compact", "fast"])


@CODECS
def test_a_shard_gives_back_what_was_put_in(tmp_path: Path, codec: str) -> None:
    shard = Shard(make(tmp_path / "a.h5", codec), columns(SIZE, codec, ("mask", "depth", "normal")), N, 10)
    assert np.array_equal(shard.latents, RAW)
    assert shard.index.tolist() == [15, 16, 17, 18, 19]
    for name, array in PASSES.items():
        for i in reversed(range(N)):
            row = shard.read(name, i)
            assert row.dtype == array.dtype
            assert np.array_equal(row, array[i])
    shard.close()


@CODECS
def test_equal_rows_give_equal_files(tmp_path: Path, codec: str) -> None:
    one, other = (make(tmp_path / f"{name}.h5", codec).read_bytes() for name in "ab")
    assert one == other


def test_h5py_and_pillow_read_what_lies_there(tmp_path: Path) -> None:
    with h5py.File(make(tmp_path / "fast.h5", "fast")) as file:
        for name, array in PASSES.items():
            assert np.array_equal(file[name][:], array)
        assert list(file["latents"].attrs["names"])[:2] == ["x", "y"]
    with h5py.File(make(tmp_path / "compact.h5", "compact")) as file:
        ends = file["images_offsets"][:]
        for i, image in enumerate(IMAGES):
            with Image.open(BytesIO(file["images"][ends[i] : ends[i + 1]].tobytes())) as other:
                assert np.array_equal(np.asarray(other), image)
        assert file["images"].attrs["codec"] == "compact"


def test_a_journal_goes_on_after_any_cut(tmp_path: Path) -> None:
    path = tmp_path / "j.part"
    with Journal(path, KEY, 4) as journal:
        fill(journal, "fast", range(N))
        summed = journal.sums
        rows = [list(journal.column(k)) for k in range(4)]
    whole, last = path.read_bytes(), N
    for cut in sorted({*range(0, len(whole), 97), len(whole) - 1}, reverse=True):
        path.write_bytes(whole[:cut])
        with Journal(path, KEY, 4) as journal:
            assert len(journal) <= last
            last = len(journal)
            fill(journal, "fast", range(last, N))
            assert journal.sums == summed
            assert [list(journal.column(k)) for k in range(4)] == rows
    assert last == 0


@given(st.integers(0, 10**9), st.integers(1, 255))
@example(52, 1)  # the kind of a record
def test_a_journal_believes_no_flipped_byte(tmp_path_factory: pytest.TempPathFactory, place: int, flip: int) -> None:
    path = tmp_path_factory.mktemp("journal") / "j.part"
    with Journal(path, KEY, 4) as journal:
        fill(journal, "compact", range(3))
        rows = list(journal.column(0))
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= flip
    path.write_bytes(data)
    with Journal(path, KEY, 4) as journal:
        assert len(journal) < 3 or list(journal.column(0)) == rows
        assert list(journal.column(0)) == rows[: len(journal)]


def test_a_journal_of_another_recipe_is_thrown_away(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", KEY, 4) as journal:
        fill(journal, "fast", range(2))
    with Journal(tmp_path / "j", b"o" * 32, 4) as journal:
        assert len(journal) == 0
    (tmp_path / "k").write_bytes(b"something else that lies there" * 10)
    with Journal(tmp_path / "k", KEY, 4) as journal:
        assert len(journal) == 0


def test_a_journal_counts_who_began_the_next_row(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", KEY, 4) as journal:
        fill(journal, "fast", range(1))
        assert journal.begun == {}
        journal.begin(ME)
        journal.begin(b"someone else")
        journal.fail("too dark")
    with Journal(tmp_path / "j", KEY, 4) as journal:
        assert journal.begun == {ME: 1, b"someone else": 1}
        assert journal.failure == "too dark"


def test_sums_are_exact() -> None:
    image = IMAGES[0].astype(object)
    wanted = [sum(image[..., c].ravel() ** power) for power in (1, 2) for c in range(3)]
    assert sums(IMAGES[0]) == tuple(wanted)


def set_array(file: h5py.File, name: str, array: object) -> None:
    del file[name]
    file[name] = array


def set_unallocated(file: h5py.File, name: str, shape: tuple[int, ...], dtype: type) -> None:
    del file[name]
    file.create_dataset(name, shape, dtype, chunks=True)


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((N, 10), np.float32)
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (N, 10))
    del file["latents"]
    file.create_virtual_dataset("latents", layout)


def external(file: h5py.File) -> None:
    del file["latents"]
    file.create_dataset("latents", (N, 10), np.float32, external=[("/etc/passwd", 0, 40 * N)])


def linked(file: h5py.File) -> None:
    del file["latents"]
    file["latents"] = h5py.ExternalLink("other.h5", "latents")


def not_filtered(file: h5py.File) -> None:
    set_array(file, "mask", PASSES["mask"])


HOSTILE: dict[str, Callable[[h5py.File], object]] = {
    "format 3, not 1 or 2": lambda file: file.attrs.__setitem__("format", 3),
    "no index": lambda file: file.pop("index"),
    "latents is float64": lambda file: set_array(file, "latents", RAW.astype(float)),
    r"latents is float32 \(2, 10\)": lambda file: set_array(file, "latents", RAW[:2]),
    "latents does not lie in the file": virtual,
    r"latents does not lie in the file|external": external,
    "no latents": linked,
    "images_offsets do not fit": lambda file: set_array(file, "images_offsets", np.array([0, 9, 5, 3, 2, 1])),
    "mask is not kept a row a chunk": not_filtered,
    "images is int64": lambda file: set_array(file, "images", np.zeros(100, int)),
    "images does not lie in one piece": lambda file: set_unallocated(file, "images", (2**42,), np.uint8),
    "latents does not lie in one piece": lambda file: set_unallocated(file, "latents", (N, 10), np.float32),
    r"index does not lie|no index": lambda file: (file.pop("index"), file.create_group("index")),
}


@pytest.mark.parametrize("said", HOSTILE)
def test_a_shard_that_lies_is_refused(tmp_path: Path, said: str) -> None:
    path = make(tmp_path / "a.h5", "compact")
    with h5py.File(path, "r+") as file:
        HOSTILE[said](file)
    with pytest.raises(Failed, match=rf"a\.h5: damaged \(.*{said}"):
        Shard(path, columns(SIZE, "compact", ("mask",)), N, 10)


def test_files_that_are_no_shards(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5", "fast")
    whole = path.read_bytes()
    for data in (b"", b"junk" * 100, whole[:1000], whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(Failed, match=r"a\.h5: "):
            Shard(path, columns(SIZE, "fast", ()), N, 10)
    path.unlink()
    with pytest.raises(Failed, match=r"a\.h5: cannot be read"):
        Shard(path, columns(SIZE, "fast", ()), N, 10)
    path.symlink_to(os.devnull)
    with pytest.raises(Failed, match=r"a\.h5: cannot be read"):
        Shard(path, columns(SIZE, "fast", ()), N, 10)


def test_a_row_that_asks_for_memory_gets_none(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5", "compact")
    with h5py.File(path, "r+") as file:
        set_array(file, "images", np.zeros(10**6, np.uint8))
        set_array(file, "images_offsets", np.array([0, 9, 10, 11, 12, 10**6]))
    with pytest.raises(Failed, match=r"a\.h5: damaged \(images has a row of 999988 bytes"):
        Shard(path, columns(SIZE, "compact", ()), N, 10)
    path = make(tmp_path / "b.h5", "fast")
    with h5py.File(path, "r+") as file:
        file["mask"].id.write_direct_chunk((2, 0, 0), bytes(10**6))
    with pytest.raises(Failed, match=r"b\.h5: damaged \(mask has a row of 1000000 bytes"):
        Shard(path, columns(SIZE, "fast", ("mask",)), N, 10)


@CODECS
def test_a_flipped_byte_in_an_image_is_found(tmp_path: Path, codec: str) -> None:
    path = make(tmp_path / "a.h5", codec)
    data = bytearray(path.read_bytes())
    encoded = columns(SIZE, codec, ())["images"].encode(IMAGES[2])
    data[data.index(encoded) + len(encoded) // 2] ^= 1
    path.write_bytes(data)
    shard = Shard(path, columns(SIZE, codec, ()), N, 10)
    assert np.array_equal(shard.read("images", 1), IMAGES[1])
    with pytest.raises(Failed, match=r"a\.h5: row 2 of images is damaged \(checksum\)"):
        shard.read("images", 2)
    shard.close()
