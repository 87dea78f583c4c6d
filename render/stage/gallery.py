"""Looking at the scene: many images, one file each, or composed into a labelled figure."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin

from ident.render.aliases import Array, Float32s, Tell, Uint8s
from ident.render.errors import Impossible
from ident.render.grid import Grid
from ident.render.stage.pool import Frame, frames
from ident.render.store.columns import LARGEST_ROW
from ident.render.store.files import (
    TEMPORARY,
    make_folder,
    make_inside,
    npy,
    open_plain,
    read_npy,
    read_npy_file,
    remove_folder,
    write,
)
from ident.render.worlds import Category, Circle, World
from ident.render.worlds.engine import Settings

# Files. Each has a label in a PNG text chunk, which says what it was made from: so the same command goes on, and no
# command overwrites what another one made.


@dataclass(frozen=True)
class Shots:
    """What is rendered: raw latents (n, d), or (d,) of one image, of a world, by settings."""

    world: World
    settings: Settings
    raw: Float32s
    passes: tuple[str, ...] = ()

    def checked(self) -> Shots:
        """These shots with their passes in order and once each; an error if the world has not all of them."""
        able = [name for name in self.settings.arrays(self.world) if name != "images"]
        for name in self.passes:
            if name not in able:
                raise Impossible(f"pass {name!r}: choose from {', '.join(able) or 'none, this world has no passes'}")
        return replace(self, passes=tuple(name for name in able if name in self.passes))

    def of(self, raw: Float32s) -> Shots:
        """Others of the kind."""
        return replace(self, raw=raw)

    def label(self, **more: object) -> dict[str, Any]:
        """All that decides the pixels of a file, as JSON knows it."""
        world = {"name": self.world.name, "digest": self.world.digest}
        label = {"world": world, "raw_latents": self.raw.tolist(), "render": self.settings.describe(), **more}
        return dict(json.loads(json.dumps(label)))


def read_raw(path: Path, world: World) -> Float32s:
    """Raw latents (n, d) of a world from a .npy file, checked."""
    return world.check(read_npy_file(path, "a .npy file of raw latents"), str(path))


def save_image(path: Path, image: Image.Image, label: Mapping[str, Any]) -> None:
    """Write a PNG with its label inside."""
    info = PngImagePlugin.PngInfo()
    info.add_text("ident", json.dumps(label))
    png = BytesIO()
    image.save(png, "png", pnginfo=info)
    write(path, png.getvalue())


def read_label(path: Path) -> dict[str, Any]:
    """The label in a whole PNG of ours; of anything else, an empty one."""
    try:
        with warnings.catch_warnings(action="error"), Image.open(path, formats=("PNG",)) as image:
            label = json.loads(image.info.get("ident", "{}"))
            if label:
                image.load()  # raises where the file is cut short
    except Exception:  # Pillow raises half a dozen kinds on a damaged file; none of them is ours
        return {}
    return label if isinstance(label, dict) else {}


def foreign(path: Path) -> Impossible:
    """The refusal to overwrite."""
    return Impossible(f"{path}: holds something else; give --force to overwrite it, or another --out")


def check_target(path: Path) -> None:
    """Refuse to replace what is no file: a folder, a device."""
    if path.exists() and not path.is_file():
        raise Impossible(f"{path}: is not a file; give another --out")


# One file a frame: STEM.png, and STEM_mask.npy, ... for the passes, whose sha256 the label in the PNG gives


@dataclass(frozen=True)
class _Target:
    """Where one frame goes, and what it is made from."""

    stem: Path
    shot: Shots

    @property
    def png(self) -> Path:
        return self.stem.with_name(f"{self.stem.name}.png")

    def pass_file(self, name: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}_{name}.npy")

    def is_done(self, *, force: bool) -> bool:
        """Whether all is there; an error if something else is, unless forced."""
        label = read_label(self.png) if self.png.is_file() else {}
        known = label.pop("passes", {})
        ours = label == self.shot.label()
        for path, is_ours in (
            (self.png, ours),
            *((self.pass_file(name), ours and name in known) for name in self.shot.passes),
        ):
            check_target(path)
            if path.exists() and not is_ours and not force:
                raise foreign(path)
        return ours and all(self._holds(name, known) for name in self.shot.passes)

    def _holds(self, name: str, known: Mapping[str, str]) -> bool:
        path = self.pass_file(name)
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == known.get(name)

    def save(self, frame: Frame) -> None:
        """Write the PNG first: until the passes that it names are there, the frame is not done."""
        files = {name: npy(frame[name]) for name in self.shot.passes}
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        old = read_label(self.png).get("passes", {}) if self.png.is_file() else {}
        save_image(self.png, picture(frame["image"]), self.shot.label(passes={**old, **sums}))
        for name, data in files.items():
            write(self.pass_file(name), data)

    def load(self) -> Frame:
        with Image.open(self.png, formats=("PNG",)) as image:
            return {"image": np.asarray(image), **{name: self._read(name) for name in self.shot.passes}}

    def _read(self, name: str) -> Array:
        with os.fdopen(open_plain(self.pass_file(name)), "rb") as file:
            return read_npy(file, LARGEST_ROW)


FRAME_FILES = re.compile(rf"{TEMPORARY.pattern}|\d{{2,}}(_[a-z]+)?\.(png|npy)")


def picture(image: Uint8s) -> Image.Image:
    """An image (H, W, C) as Pillow has it."""
    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def save_all(folder: Path, shots: Shots, *, force: bool, done: Tell) -> list[_Target]:
    """Write 00.png, 01.png, ...; what is there is not rendered again."""
    shots = shots.checked()
    make_folder(folder)
    count = len(shots.raw)
    digits = max(2, len(str(count - 1)))
    targets = [_Target(folder / f"{i:0{digits}d}", shots.of(row)) for i, row in enumerate(shots.raw)]
    missing = [target for target in targets if not target.is_done(force=force)]
    saved = count - len(missing)
    done(saved, count)
    if missing:
        raw = np.stack([target.shot.raw for target in missing])
        for i, frame in frames(shots.world, shots.settings, raw, shots.passes):
            missing[i].save(frame)
            saved += 1
            done(saved, count)
    return targets


# Figures


def traversal(world: World, steps: int = 7) -> Float32s:
    """One factor each from end to end with the others in their middle, raw latents (steps * d, d).

    A step is a row of the figure, and a factor a column. A category's middle is its first name.
    """
    count = len(world.factors)
    middle = [
        0.0 if isinstance(each.kind, Category) else (each.kind.low + each.kind.high) / 2 for each in world.factors
    ]
    raw = np.tile(np.array(middle, np.float32), (steps, count, 1))
    for i, factor in enumerate(world.factors):
        ends = np.linspace(factor.kind.low, factor.kind.high, steps, endpoint=not isinstance(factor.kind, Circle))
        raw[:, i, i] = np.round(ends) if isinstance(factor.kind, Category) else ends
    return raw.reshape(-1, count)


def seen(image: Array) -> Uint8s:
    """An image (H, W, C) in red, green and blue; alpha is left out."""
    return np.asarray(image.reshape(*image.shape[:2], -1)[..., :3] * np.ones(3, np.uint8))


VIEWS: Mapping[str, Callable[[Array], Uint8s]] = MappingProxyType(
    {
        "image": seen,
        "mask": lambda mask: np.array([[0, 0, 0], [120, 120, 120], [240, 190, 60]], np.uint8)[mask],
        "depth": lambda depth: np.asarray(255 * np.clip(4 / depth, 0, 1), np.uint8)[..., None].repeat(3, axis=2),
        "normal": lambda normal: np.asarray(np.clip(127.5 * (normal + 1), 0, 255), np.uint8),
    }
)
"""How each array is drawn, as (H, W, 3) uint8. Depth: the nearer, the brighter."""


def traversal_grid(world: World, raw: Float32s) -> Grid:
    """A column a factor; rows have values where they mean the same for all factors."""
    count = len(world.factors)
    alike = len({factor.kind for factor in world.factors}) == 1
    steps = tuple(f"{value:+.2f}" for value in raw[::count, 0]) if alike else ()
    return Grid(count, world.names, steps)


LARGEST_FIGURE = 80_000_000  # pixels; above 89 million Pillow suspects an attack


def save_figure(path: Path, shots: Shots, grid: Grid, *, force: bool, done: Tell) -> list[Path]:
    """Write PATH with all images, and PATH with _pass in its name for every pass; gives the files.

    The frames are collected in a hidden folder beside it, so that an interrupted figure goes on; it ends with them.
    """
    count, size = len(shots.raw), shots.settings.size
    if count * size**2 > LARGEST_FIGURE:
        raise Impossible(
            f"a figure of {count} images of size {size} has more than {LARGEST_FIGURE:,} pixels: "
            "give a smaller --size, or fewer images"
        )
    if path.suffix.lower() != ".png":
        raise Impossible(f"{path}: give a name that ends in .png")
    shots = shots.checked()
    make_folder(path.parent)
    views = ("image", *shots.passes)
    figures = {path if view == "image" else path.with_name(f"{path.stem}_{view}.png"): view for view in views}
    labels = {figure: shots.label(layout=asdict(grid), view=view) for figure, view in figures.items()}
    missing = []
    for figure in figures:
        check_target(figure)
        if not figure.exists():
            missing.append(figure)
        elif read_label(figure) != labels[figure]:
            if not force:
                raise foreign(figure)
            missing.append(figure)
    if not missing:
        done(count, count)
        return list(figures)
    parts = make_inside(path.parent, f".{path.name}.parts")
    loaded = [target.load() for target in save_all(parts, shots, force=True, done=done)]
    for figure in missing:
        view = figures[figure]
        save_image(figure, grid.compose([VIEWS[view](frame[view]) for frame in loaded]), labels[figure])
    remove_folder(parts, FRAME_FILES)
    return list(figures)
