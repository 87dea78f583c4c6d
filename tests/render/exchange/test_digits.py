"""MNIST's four files: read, refused, and fetched from mirrors."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ident.render.errors import Failed, Impossible
from ident.render.exchange import digits, published
from ident.render.exchange.digits import FILES, NAMES, fetch, paths, read_digits
from tests.conftest import Run
from tests.digits import bars, idx, write_digits
from tests.servers import serving

IMAGES, LABELS = FILES["train"]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_digits(tmp_path, 20, 10)
    for split, n in (("train", 20), ("test", 10)):
        read = read_digits(tmp_path, split)
        for ours, theirs in zip((read.images, read.labels), bars(n, n), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (IMAGES, idx(bars(20, 0)[0])[:-1], r"is cut short, 15679 bytes of 20 x 28 x 28"),
        (IMAGES, idx(bars(20, 0)[0]) + b"\0", r"is too long, 15681 bytes of 20 x 28 x 28"),
        (IMAGES, idx(bars(20, 0)[0])[:9], r"is cut short, 9 bytes; its head alone has 16"),
        (IMAGES, b"", r"is cut short, 0 bytes"),
        (IMAGES, idx(bars(20, 0)[1]), r"begins with 2049; images begin with 2051"),
        (LABELS, idx(bars(20, 0)[0]), r"begins with 2051; labels begin with 2049"),
        (IMAGES, gzip.compress(idx(bars(20, 0)[0])), r"is gzipped; unpack it, by gunzip"),
        (IMAGES, struct.pack(">4I", 2051, 2**32 - 1, 2**32 - 1, 2**32 - 1), r"is cut short, 0 bytes of 4294967295 x"),
        (IMAGES, struct.pack(">4I", 2051, 0, 28, 28), r"0 images, and train-labels-idx1-ubyte has 20 labels"),
        (IMAGES, idx(np.zeros((20, 32, 32), np.uint8)), r"images of 32 x 32; digits have 28 x 28"),
        (IMAGES, idx(bars(19, 0)[0]), r"19 images, and train-labels-idx1-ubyte has 20 labels"),
        (LABELS, idx(np.full(20, 10, np.uint8)), r"its labels are not digits from 0 to 9"),
    ],
)
def test_what_is_no_such_file_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    write_digits(tmp_path, 20, 10)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Failed, match=rf"{name}: {said}|{said}"):
        read_digits(tmp_path, "train")


def test_a_file_without_an_end_is_not_read_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_digits(tmp_path, 20, 10)
    monkeypatch.setattr(digits, "LARGEST", 1000)
    with pytest.raises(Failed, match="has more than 1000 bytes"):
        read_digits(tmp_path, "train")


def test_missing_and_packed_files_say_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match=r"has no train-images-idx3-ubyte; type ident pull mnist"):
        paths(tmp_path)
    write_digits(tmp_path, 20, 10)
    assert [path.name for path in paths(tmp_path)] == list(NAMES)
    (tmp_path / LABELS).rename(tmp_path / f"{LABELS}.gz")
    with pytest.raises(Impossible, match=rf"{LABELS}.gz is gzipped; type gunzip .*{LABELS}.gz"):
        paths(tmp_path)


@pytest.fixture
def sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The contents of four small files that are taken for the published ones; nothing else is asked for them."""
    folder = write_digits(tmp_path / "made", 20, 10)
    contents = {name: (folder / name).read_bytes() for name in NAMES}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    known = published.names()
    mine = replace(known["mnist"], sums=sums, mirrors=())
    monkeypatch.setattr(published, "names", lambda: {**known, "mnist": mine})
    return contents


@pytest.mark.parametrize("packed", [True, False])
def test_pulled_from_a_mirror(ident_here: Run, tmp_path: Path, sums: dict[str, bytes], packed: bool) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, content in sums.items():
        (mirror / f"{name}{'.gz' * packed}").write_bytes(gzip.compress(content) if packed else content)
    with serving(mirror) as moods:
        for _ in range(2):  # the second time it is there
            done = ident_here("pull", "mnist", "--mirror", moods.url, "--json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == {
                "file": "data/mnist",
                "holds": "20 to train on and 10 to test on, 28 x 28",
            }
        assert len([path for path, _ in moods.asked if path.endswith((".gz", "ubyte"))]) == len(NAMES) * (
            1 + (not packed)
        )
    assert {path.name: path.read_bytes() for path in (tmp_path / "data/mnist").iterdir()} == sums
    (tmp_path / "data/mnist" / IMAGES).write_bytes(b"mine")
    done = ident_here("pull", "mnist")
    assert done.returncode == 2
    assert "holds something else; give --force" in done.stderr
    assert (tmp_path / "data/mnist" / IMAGES).read_bytes() == b"mine"


def test_the_next_mirror_is_asked(tmp_path: Path, sums: dict[str, bytes]) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    for folder in (bad, good):
        folder.mkdir()
        for name, content in sums.items():
            (folder / name).write_bytes(content)
    (bad / NAMES[0]).unlink()
    (bad / f"{NAMES[1]}.gz").write_bytes(gzip.compress(sums[NAMES[1]])[:-5])
    (bad / NAMES[1]).write_bytes(b"other")
    (bad / f"{NAMES[2]}.gz").write_bytes(gzip.compress(b"other"))
    known = replace(published.names()["mnist"], mirrors=(str(bad), str(good)))
    told = list[tuple[int, int]]()
    said = fetch(known, (), tmp_path / "out", force=False, tell=lambda *far: told.append(far))
    assert said.startswith("20 to train on")
    assert told[-1] == (4, 4)
    (good / NAMES[0]).unlink()
    with pytest.raises(Failed, match=rf"bad/{NAMES[0]}: is not there; .*good/{NAMES[0]}.gz: is not there"):
        fetch(known, (), tmp_path / "again", force=False, tell=lambda *_: None)
    assert not (tmp_path / "again" / NAMES[0]).exists()


@pytest.mark.usefixtures("sums")
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / f"{NAMES[0]}.gz").write_bytes(gzip.compress(bytes(digits.LARGEST_FETCHED + 1)))
    known = replace(published.names()["mnist"], mirrors=(str(tmp_path),))
    with pytest.raises(Failed, match=r"is cut short, or has more than 67108864 bytes in it"):
        fetch(known, (), tmp_path / "out", force=False, tell=lambda *_: None)


@pytest.mark.usefixtures("sums")
def test_nothing_goes_where_a_link_leads(tmp_path: Path) -> None:
    mirror, out = tmp_path / "made", tmp_path / "out"
    (tmp_path / "elsewhere").mkdir()
    out.symlink_to(tmp_path / "elsewhere")
    known = replace(published.names()["mnist"], mirrors=(str(mirror),))
    with pytest.raises(Impossible, match="is a link"):
        fetch(known, (), out, force=False, tell=lambda *_: None)
    assert not list((tmp_path / "elsewhere").iterdir())
