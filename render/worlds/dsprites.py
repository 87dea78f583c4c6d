"""dSprites: a white square, ellipse or heart on black, at 6 scales, 40 orientations and 32 x 32 places, drawn by rule.

The published images (Matthey et al., 2017) have no published program. Its author has said that they are vectors without
antialiasing; the numbers here are measured. They give all 25 images that the dataset's own notebook shows to the last
pixel. The orientations begin and end with the same one, so that class 39 looks like class 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ident.render.aliases import Float64s, Int64s, Uint8s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Factor
from ident.render.worlds.world import World

SIDE = 64
"""Pixels of the published images, in which all lengths here are."""
SHAPES = ("square", "ellipse", "heart")
SCALES = np.linspace(0.5, 1, 6)
ANGLES = 2 * np.pi * np.arange(40) / 39
PLACES = 16 + 32 * np.arange(32) / 31
"""Where the centre lies, from the left or from the top."""
SIZES = (len(SHAPES), len(SCALES), len(ANGLES), len(PLACES), len(PLACES))
"""Classes of each factor."""
COUNT = int(np.prod(SIZES))

SQUARE = 19.21 / 2
"""Half a side, at scale 1."""
ELLIPSE = 12.76, 7.22
"""Its semi-axes."""
HEART = 0.5994, 0.6611, -1.435
"""What the curve 16 sin^3 t, 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t is multiplied by, and how far it is moved down."""
REACH = 13.6
"""No shape of scale 1 is larger around its centre."""
AT_ONCE = 128
"""Images that are drawn at a time: what is computed for them stays in a core's cache."""

FACTORS = (
    Factor("shape", Category(SHAPES)),
    Factor("scale", Category(tuple(f"{scale:.1f}" for scale in SCALES)), "size of the shape"),
    Factor("orientation", Category(tuple(f"{number}/39" for number in range(40))), "clockwise, of a turn"),
    Factor("x", Category(tuple(f"{number}/31" for number in range(32))), "from the left"),
    Factor("y", Category(tuple(f"{number}/31" for number in range(32))), "from the top"),
)

Inside = Callable[[Float64s, Float64s], npt.NDArray[np.bool_]]


def in_square(u: Float64s, v: Float64s) -> npt.NDArray[np.bool_]:
    """Which points lie in the square."""
    inside: npt.NDArray[np.bool_] = np.maximum(np.abs(u), np.abs(v)) <= SQUARE
    return inside


def in_ellipse(u: Float64s, v: Float64s) -> npt.NDArray[np.bool_]:
    """Which points lie in the ellipse, which is long from left to right."""
    inside: npt.NDArray[np.bool_] = (u / ELLIPSE[0]) ** 2 + (v / ELLIPSE[1]) ** 2 <= 1
    return inside


def in_heart(u: Float64s, v: Float64s) -> npt.NDArray[np.bool_]:
    """Which points lie in the heart, whose tip is below.

    At each u the curve has two points, with the same sin t and with cosines of opposite signs.
    """
    wide, high, down = HEART
    sine = np.minimum(np.cbrt(np.abs(u) / (16 * wide)), 1)
    squared = 1 - sine * sine
    cosine = np.sqrt(squared)
    # 13 c - 5 cos 2t - 2 cos 3t - cos 4t, by powers of c = cos t: odd ones change their sign with it.
    even = 4 - 2 * squared - 8 * squared**2
    odd = cosine * (19 - 8 * squared)
    rest = v - down + high * even
    inside: npt.NDArray[np.bool_] = (np.abs(rest) <= high * odd) & (np.abs(u) < 16 * wide)
    return inside


INSIDE: Mapping[int, Inside] = MappingProxyType({0: in_square, 1: in_ellipse, 2: in_heart})
"""By the class of the shape: whether points (...) around its centre, of scale 1 and upright, are white."""


def draw(classes: npt.NDArray[np.integer[Any]], size: int = SIDE) -> Uint8s:
    """The images (n, size, size) of 0 and 255 of the classes (n, 5) of the factors."""
    table = checked(classes)
    images = np.zeros((len(table), size, size), np.uint8)
    for shape, inside in INSIDE.items():
        rows = np.flatnonzero(table[:, 0] == shape)
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            paint(images, part, table[part], inside)
    return images


def paint(images: Uint8s, rows: Int64s, classes: Int64s, inside: Inside) -> None:
    """Draw one shape into some of the images, by the windows in which it lies."""
    pixel, size = SIDE / images.shape[1], images.shape[1]
    side = min(size, int(np.ceil(2 * REACH / pixel)) + 1)
    scale, angle = SCALES[classes[:, 1]], ANGLES[classes[:, 2]]
    centres = PLACES[classes[:, 3:5]]  # x, y
    firsts = np.clip(np.ceil((centres - REACH) / pixel - 0.5).astype(np.int64), 0, size - side)
    steps = np.arange(side)
    away = ((firsts[:, :, None] + steps + 0.5) * pixel - centres[:, :, None]) / scale[:, None, None]
    across, down = away[:, 0, None, :], away[:, 1, :, None]
    cosine, sine = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    white = inside(across * cosine + down * sine, down * cosine - across * sine)
    view: Any = np.lib.stride_tricks.sliding_window_view  # whose types know one axis alone
    windows = view(images, (side, side), axis=(1, 2), writeable=True)
    windows[rows, firsts[:, 1], firsts[:, 0]] = white.view(np.uint8) * np.uint8(255)


def checked(classes: npt.NDArray[np.integer[Any]]) -> Int64s:
    """Classes (n, 5), if there are such."""
    table = np.asarray(classes)
    if table.ndim != 2 or table.shape[1] != len(SIZES) or table.dtype.kind not in "iu":
        raise Impossible(f"classes {table.dtype} {table.shape}: give whole numbers (n, {len(SIZES)})")
    wrong = np.argwhere((table < 0) | (table >= np.array(SIZES)))
    if len(wrong):
        row, column = wrong[0]
        name, most = FACTORS[column].name, SIZES[column] - 1
        raise Impossible(f"classes: row {row}, {name} is {table[row, column]}; give 0 to {most}")
    return table.astype(np.int64, copy=False)


def classes_of(indices: npt.NDArray[np.integer[Any]]) -> Int64s:
    """The classes (n, 5) of the images with these numbers in the published file, the last factor fastest."""
    return np.stack(np.unravel_index(np.asarray(indices), SIZES), 1).astype(np.int64)


def picture(values: Float64s, size: int) -> Uint8s:
    """The image (size, size, 1) of the classes of the factors (5,)."""
    return draw(np.asarray(values).astype(np.int64)[None], size)[0, :, :, None]


WORLD = World("dsprites", FACTORS, picture, size=SIDE)
