"""A dataset in a layout that other people's readers expect, as files: every image is read again as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import numpy as np
from PIL import Image

from ident.render import latents
from ident.render.cluster import in_order
from ident.render.dataset import Dataset
from ident.render.errors import Failed, Impossible
from ident.render.importing import decode
from ident.render.latents import Float32s
from ident.render.shards import Array
from ident.render.storage import LOCK, PART, check_room, lock, make_folder, naming, npy, write

MARK = ".ident-export"
PNG_BYTES = 0.6  # about, a pixel

Tell = Callable[[int, int], object]


@dataclass(frozen=True)
class Export:
    """A dataset, the layout that it is to be in, and the folder for that."""

    data: Dataset
    layout: ModuleType
    folder: Path

    @property
    def mark(self) -> bytes:
        """What tells this export from others, in a file that is there while it is not through."""
        return sha256(self.data.manifest.to_json().encode()).hexdigest().encode()

    def run(self, *, force: bool, tell: Tell) -> None:
        """Write what is not there, and read all of it."""
        make_folder(self.folder)
        with lock(self.folder / LOCK, f"{self.folder}: another run is writing there"):
            self._check_target(force=force)
            write(self.folder / MARK, self.mark)
            n = len(self.data)
            self.layout.image(self.folder, 0, n).parent.mkdir(exist_ok=True)
            tell(0, n)
            for index, _ in in_order(self._image, range(n)):
                tell(index + 1, n)
            for path, array in self._latents().items():  # last: who finds them finds all
                write(path, npy(array))
            (self.folder / MARK).unlink()

    def _latents(self) -> dict[Path, Float32s]:
        raw, values = self.layout.latents(self.folder)
        return {raw: self.data.latents, values: latents.to_scene_values(self.data.latents).astype(np.float32)}

    def _check_target(self, *, force: bool) -> None:
        there = [path for path in self.folder.iterdir() if path.name not in (LOCK, MARK)]
        mark = self.folder / MARK
        ours = mark.read_bytes() == self.mark if mark.exists() else self._is_through()
        if there and not ours and not force:
            raise Impossible(f"{self.folder}: holds something else; give --force to overwrite it, or another --out")
        for part in self.folder.rglob(f"{PART}*"):
            part.unlink()
        needed = 0 if there and ours else PNG_BYTES * len(self.data) * self.data.manifest.size**2
        check_room(self.folder, needed, f"about {needed / 1e9:.2f} GB are needed,")

    def _is_through(self) -> bool:
        """Whether the latents there are ours."""
        try:
            return all(np.array_equal(np.load(path), array) for path, array in self._latents().items())
        except (OSError, ValueError):
            return False

    def _image(self, index: int) -> None:
        """Write an image, unless it is there."""
        path, image = self.layout.image(self.folder, index, len(self.data)), self.data.image(index)
        if not holds(path, image):
            part = path.with_name(f"{PART}{path.name}")
            with naming(path):
                Image.fromarray(image).save(part, "png")
                part.replace(path)
            if not holds(path, image):
                raise Failed(f"{path}: does not read as it was written")


def holds(path: Path, image: Array) -> bool:
    """Whether a file is that very image."""
    try:
        return np.array_equal(decode(path.read_bytes(), str(path)), image)
    except (OSError, Failed):
        return False
