"""A dataset in a layout that other people's readers expect: every file is read again as it is written."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image

from ident.render.cluster import in_order
from ident.render.dataset import Dataset
from ident.render.errors import Failed, Impossible
from ident.render.importing import decode
from ident.render.latents import Float32s
from ident.render.layouts.files import Layout, Row, Written
from ident.render.shards import Array
from ident.render.storage import LOCK, PART, check_room, lock, make_folder, naming, write

MARK = ".exported"
FILE_BYTES = 2**25  # about, at most; each thread has a file in memory
PNG_BYTES = 0.6  # about, a pixel

Tell = Callable[[int, int], object]


@dataclass(frozen=True)
class Export:
    """A dataset, the layout that it is to be in, and the folder for that."""

    data: Dataset
    layout: Layout
    folder: Path

    def run(self, *, force: bool, tell: Tell) -> None:
        """Write what is not there, and read all of it."""
        make_folder(self.folder)
        with lock(self.folder / LOCK, f"{self.folder}: another run is writing there"):
            self._check_target(force=force)
            write(self.folder / MARK, self._mark)
            n, image_bytes = len(self.data), PNG_BYTES * self.data.manifest.size**2
            rows = max(1, min(self.layout.rows, int(FILE_BYTES / image_bytes)))
            raw, count, written = self.data.latents, -(-n // rows), list[Written]()
            tell(0, n)
            names = (self.layout.path(number, count) for number in range(count))
            work = ((name, start, min(start + rows, n)) for name, start in zip(names, range(0, n, rows), strict=True))
            for (_, _, stop), file in in_order(lambda span: self._file(*span, raw), work):
                written.append(file)
                tell(stop, n)
            # Last: who finds these finds all.
            for name, data in self.layout.rest(self.data.manifest, raw, written).items():
                write(self.folder / name, data)

    @property
    def _mark(self) -> bytes:
        """What tells this export from others."""
        return sha256(f"{self.layout.meaning}\n{self.data.manifest.to_json()}".encode()).hexdigest().encode()

    def _check_target(self, *, force: bool) -> None:
        mark = self.folder / MARK
        ours = mark.exists() and mark.read_bytes() == self._mark
        there = [path for path in self.folder.iterdir() if path.name not in (LOCK, MARK)]
        if there and not ours and not force:
            raise Impossible(f"{self.folder}: holds something else; give --force to overwrite it, or another --out")
        images = (self.folder / self.layout.path(0, 1)).parent
        for path in list(images.iterdir()) if images.is_dir() else []:
            stale = not ours and self.layout.pattern.fullmatch(path.relative_to(self.folder).as_posix())
            if stale or path.name.startswith(PART):
                path.unlink()
        needed = 0 if there and ours else PNG_BYTES * len(self.data) * self.data.manifest.size**2
        check_room(self.folder, needed, f"about {needed / 1e9:.2f} GB are needed,")

    def _file(self, name: str, start: int, stop: int, raw: Float32s) -> Written:
        """Write a file, unless it is there."""
        path = self.folder / name
        if not self._holds(path, start, raw[start:stop]):
            data = self.layout.pack([Row(png(self.data.image(i)), raw[i]) for i in range(start, stop)], start)
            path.parent.mkdir(exist_ok=True)
            part = path.with_name(f"{PART}{path.name}")
            with naming(path):
                part.write_bytes(data)
                part.replace(path)
            if not self._holds(path, start, raw[start:stop]):
                raise Failed(f"{path}: does not read as it was written")
        return Written(name, stop - start, path.stat().st_size)

    def _holds(self, path: Path, start: int, raw: Float32s) -> bool:
        """Whether a file has these very images and latents."""
        try:
            with path.open("rb") as file:
                return all(
                    np.array_equal(decode(row.image, str(path)), self.data.image(start + i))
                    and (row.raw is None or np.array_equal(row.raw, wanted))
                    for i, (row, wanted) in enumerate(zip(self.layout.unpack(file, str(path)), raw, strict=True))
                )
        except (OSError, Failed, ValueError):
            return False


def png(image: Array) -> bytes:
    """A PNG file."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "png")
    return out.getvalue()
