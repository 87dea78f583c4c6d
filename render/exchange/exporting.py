"""A dataset in a layout that other people's readers expect: every file is read again as it is written.

Until all are whole, they have names that no reader looks for.
"""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image

from ident.render.aliases import Array, Float32s, Tell
from ident.render.errors import Failed, Impossible
from ident.render.exchange.intake import decode
from ident.render.exchange.layouts import LAYOUTS
from ident.render.exchange.layouts.layout import Layout, Row, Written
from ident.render.store.dataset import Dataset
from ident.render.store.files import (
    LARGEST_NOTE,
    LOCK,
    PART,
    check_room,
    lock,
    make_folder,
    make_inside,
    naming,
    open_plain,
    read,
    write,
)
from ident.render.store.manifest import MANIFEST
from ident.render.threads import in_order

MARK = ".exported"
FILE_BYTES = 2**25  # about, at most; each thread has a file in memory
PNG_BYTES = 0.6  # about, a pixel


@dataclass(frozen=True)
class Export:
    """A dataset, the layout that it is to be in, and the folder for that."""

    data: Dataset
    name: str
    folder: Path

    @property
    def layout(self) -> Layout:
        """The layout by its name."""
        return LAYOUTS[self.name]

    @property
    def rows(self) -> int:
        """How many images are in a file."""
        return max(1, min(self.layout.rows, int(FILE_BYTES / self._image_bytes)))

    @property
    def count(self) -> int:
        """How many files there are."""
        return -(-len(self.data) // self.rows)

    @property
    def _image_bytes(self) -> float:
        height, width, _ = self.data.shape
        return PNG_BYTES * height * width

    def run(self, *, force: bool, tell: Tell) -> None:
        """Write what is not there, and read all of it; the files get their names when all of them are whole."""
        make_folder(self.folder)
        with lock(self.folder / LOCK, f"{self.folder}: another run is writing there"):
            self._check_target(force=force)
            write(self.folder / MARK, self._mark())
            n, raw, written = len(self.data), self.data.latents, list[Written]()
            tell(0, n)
            for number, file in in_order(lambda number: self._file(number, raw), range(self.count)):
                written.append(file)
                tell(min((number + 1) * self.rows, n), n)
            for file in written:
                if (part := self._part(file.name)).exists():
                    part.replace(self.folder / file.name)
            for name, made in self.layout.rest(self.data.manifest, raw, written).items():
                write(self.folder / name, made)

    def _mark(self) -> bytes:
        """What tells this export from others, and which files it has."""
        dataset = sha256(self.data.manifest.to_json().encode()).hexdigest()
        return json.dumps({"dataset": dataset, "layout": self.name, "files": self.count}).encode()

    def _check_target(self, *, force: bool) -> None:
        there = [path for path in self.folder.iterdir() if path.name not in (LOCK, MARK)]
        mark = read(self.folder / MARK, LARGEST_NOTE) if (self.folder / MARK).exists() else b""
        ours = mark == self._mark()
        if MANIFEST in [path.name for path in there]:
            raise Impossible(f"{self.folder}: is a dataset of ident; give another --out")
        if there and not ours and not force:
            raise Impossible(f"{self.folder}: holds something else; give --force to overwrite it, or another --out")
        make_inside(self.folder, *Path(self.layout.path(0, 1)).parent.parts)
        if not ours:
            self._remove(mark)
        needed = 0 if there and ours else self._image_bytes * len(self.data)
        check_room(self.folder, needed, f"about {needed / 1e9:.2f} GB are needed,")

    def _remove(self, mark: bytes) -> None:
        """Remove what another export wrote, and nothing else: first what lets readers take it for whole."""
        try:
            made = json.loads(mark)
            layout, count = LAYOUTS[made["layout"]], int(made["files"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        for name in layout.last:
            (self.folder / name).unlink(missing_ok=True)
        folder = (self.folder / layout.path(0, 1)).parent
        if folder != self.folder and folder.is_symlink():
            return
        for path in list(folder.iterdir()) if folder.is_dir() else ():
            number = next(map(int, re.findall(r"\d+", path.name)), count)
            name = layout.path(number, count)
            if number < count and path in (self.folder / name, self._part(name)) and not path.is_dir():
                path.unlink()

    def _part(self, name: str) -> Path:
        """Where a file lies until all are whole: under a name that no reader's pattern finds."""
        path = self.folder / name
        return path.with_name(f"{PART}{path.name}.part")

    def _file(self, number: int, raw: Float32s) -> Written:
        """Write a file, unless it is there."""
        name, start = self.layout.path(number, self.count), number * self.rows
        wanted = raw[start : start + self.rows]
        path, part = self.folder / name, self._part(name)
        if self._holds(path, start, wanted):
            return Written(name, len(wanted), path.stat().st_size)
        if not self._holds(part, start, wanted):
            rows = [Row(png(self.data.image(start + i)), latents) for i, latents in enumerate(wanted)]
            try:
                part.unlink(missing_ok=True)
                with naming(part), part.open("xb") as file:  # "wb" would write where a link leads
                    file.write(self.layout.pack(rows, start))
                if not self._holds(part, start, wanted):
                    raise Failed(f"{path}: does not read as it was written")
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        return Written(name, len(wanted), part.stat().st_size)

    def _holds(self, path: Path, start: int, raw: Float32s) -> bool:
        """Whether a file has these very images and latents."""
        try:
            with os.fdopen(open_plain(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                return all(
                    np.array_equal(decode(row.image, str(path)), self.data.image(start + i))
                    and (row.raw is None or np.array_equal(row.raw, wanted))
                    for i, (row, wanted) in enumerate(zip(self.layout.unpack(file, str(path)), raw, strict=True))
                )
        except (OSError, Failed, Impossible, ValueError):
            return False


def png(image: Array) -> bytes:
    """A PNG file."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "png")
    return out.getvalue()
