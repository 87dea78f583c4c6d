"""MNIST's four idx files: images of handwritten digits and what they show, read by what their heads promise."""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ident.render.aliases import Tell, Uint8s
from ident.render.errors import Failed, Impossible
from ident.render.exchange.mirrors import from_first, holds
from ident.render.exchange.published import Published
from ident.render.store.files import check_room, make_folder, make_inside, read, write
from ident.render.store.storage import Storage

FILES: Mapping[str, tuple[str, str]] = {
    split: (f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte")
    for split, name in (("train", "train"), ("test", "t10k"))
}
"""Images and labels of each split."""
NAMES = tuple(name for pair in FILES.values() for name in pair)
IMAGES, LABELS = 2051, 2049
"""How the files begin: unsigned bytes, of three dimensions and of one."""
SIDE, CLASSES = 28, 10
MOST = 1_000_000
"""Images of a file."""
LARGEST = MOST * SIDE**2 + 16
GZIP = b"\x1f\x8b"
LARGEST_FETCHED = 2**26
"""Bytes of a published file, packed and unpacked."""


@dataclass(frozen=True)
class Digits:
    """Images (n, 28, 28) from 0 to 255, and their classes (n,) from 0 to 9."""

    images: Uint8s
    labels: Uint8s


def paths(folder: Path) -> tuple[Path, ...]:
    """The four files of a folder, if all are there; an error says what to type."""
    missing = [name for name in NAMES if not (folder / name).is_file()]
    packed = [name for name in missing if (folder / f"{name}.gz").is_file()]
    if packed:
        raise Impossible(f"{folder}: {packed[0]}.gz is gzipped; type gunzip {folder / packed[0]}.gz, also for the rest")
    if missing:
        raise Impossible(f"{folder}: has no {missing[0]}; type ident pull mnist, or name a folder with the four files")
    return tuple(folder / name for name in NAMES)


def read_digits(folder: Path, split: str) -> Digits:
    """The images and labels of a split in a folder, checked."""
    paths(folder)
    images, labels = (folder / name for name in FILES[split])
    pixels, classes = read_idx(images, IMAGES), read_idx(labels, LABELS)
    if pixels.shape[1:] != (SIDE, SIDE):
        raise Failed(f"{images}: images of {pixels.shape[1]} x {pixels.shape[2]}; digits have {SIDE} x {SIDE}")
    if len(pixels) != len(classes):
        raise Failed(f"{images}: {len(pixels)} images, and {labels.name} has {len(classes)} labels")
    if not len(classes) or classes.max() >= CLASSES:
        raise Failed(f"{labels}: its labels are not digits from 0 to {CLASSES - 1}")
    return Digits(pixels, classes)


def read_idx(path: Path, magic: int) -> Uint8s:
    """The array of an idx file of unsigned bytes that begins with this number, if it is as long as its head says."""
    try:
        data = read(path, LARGEST)
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error
    if data.startswith(GZIP):
        raise Failed(f"{path}: is gzipped; unpack it, by gunzip < {path.name} > unpacked, and give it this name")
    count = magic % 256
    if len(data) < 4 * (1 + count):
        raise Failed(f"{path}: is cut short, {len(data)} bytes; its head alone has {4 * (1 + count)}")
    first, *sizes = struct.unpack(f">{1 + count}I", data[: 4 * (1 + count)])
    if first != magic:
        raise Failed(f"{path}: begins with {first}; {'images' if magic == IMAGES else 'labels'} begin with {magic}")
    size = len(data) - 4 * (1 + count)
    if math.prod(sizes) != size:
        wrong = "is cut short" if size < math.prod(sizes) else "is too long"
        raise Failed(f"{path}: {wrong}, {size} bytes of {' x '.join(map(str, sizes))}")
    return np.frombuffer(data, np.uint8, offset=4 * (1 + count)).reshape(sizes)


def described(folder: Path) -> str:
    """How many digits a folder has."""
    return " and ".join(f"{len(read_digits(folder, split).labels)} to {split} on" for split in FILES) + ", 28 x 28"


def fetch(published: Published, mirrors: Sequence[str], out: Path, *, force: bool, tell: Tell) -> str:
    """Bring the four files into a folder, each from the first mirror that has it; says how many digits there are.

    Mirrors serve them gzipped, or as they are. What counts is the sum of the unpacked file.
    """
    make_folder(out.absolute())
    make_inside(out.parent, out.name)
    check_room(out, len(NAMES) * LARGEST_FETCHED, "the files are to come,")
    for number, name in enumerate(NAMES):
        path = out / name
        if not holds(path, published.sums[name], force=force):
            write(path, fetched(name, published.sums[name], [*mirrors, *published.mirrors]))
        tell(number + 1, len(NAMES))
    return described(out)


def fetched(name: str, digest: str, mirrors: Sequence[str]) -> bytes:
    """An unpacked file of the sum that it should have, from the first mirror that has it."""

    def get(place: Storage, file: str) -> bytes:
        data = place.read(file, LARGEST_FETCHED)
        data = data if file == name else unpacked(data)
        if (wrong := hashlib.sha256(data).hexdigest()) != digest:
            raise Failed(f"its sha256, unpacked, is {wrong}, not {digest}")
        return data

    return from_first(mirrors, (f"{name}.gz", name), get)


def unpacked(data: bytes) -> bytes:
    """What a gzip file has in it, if that is no more than any of ours."""
    stream = zlib.decompressobj(wbits=31)
    try:
        content = stream.decompress(data, LARGEST_FETCHED + 1)
    except zlib.error as error:
        raise Failed(f"is no gzip file, or damaged ({error})") from error
    if len(content) > LARGEST_FETCHED or not stream.eof:
        raise Failed(f"is cut short, or has more than {LARGEST_FETCHED} bytes in it")
    return content
