"""A dataset in a layout that other people's readers expect: every file is read again as it is written.

Until all are whole, they have names that no reader looks for.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from ident.render.aliases import Float32s, Int64s, Tell
from ident.render.errors import Failed, Impossible
from ident.render.exchange.layouts import LAYOUTS
from ident.render.exchange.layouts.layout import Layout, Row, Written
from ident.render.exchange.pictures import decode, png
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
MOST_PARTS = 10


@dataclass(frozen=True)
class Target:
    """A file of an export: its name, and the rows of the dataset that it holds."""

    name: str
    rows: Int64s


@dataclass(frozen=True)
class Export:
    """A dataset, the layout that it is to be in, and the folder for that."""

    data: Dataset
    name: str
    folder: Path

    @cached_property
    def layout(self) -> Layout:
        """The layout by its name, of the dataset's world."""
        return replace(LAYOUTS[self.name], world=self.data.manifest.world)

    @property
    def rows(self) -> int:
        """How many images are in a file."""
        return max(1, min(self.layout.rows, int(FILE_BYTES / self._image_bytes)))

    @cached_property
    def parts(self) -> list[list[Int64s]]:
        """The rows of the dataset in each file of each part."""
        parts = self.layout.parts(self.data.latents)
        each = [np.flatnonzero(parts == part) for part in range(int(parts.max()) + 1)]
        return [[rows[i : i + self.rows] for i in range(0, len(rows), self.rows)] for rows in each]

    @cached_property
    def targets(self) -> list[Target]:
        """All files with images."""
        return [
            Target(self.layout.path(number, len(files), part), rows)
            for part, files in enumerate(self.parts)
            for number, rows in enumerate(files)
        ]

    @property
    def _image_bytes(self) -> float:
        height, width, _ = self.data.shape
        return PNG_BYTES * height * width

    def run(self, *, force: bool, tell: Tell) -> None:
        """Write what is not there, and read all of it; the files get their names when all of them are whole."""
        height, width, channels = self.data.shape
        if height != width or channels != 3:
            raise Impossible(
                f"{self.data.storage}: its images are {height} x {width} of {channels} channels; only squares of red, "
                "green and blue can be exported"
            )
        make_folder(self.folder)
        with lock(self.folder / LOCK, f"{self.folder}: another run is writing there"):
            self._check_target(force=force)
            write(self.folder / MARK, self._mark())
            n, done, written = len(self.data), 0, list[Written]()
            tell(done, n)
            for _, file in in_order(self._file, self.targets):
                written.append(file)
                done += file.rows
                tell(done, n)
            for file in written:
                if (part := self._part(file.name)).exists():
                    part.replace(self.folder / file.name)
            for name, content in self.layout.rest(self.data.manifest, self.data.latents, written).items():
                write(self.folder / name, content)

    def _mark(self) -> bytes:
        """What tells this export from others, and how many files each part has."""
        dataset = sha256(self.data.manifest.to_json().encode()).hexdigest()
        return json.dumps({"dataset": dataset, "layout": self.name, "files": list(map(len, self.parts))}).encode()

    def _check_target(self, *, force: bool) -> None:
        others = [path for path in self.folder.iterdir() if path.name not in (LOCK, MARK)]
        mark = read(self.folder / MARK, LARGEST_NOTE) if (self.folder / MARK).exists() else b""
        ours = mark == self._mark()
        if MANIFEST in [path.name for path in others]:
            raise Impossible(f"{self.folder}: is a dataset of ident; give another --out")
        if others and not ours and not force:
            raise Impossible(f"{self.folder}: holds something else; give --force to overwrite it, or another --out")
        for folder in sorted({str(Path(target.name).parent) for target in self.targets}):
            make_inside(self.folder, *Path(folder).parts)
        if not ours:
            self._remove(mark)
        needed = 0 if others and ours else self._image_bytes * len(self.data)
        check_room(self.folder, needed, f"about {needed / 1e9:.2f} GB are needed,")

    def _remove(self, mark: bytes) -> None:
        """Remove what another export wrote, and nothing else: first what lets readers take it for whole."""
        try:
            noted = json.loads(mark)
            layout, counts = LAYOUTS[noted["layout"]], list(map(int, noted["files"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        for name in layout.last:
            (self.folder / name).unlink(missing_ok=True)
        for part, count in enumerate(counts[:MOST_PARTS]):
            self._remove_part(layout, part, count)

    def _remove_part(self, layout: Layout, part: int, count: int) -> None:
        folder = (self.folder / layout.path(0, 1, part)).parent
        if folder != self.folder and folder.is_symlink():
            return
        for path in list(folder.iterdir()) if folder.is_dir() else ():
            number = next(map(int, re.findall(r"\d+", path.name)), count)
            name = layout.path(number, count, part) if number < count else ""
            if name and path in (self.folder / name, self._part(name)) and not path.is_dir():
                path.unlink()

    def _part(self, name: str) -> Path:
        """Where a file lies until all are whole: under a name that no reader's pattern finds."""
        path = self.folder / name
        return path.with_name(f"{PART}{path.name}.part")

    def _file(self, target: Target) -> Written:
        """Write a file, unless it is there."""
        name, raw = target.name, self.data.latents[target.rows]
        path, part = self.folder / name, self._part(name)
        if self._holds(path, target, raw):
            return Written(name, len(raw), path.stat().st_size)
        if not self._holds(part, target, raw):
            rows = [Row(png(self.data.image(int(i))), latents) for i, latents in zip(target.rows, raw, strict=True)]
            try:
                part.unlink(missing_ok=True)
                with naming(part), part.open("xb") as file:  # "wb" would write where a link leads
                    file.write(self.layout.pack(rows, int(target.rows[0])))
                if not self._holds(part, target, raw):
                    raise Failed(f"{path}: does not read as it was written")
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        return Written(name, len(raw), part.stat().st_size)

    def _holds(self, path: Path, target: Target, raw: Float32s) -> bool:
        """Whether a file has these very images and latents."""
        try:
            with os.fdopen(open_plain(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                return all(
                    np.array_equal(decode(row.image, str(path)), self.data.image(int(i)))
                    and (row.raw is None or np.array_equal(row.raw, latents))
                    for row, i, latents in zip(self.layout.unpack(file, str(path)), target.rows, raw, strict=True)
                )
        except (OSError, Failed, Impossible, ValueError):
            return False
