"""Looking at the scene: many images, one file each, or composed into a labelled figure."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from ident.render.aliases import Float32s, Pixels, Tell
from ident.render.blender.settings import PASSES, SIZES, Settings, renderer
from ident.render.errors import Impossible
from ident.render.stage.pool import Frame, frames
from ident.render.store.files import (
    TEMPORARY,
    make_folder,
    make_inside,
    npy,
    open_plain,
    read_npy,
    remove_folder,
    write,
)
from ident.render.worlds import latents

# Files. Each says in a PNG text chunk what it was made from, so that the same command goes on where it was, and no
# command overwrites what another one made.


def recipe(raw: Float32s, settings: Settings, **more: object) -> dict[str, Any]:
    """All that decides the pixels of a file, as JSON knows it."""
    described = {**asdict(settings), "quality": settings.quality.describe()}
    made = {"raw_latents": raw.tolist(), "settings": described, "renderer": dict(renderer()), **more}
    return dict(json.loads(json.dumps(made)))


def save_image(path: Path, image: Image.Image, recipe: Mapping[str, Any]) -> None:
    """Write a PNG with its recipe inside."""
    info = PngImagePlugin.PngInfo()
    info.add_text("ident", json.dumps(recipe))
    png = BytesIO()
    image.save(png, "png", pnginfo=info)
    write(path, png.getvalue())


def read_recipe(path: Path) -> dict[str, Any]:
    """The recipe in a whole PNG of ours; of anything else, an empty one."""
    try:
        with warnings.catch_warnings(action="error"), Image.open(path, formats=("PNG",)) as found:
            text = json.loads(found.info.get("ident", "{}"))
            if text:
                found.load()  # raises where the file is cut short
    except Exception:  # Pillow raises half a dozen kinds on a damaged file; none of them is ours
        return {}
    return text if isinstance(text, dict) else {}


def foreign(path: Path) -> Impossible:
    """The refusal to overwrite."""
    return Impossible(f"{path}: holds something else; give --force to overwrite it, or another --out")


def check_target(path: Path) -> None:
    """Refuse to replace what is no file: a folder, a device."""
    if path.exists() and not path.is_file():
        raise Impossible(f"{path}: is not a file; give another --out")


LARGEST_PASS = SIZES.stop**2 * 3 * 4  # bytes: three float32 a pixel

# One file a frame: STEM.png, and STEM_mask.npy, ... for the passes, whose sha256 the recipe in the PNG gives


@dataclass(frozen=True)
class _Target:
    """Where one frame goes, and what it is made from."""

    stem: Path
    raw: Float32s
    settings: Settings
    passes: tuple[str, ...]

    @property
    def png(self) -> Path:
        return self.stem.with_name(f"{self.stem.name}.png")

    def pass_file(self, name: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}_{name}.npy")

    def is_done(self, *, force: bool) -> bool:
        """Whether all is there; an error if something else is, unless forced."""
        found = read_recipe(self.png) if self.png.is_file() else {}
        known = found.pop("passes", {})
        ours = found == recipe(self.raw, self.settings)
        for path, is_ours in (
            (self.png, ours),
            *((self.pass_file(name), ours and name in known) for name in self.passes),
        ):
            check_target(path)
            if path.exists() and not is_ours and not force:
                raise foreign(path)
        return ours and all(self._holds(name, known) for name in self.passes)

    def _holds(self, name: str, known: Mapping[str, str]) -> bool:
        path = self.pass_file(name)
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == known.get(name)

    def save(self, frame: Frame) -> None:
        """Write the PNG first: until the passes that it names are there, the frame is not done."""
        files = {name: npy(frame[name]) for name in self.passes}
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        old = read_recipe(self.png).get("passes", {}) if self.png.is_file() else {}
        save_image(self.png, Image.fromarray(frame["image"]), recipe(self.raw, self.settings, passes={**old, **sums}))
        for name, data in files.items():
            write(self.pass_file(name), data)

    def load(self) -> Frame:
        with Image.open(self.png, formats=("PNG",)) as image:
            return {"image": np.asarray(image), **{name: self._read(name) for name in self.passes}}

    def _read(self, name: str) -> npt.NDArray[Any]:
        with os.fdopen(open_plain(self.pass_file(name)), "rb") as file:
            return read_npy(file, LARGEST_PASS)


FRAME_FILES = re.compile(rf"{TEMPORARY.pattern}|\d{{2,}}(_({'|'.join(PASSES)}))?\.(png|npy)")


def save_all(
    folder: Path, raw: Float32s, settings: Settings, passes: tuple[str, ...] = (), *, force: bool, done: Tell
) -> list[_Target]:
    """Write 00.png, 01.png, ... for raw latents (n, 10); what is there is not rendered again."""
    make_folder(folder)
    digits = max(2, len(str(len(raw) - 1)))
    targets = [_Target(folder / f"{i:0{digits}d}", row, settings, passes) for i, row in enumerate(raw)]
    missing = [target for target in targets if not target.is_done(force=force)]
    count = len(raw) - len(missing)
    done(count, len(raw))
    if missing:
        for i, frame in frames(np.stack([target.raw for target in missing]), settings, passes):
            missing[i].save(frame)
            count += 1
            done(count, len(raw))
    return targets


# Figures


def traversal(steps: int = 7) -> Float32s:
    """One latent each from -1 to 1 with the others at 0: raw latents (steps * 10, 10), a step a row of the figure."""
    raw = np.zeros((steps, len(latents.LATENTS), len(latents.LATENTS)), np.float32)
    each = np.arange(len(latents.LATENTS))
    raw[:, each, each] = np.linspace(-1, 1, steps)[:, None]
    return raw.reshape(-1, len(latents.LATENTS))


VIEWS: Mapping[str, Callable[[npt.NDArray[Any]], Pixels]] = MappingProxyType(
    {
        "image": lambda image: image,
        "mask": lambda mask: np.array([[0, 0, 0], [120, 120, 120], [240, 190, 60]], np.uint8)[mask],
        "depth": lambda depth: np.asarray(255 * np.clip(4 / depth, 0, 1), np.uint8)[..., None].repeat(3, axis=2),
        "normal": lambda normal: np.asarray(np.clip(127.5 * (normal + 1), 0, 255), np.uint8),
    }
)
"""How each array is drawn, as (H, W, 3) uint8. Depth: the nearer, the brighter."""


@dataclass(frozen=True)
class Layout:
    """How cells stand in a figure: in rows of `columns`, with labels above the columns and left of the rows."""

    columns: int
    across: tuple[str, ...] = ()
    down: tuple[str, ...] = ()

    def compose(self, cells: Sequence[Pixels]) -> Image.Image:
        """One image of cells (H, H, 3) of one size."""
        size = cells[0].shape[0]
        font = ImageFont.load_default(size=13)
        left = max([44, *(int(font.getlength(text)) + 12 for text in self.down)]) if self.down else 0
        top = 20 if self.across else 0
        rows = -(-len(cells) // self.columns)
        figure = Image.new("RGB", (left + self.columns * size, top + rows * size), "white")
        for i, cell in enumerate(cells):
            figure.paste(Image.fromarray(cell), (left + i % self.columns * size, top + i // self.columns * size))
        pen = ImageDraw.Draw(figure)
        for i, text in enumerate(self.across):
            pen.text((left + (i + 0.5) * size, top / 2), text, "black", font, anchor="mm")
        for i, text in enumerate(self.down):
            pen.text((left - 6, top + (i + 0.5) * size), text, "black", font, anchor="rm")
        return figure


LARGEST_FIGURE = 80_000_000  # pixels; above 89 million Pillow suspects an attack


def save_figure(
    path: Path,
    raw: Float32s,
    layout: Layout,
    settings: Settings,
    passes: tuple[str, ...] = (),
    *,
    force: bool,
    done: Tell,
) -> list[Path]:
    """Write PATH with all images, and PATH with _pass in its name for every pass; gives the files.

    The frames are collected in a hidden folder beside it, so that an interrupted figure goes on; it ends with them.
    """
    if len(raw) * settings.size**2 > LARGEST_FIGURE:
        raise Impossible(
            f"a figure of {len(raw)} images of size {settings.size} has more than {LARGEST_FIGURE:,} pixels: "
            "give a smaller --size, or fewer images"
        )
    if path.suffix.lower() != ".png":
        raise Impossible(f"{path}: give a name that ends in .png")
    make_folder(path.parent)
    figures = {
        path if view == "image" else path.with_name(f"{path.stem}_{view}.png"): view for view in ("image", *passes)
    }
    recipes = {each: recipe(raw, settings, layout=asdict(layout), view=view) for each, view in figures.items()}
    missing = []
    for each in figures:
        check_target(each)
        if not each.exists():
            missing.append(each)
        elif read_recipe(each) != recipes[each]:
            if not force:
                raise foreign(each)
            missing.append(each)
    if not missing:
        done(len(raw), len(raw))
        return list(figures)
    parts = make_inside(path.parent, f".{path.name}.parts")
    loaded = [target.load() for target in save_all(parts, raw, settings, passes, force=True, done=done)]
    for each in missing:
        view = figures[each]
        save_image(each, layout.compose([VIEWS[view](frame[view]) for frame in loaded]), recipes[each])
    remove_folder(parts, FRAME_FILES)
    return list(figures)
