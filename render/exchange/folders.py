"""Folders of classes with image files in them, as ImageNet is laid out: listed without following links, and decoded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from ident.render.aliases import Int64s, Uint8s
from ident.render.errors import Failed, Impossible
from ident.render.store.files import read
from ident.render.worlds.factors import LONGEST_TEXT, MOST_CATEGORIES

ENDINGS = (".jpeg", ".jpg", ".png", ".webp")
FORMATS = ("JPEG", "PNG", "WEBP")
SPLITS: Mapping[str, tuple[str, ...]] = {"train": ("train",), "test": ("val", "validation", "test")}
"""What the folders of the splits may be called."""
HELD_OUT = 6
"""Where there are no such folders, one image of so many, in the order of names, is held out for tests."""
MOST_IMAGES = 20_000_000
LARGEST, MOST_PIXELS = 2**26, 2**26
"""Bytes, and pixels, of an image."""


@dataclass(frozen=True)
class Split:
    """Image files, and the class of each."""

    paths: tuple[Path, ...]
    labels: Int64s

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True)
class Folder:
    """The images to train on and the others, of the same classes."""

    root: Path
    classes: tuple[str, ...]
    splits: Mapping[str, Split]

    @cached_property
    def digest(self) -> str:
        """The sha256 of the names and sizes of its images."""
        digest = sha256()
        for split, images in self.splits.items():
            for path in images.paths:
                name = path.relative_to(self.root).as_posix()
                digest.update(f"{split} {name!r} {path.lstat().st_size}\n".encode())
        return digest.hexdigest()


def read_folder(root: Path) -> Folder:
    """The classes of a folder, or of its folders `train` and `val`, and their image files."""
    of_splits = {
        split: next((root / name for name in names if (root / name).is_dir()), root) for split, names in SPLITS.items()
    }
    if root in of_splits.values():
        classes, every = listed(root)
        held = np.arange(len(every)) % HELD_OUT == HELD_OUT - 1
        splits = {"train": part(every, ~held), "test": part(every, held)}
    else:
        (classes, train), (others, test) = (listed(folder) for folder in of_splits.values())
        if classes != others:
            odd = sorted(set(classes) ^ set(others))
            raise Impossible(f"{root}: class {odd[0]} is in one of its splits alone; give folders of the same classes")
        splits = {"train": train, "test": test}
    for split, images in splits.items():
        if not len(images):
            raise Impossible(f"{root}: too few images, none is left to {split} on; give {HELD_OUT} or more")
    return Folder(root, classes, splits)


def part(images: Split, chosen: np.typing.NDArray[np.bool_]) -> Split:
    """Some of the images."""
    paths = tuple(path for path, wanted in zip(images.paths, chosen, strict=True) if wanted)
    return Split(paths, images.labels[chosen])


def listed(folder: Path) -> tuple[tuple[str, ...], Split]:
    """The classes of a folder, in the order of their names, and the images of each."""
    classes = tuple(name for name, is_folder in entries(folder) if is_folder)
    if len(classes) < 2 or len(classes) > MOST_CATEGORIES:
        raise Impossible(
            f"{folder}: has {len(classes)} folders of classes; give 2 to {MOST_CATEGORIES}, with image files in each"
        )
    paths, labels = list[Path](), list[int]()
    for label, name in enumerate(classes):
        if not name.isprintable() or len(name) > LONGEST_TEXT:
            raise Impossible(f"{folder}: class {name[:40]!r} is no line of text; give it another name")
        images = [folder / name / file for file, _ in entries(folder / name) if file.lower().endswith(ENDINGS)]
        if not images:
            raise Impossible(f"{folder / name}: has no image; give files that end in {', '.join(ENDINGS)}")
        paths += images
        labels += [label] * len(images)
        if len(paths) > MOST_IMAGES:
            raise Impossible(f"{folder}: has more than {MOST_IMAGES} images; give fewer")
    return classes, Split(tuple(paths), np.array(labels, np.int64))


def entries(folder: Path) -> Iterator[tuple[str, bool]]:
    """The names in a folder in their order, and which are folders. A link is refused: it may lead anywhere."""
    try:
        with os.scandir(folder) as scanned:
            every = sorted(scanned, key=lambda entry: entry.name)
    except OSError as error:
        raise Impossible(f"{folder}: {error.strerror}; give a folder of classes, each with its image files") from error
    for entry in every:
        if entry.is_symlink():
            raise Impossible(f"{entry.path}: is a link, which is not followed; put files and folders in its place")
        if not entry.name.startswith("."):
            yield entry.name, entry.is_dir(follow_symlinks=False)


def decode(path: Path, size: int) -> Uint8s:
    """The middle of an image (size, size, 3), its shorter side brought to this size."""
    try:
        if path.is_symlink():
            raise Failed("is a link, which is not followed")
        data = read(path, LARGEST)
        with warnings.catch_warnings(action="error"), Image.open(BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Failed(f"{image.width} x {image.height} pixels; an image may have {MOST_PIXELS}")
            if not image.width or not image.height or max(image.size) > 100 * min(image.size):
                raise Failed(f"{image.width} x {image.height} pixels; give an image")
            image.draft("RGB", (size, size))  # a JPEG is decoded as small as it can be
            upright = ImageOps.exif_transpose(image).convert("RGB")
            return np.asarray(ImageOps.fit(upright, (size, size), Image.Resampling.BILINEAR))
    except Failed as error:
        raise Failed(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or f'not an image ({error})'}") from error
    except Exception as error:  # Pillow raises half a dozen kinds on a damaged file
        raise Failed(f"{path}: not an image ({error})") from error
