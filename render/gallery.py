"""Looking at the scene: many pictures from a pool of engines, as single files or composed into a labelled figure."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin, UnidentifiedImageError

from ident.render import latents
from ident.render.errors import Failed, Impossible
from ident.render.quality import PRESETS, Quality
from ident.render.scene import place

if TYPE_CHECKING:
    from ident.render.engine import Engine

Frame = dict[str, npt.NDArray[Any]]
"""One scene's arrays: "image" and the passes by name."""

LARGEST_FIGURE = 2**28  # pixels


@dataclass(frozen=True)
class Look:
    """How pictures are made: everything beside the latents that decides their pixels."""

    size: int = 224
    quality: Quality = PRESETS["balanced"]
    passes: tuple[str, ...] = ()
    gpus: int = 0


@cache
def _engine(look: Look) -> Engine:
    from ident.render.engine import Engine  # here, so that the pool starts Blender and its parent does not

    return Engine(size=look.size, quality=look.quality, gpus=look.gpus)


def _frame(raw: npt.NDArray[np.float32], look: Look) -> Frame:
    scene = place(latents.to_scene_values(raw))
    engine = _engine(look)
    passes = engine.passes(scene, look.passes) if look.passes else {}
    return {"image": engine.image(scene), **passes}


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def frames(raw: npt.NDArray[np.float32], look: Look) -> Iterator[tuple[int, Frame]]:
    """The frames of raw latents (n, 10) with their row numbers, as they are done: an engine a core, or one on GPUs."""
    cores = 1 if look.gpus else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pool = ProcessPoolExecutor(
        max_workers=max(1, min(cores or 1, len(raw))),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts_to_parent,
    )
    try:
        rows: dict[Future[Frame], int] = {pool.submit(_frame, row, look): i for i, row in enumerate(raw)}
        for done in as_completed(rows):
            yield rows.pop(done), done.result()
    except BrokenProcessPool as error:
        raise Failed("an engine died (out of memory?); type the same command to go on") from error
    finally:
        pool.shutdown(cancel_futures=True)


# What a figure shows


def traversal(steps: int = 7) -> npt.NDArray[np.float32]:
    """One latent each from -1 to 1 with the others at 0: raw latents (steps * 10, 10), a step a row of the figure."""
    raw = np.zeros((steps, len(latents.LATENTS), len(latents.LATENTS)), np.float32)
    each = np.arange(len(latents.LATENTS))
    raw[:, each, each] = np.linspace(-1, 1, steps)[:, None]
    return raw.reshape(-1, len(latents.LATENTS))


VIEWS: Mapping[str, Callable[[npt.NDArray[Any]], npt.NDArray[np.uint8]]] = {
    "image": lambda image: image,
    "mask": lambda mask: np.array([[0, 0, 0], [120, 120, 120], [240, 190, 60]], np.uint8)[mask],
    "depth": lambda depth: np.asarray(255 * np.clip(4 / depth, 0, 1), np.uint8)[..., None].repeat(3, axis=2),
    "normal": lambda normal: np.asarray(np.clip(127.5 * (normal + 1), 0, 255), np.uint8),
}
"""How each array is drawn, as (H, W, 3) uint8. Depth: the nearer, the brighter."""


def compose(
    cells: Sequence[npt.NDArray[np.uint8]], columns: int, *, across: Sequence[str] = (), down: Sequence[str] = ()
) -> Image.Image:
    """Cells of one size in rows of `columns`, with labels above the columns and left of the rows."""
    size = cells[0].shape[0]
    left, top = (44 if down else 0), (20 if across else 0)
    rows = -(-len(cells) // columns)
    figure = Image.new("RGB", (left + columns * size, top + rows * size), "white")
    for i, cell in enumerate(cells):
        figure.paste(Image.fromarray(cell), (left + i % columns * size, top + i // columns * size))
    pen, font = ImageDraw.Draw(figure), ImageFont.load_default(size=13)
    for i, text in enumerate(across):
        pen.text((left + (i + 0.5) * size, top / 2), text, "black", font, anchor="mm")
    for i, text in enumerate(down):
        pen.text((left - 6, top + (i + 0.5) * size), text, "black", font, anchor="rm")
    return figure


# Files: each carries what it was made from, so that the same command goes on and another one does not overwrite


def _recipe(raw: npt.NDArray[np.float32], look: Look) -> str:
    return json.dumps({"raw_latents": raw.tolist(), "look": asdict(look)}, sort_keys=True)


def is_done(path: Path, raw: npt.NDArray[np.float32], look: Look, *, force: bool) -> bool:
    """Whether the picture of these latents and this look is there; an error if something else is."""
    if force or not path.exists():
        return False
    try:
        with Image.open(path) as found:
            found.load()  # raises where the file is cut short
            recipe = found.info.get("ident")
    except (UnidentifiedImageError, OSError):
        recipe = None
    if recipe != _recipe(raw, look):
        raise Impossible(f"{path}: holds something else; give --force to overwrite it, or another --out")
    return True


def write(path: Path, data: bytes) -> None:
    """Write a file that appears under its name only when whole."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def save_picture(path: Path, picture: Image.Image, raw: npt.NDArray[np.float32], look: Look) -> None:
    """Write a PNG with its recipe inside."""
    info = PngImagePlugin.PngInfo()
    info.add_text("ident", _recipe(raw, look))
    png = BytesIO()
    picture.save(png, "png", pnginfo=info)
    write(path, png.getvalue())


def save_frame(stem: Path, frame: Frame, raw: npt.NDArray[np.float32], look: Look) -> None:
    """Write STEM_pass.npy for every pass, and last STEM.png, which says that all is there."""
    for name in look.passes:
        array = BytesIO()
        np.save(array, frame[name])
        write(stem.with_name(f"{stem.name}_{name}.npy"), array.getvalue())
    save_picture(stem.with_name(f"{stem.name}.png"), Image.fromarray(frame["image"]), raw, look)


def make_folder(path: Path) -> None:
    """Make a folder to write to, or say why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Impossible(f"{path}: is a file or lies in one, not a folder; give another --out") from error
    except OSError as error:
        raise Impossible(f"{path}: cannot be made ({error.strerror}); give another --out") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise Impossible(f"{path}: you may not write there; give another --out")


def save_all(
    folder: Path, raw: npt.NDArray[np.float32], look: Look, *, force: bool, done: Callable[[int], object]
) -> None:
    """Write 00.png, 01.png, ... for raw latents (n, 10); those that are there are not rendered again."""
    make_folder(folder)
    digits = max(2, len(str(len(raw) - 1)))
    stems = [folder / f"{i:0{digits}d}" for i in range(len(raw))]
    missing = [
        i for i, stem in enumerate(stems) if not is_done(stem.with_name(stem.name + ".png"), raw[i], look, force=force)
    ]
    done(len(raw) - len(missing))
    if missing:
        for k, frame in frames(raw[missing], look):
            save_frame(stems[missing[k]], frame, raw[missing[k]], look)
            done(1)


def save_figure(
    path: Path,
    raw: npt.NDArray[np.float32],
    columns: int,
    look: Look,
    *,
    force: bool,
    done: Callable[[int], object],
    across: Sequence[str] = (),
    down: Sequence[str] = (),
) -> list[Path]:
    """Write PATH with all pictures, and PATH with _pass in its name for every pass; gives the files."""
    if len(raw) * look.size**2 > LARGEST_FIGURE:
        raise Impossible(f"a figure of {len(raw)} pictures of size {look.size} is too large: give a smaller --size")
    make_folder(path.parent)
    if path.is_dir():
        raise Impossible(f"{path}: is a folder; give the name of a .png file")
    names = ("image", *look.passes)
    paths = [path if name == "image" else path.with_name(f"{path.stem}_{name}{path.suffix}") for name in names]
    there = [is_done(each, raw, look, force=force) for each in paths]
    if all(there):
        done(len(raw))
        return paths
    cells: dict[str, list[npt.NDArray[np.uint8]]] = {
        name: [np.zeros((look.size, look.size, 3), np.uint8)] * len(raw) for name in names
    }
    for i, frame in frames(raw, look):
        for name in names:
            cells[name][i] = VIEWS[name](frame[name])
        done(1)
    for name, each in zip(names, paths, strict=True):
        save_picture(each, compose(cells[name], columns, across=across, down=down), raw, look)
    return paths


def check_passes(names: Collection[str]) -> tuple[str, ...]:
    """The passes asked for, or an error that lists those there are."""
    known = [name for name in VIEWS if name != "image"]
    for name in names:
        if name not in known:
            raise Impossible(f"pass {name!r}: choose from {', '.join(known)}")
    return tuple(dict.fromkeys(names))
