"""CIFAR10 in its three versions, and what is none of these. Files are of full size, as others are refused."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import struct
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident.render.aliases import Int64s, Uint8s
from ident.render.errors import Failed, Impossible
from ident.render.exchange import cifar10, published
from ident.render.exchange.pickles import read_pickle
from tests.conftest import Run
from tests.servers import serving

N = 10_000
NAMES = [*cifar10.FILES["train"], *cifar10.FILES["test"]]


def made(number: int) -> tuple[Uint8s, Int64s]:
    """Images (N, 32, 32, 3) of a file, black but for some, and their classes (N,)."""
    images = np.zeros((N, 32, 32, 3), np.uint8)
    rng = np.random.default_rng(number)
    images[::1000] = rng.integers(256, size=(10, 32, 32, 3))
    return images, rng.integers(10, size=N)


def in_bytes(images: Uint8s, labels: Int64s) -> bytes:
    """The binary version."""
    planes = images.transpose(0, 3, 1, 2).reshape(N, -1)
    data: bytes = np.concatenate([labels[:, None].astype(np.uint8), planes], 1).tobytes()
    return data


def in_python_2(images: Uint8s, labels: Int64s) -> bytes:
    """The version for Python: a pickle of protocol 2 as Python 2 wrote it, bytes as texts."""
    pixels = images.transpose(0, 3, 1, 2).tobytes()

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value

    numbers = b"".join(b"K" + bytes([label]) for label in labels.tolist())
    dtype = (
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + text(b"b")
        + b"\x87R(K\x01M\x10'M\x00\x0c\x86"
    )
    array += dtype + b"\x89" + text(pixels) + b"tb"
    return b"\x80\x02}(" + text(b"labels") + b"](" + numbers + b"e" + text(b"data") + array + b"u."


def write(folder: Path, version: str) -> Path:
    """All files of a version."""
    folder.mkdir()
    every = [made(number) for number in range(6)]
    for name, (images, labels) in zip(NAMES, every, strict=True):
        if version == ".png":
            Image.fromarray(images.reshape(N, 1024, 3)).save(folder / f"{name}.png", compress_level=1)
        else:
            (folder / f"{name}{version}").write_bytes((in_bytes if version else in_python_2)(images, labels))
    if version == ".png":
        for name, parts in (("train_lables.json", every[:5]), ("test_lables.json", every[5:])):
            (folder / name).write_text(json.dumps(np.concatenate([labels for _, labels in parts]).tolist()))
    return folder


@pytest.mark.parametrize("version", [".bin", "", ".png"])
def test_each_version_has_the_same_images(version: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "cifar-10-batches-bin", version)
    paths = cifar10.find(folder)
    assert cifar10.find(tmp_path) == paths
    splits = cifar10.read_cifar10(paths)
    images, labels = splits["train"]
    assert (images.shape, labels.shape) == ((50_000, 32, 32, 3), (50_000,))
    assert images.dtype == np.uint8
    for number in range(5):
        part = slice(number * N, (number + 1) * N)
        assert np.array_equal(images[part], made(number)[0])
        assert np.array_equal(labels[part], made(number)[1])
    assert np.array_equal(splits["test"][0], made(5)[0])
    assert np.array_equal(splits["test"][1], made(5)[1])


def test_the_pickle_is_what_python_2_would_read() -> None:
    content = read_pickle(in_python_2(*made(0)))
    assert content["labels"] == made(0)[1].tolist()
    assert np.array_equal(content["data"], made(0)[0].transpose(0, 3, 1, 2).reshape(N, -1))


EACH = 3073


@pytest.mark.parametrize(
    ("reader", "data", "says"),
    [
        (cifar10.binary, b"\0" * (N * EACH - 1), "has 30729999 bytes, not those of 10000 images, 30730000"),
        (cifar10.binary, b"\0" * (9000 * EACH), "has 27657000 bytes, not those of 10000 images, 30730000"),
        (cifar10.binary, b"\0" * (N * 3074), "has 30740000 bytes, not those of"),  # of CIFAR100
        (cifar10.binary, b"\x0a" + b"\0" * (N * EACH - 1), "has the label 10; there are 0 to 9"),
        (cifar10.pickled, b"\x80\x02}.", "is no dictionary with data and labels"),
        (cifar10.pickled, b"\x80\x02]U\x05aa.", "not a pickle of lists and arrays alone"),
        (cifar10.pickled, b"\x80\x02}(U\x04dataK\x01U\x06labels]u.", "its data are int, not uint8"),
        (cifar10.pickled, b"\x80\x02cos\nsystem\nU\x04true\x85R.", "it names 'os system'"),
        (cifar10.png_images, b"\x89PNG\r\n\x1a\n", "not a PNG"),
    ],
)
def test_files_that_are_none(reader: Callable[[bytes], object], data: bytes, says: str) -> None:
    with pytest.raises(Failed) as error:
        reader(data)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([0] * 9, "its labels are a list of 9, not a list of 10 whole numbers"),
        ([0] * 9 + [-1], "has the label -1; there are 0 to 9"),
        ([0] * 9 + [1.0], "its labels are a list of 10, not a list of 10 whole numbers"),
        ({}, "its labels are dict, not a list of 10"),
    ],
)
def test_labels_that_are_none(labels: object, says: str) -> None:
    with pytest.raises(Failed, match=says):
        cifar10.listed(labels, 10)


def test_pngs_of_another_shape(tmp_path: Path) -> None:
    for image, says in (
        (np.zeros((10, 1024, 3), np.uint8), "is 1024 x 10 RGB, not 1024 x 10000 RGB, an image in each row"),
        (np.zeros((N, 1024), np.uint8), "is 1024 x 10000 L, not 1024 x 10000 RGB"),
    ):
        path = tmp_path / "data_batch_1.png"
        Image.fromarray(image).save(path)
        with pytest.raises(Failed) as error:
            cifar10.read_with(cifar10.png_images, path)
        assert str(error.value).startswith(f"{path}: {says}")
    Image.fromarray(made(0)[0].reshape(N, 1024, 3)).save(path, compress_level=1)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(Failed, match="not a PNG"):
        cifar10.read_with(cifar10.png_images, path)


def test_a_folder_without_all_files(tmp_path: Path) -> None:
    with pytest.raises(
        Impossible, match=f"^{tmp_path}: has no CIFAR10; type ident pull cifar10, or give a folder with"
    ):
        cifar10.find(tmp_path)
    for name in NAMES[:3]:
        (tmp_path / f"{name}.bin").touch()
    with pytest.raises(Impossible) as error:
        cifar10.find(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: has no data_batch_4.bin, data_batch_5.bin, test_batch.bin; give all files of CIFAR10"
    )


ARCHIVE = "cifar-10-binary.tar.gz"
CONTENTS = {f"{name}.bin": in_bytes(*made(number)) for number, name in enumerate(NAMES)}


def packed(contents: Mapping[str, bytes]) -> bytes:
    """An archive of files in a folder, and of a link beside them."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        link = tarfile.TarInfo("cifar-10-batches-bin/readme.html")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, content in contents.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def known_as(data: bytes, *mirrors: Path) -> published.Published:
    """The published one, if this were its archive, these what is in it, and these its mirrors."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in {ARCHIVE: data, **CONTENTS}.items()}
    return replace(published.names()["cifar10"], sums=sums, mirrors=tuple(map(str, mirrors)))


def fetched(known: published.Published, out: Path, *, force: bool = False) -> str:
    """What `ident pull` says of it."""
    return cifar10.fetch(known, (), out, force=force, tell=lambda *_: None)


def test_pulled_from_a_mirror(ident_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / ARCHIVE).write_bytes(data := packed(CONTENTS))
    mine = {**published.names(), "cifar10": known_as(data)}
    monkeypatch.setattr(published, "names", lambda: mine)
    with serving(tmp_path / "mirror") as moods:
        for _ in range(2):  # the second time it is there
            done = ident_here("pull", "cifar10", "--mirror", moods.url, "--json")
            assert done.returncode == 0, done.stderr
            told = {"file": "data/cifar10", "holds": "50000 to train on and 10000 to test on, 32 x 32"}
            assert json.loads(done.stdout) == told
        assert len([path for path, _ in moods.asked if path.endswith(ARCHIVE)]) <= 2  # its size, and itself
    assert {path.name: path.read_bytes() for path in (tmp_path / "data/cifar10").iterdir()} == CONTENTS


def test_what_is_not_the_published_archive_is_not_unpacked(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    for folder, data in ((bad, packed(CONTENTS)[:-9]), (good, whole := packed(CONTENTS))):
        folder.mkdir()
        (folder / ARCHIVE).write_bytes(data)
    with pytest.raises(Failed, match=r"none/cifar-10-binary.tar.gz: is not there; .*bad/.*: its sha256 is .*, not"):
        fetched(known_as(whole, tmp_path / "none", bad), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert fetched(known_as(whole, bad, good), tmp_path / "out").startswith("50000 to train on")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"no archive", "is no archive, or damaged"),
        (packed({f"{NAMES[0]}.bin": CONTENTS[f"{NAMES[0]}.bin"]}), "cifar-10-binary.tar.gz: has no data_batch_2.bin"),
        (packed({NAMES[0] + ".bin": b"0" * (N * EACH + 1)}), "data_batch_1.bin: has more than 30730000 bytes"),
        (packed(dict.fromkeys(CONTENTS, b"short")), "the sha256 of its data_batch_1.bin is .*, not"),
    ],
)
def test_an_archive_of_something_else(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / ARCHIVE).write_bytes(data)
    with pytest.raises(Failed, match=says):
        fetched(known_as(data, tmp_path), tmp_path / "out")


@pytest.mark.parametrize("other", [b"mine", b"\3" * N * EACH])
def test_what_lies_there_is_not_lost(tmp_path: Path, other: bytes) -> None:
    (tmp_path / ARCHIVE).write_bytes(data := packed(CONTENTS))
    fetched(known_as(data, tmp_path), tmp_path / "out")
    mine = tmp_path / "out" / f"{NAMES[1]}.bin"
    mine.write_bytes(other)
    with pytest.raises(Impossible, match=r"data_batch_2.bin: holds something else; give --force"):
        fetched(known_as(data), tmp_path / "out")  # nothing is asked for it
    assert mine.read_bytes() == other
    fetched(known_as(data, tmp_path), tmp_path / "out", force=True)
    assert mine.read_bytes() == CONTENTS[mine.name]


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / f"{NAMES[1]}.bin")
    with pytest.raises(Impossible, match=r"data_batch_2.bin: holds something else; give --force"):
        fetched(known_as(b""), tmp_path / "out")


class Full(io.BytesIO):
    """A file on a disk that is full."""

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_not_the_mirrors_fault(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(data := packed(CONTENTS))
    sums = known_as(data).sums[ARCHIVE]
    with pytest.raises(Impossible, match="the archive cannot be kept"):
        cifar10.bring(Full(), ARCHIVE, sums, [str(tmp_path)], lambda *_: None)
