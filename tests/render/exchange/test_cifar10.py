"""CIFAR10 in its three versions, and what is none of these. Files are of full size, as others are refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident.render.aliases import Int64s, Uint8s
from ident.render.errors import Failed, Impossible
from ident.render.exchange import cifar10
from ident.render.exchange.pickles import read_pickle

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
    with pytest.raises(Impossible, match=f"^{tmp_path}: has no CIFAR10; give a folder with data_batch_1.bin to"):
        cifar10.find(tmp_path)
    for name in NAMES[:3]:
        (tmp_path / f"{name}.bin").touch()
    with pytest.raises(Impossible) as error:
        cifar10.find(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: has no data_batch_4.bin, data_batch_5.bin, test_batch.bin; give all files of CIFAR10"
    )
