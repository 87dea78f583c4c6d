"""Natural Sprites: white polygons on black, at the places and of the sizes of tracked objects.

The shapes are those of Spriteworld (Watters et al., 2019), which draws them five times as large and makes them small.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from ident.render.aliases import Float64s, Uint8s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Factor, Interval
from ident.render.worlds.world import World

SIDE = 64
ANTI_ALIASING = 5
"""How many times as large the polygons are drawn."""
CORNERS = 4
"""Of the star and of the cross, whose shape is called spokes."""
ANGLES = 40

FACTORS = (
    Factor("x", Interval(0, 1), "centre, from the left"),
    Factor("y", Interval(0, 1), "centre, from below"),
    Factor("scale", Interval(0, 1), "root of the area"),
    Factor("orientation", Category(tuple(f"{number}/{ANGLES}" for number in range(ANGLES))), "of a turn"),
    Factor("shape", Category(("square", "triangle", "star", "spokes"))),
)


def on_circle(radius: float, angles: npt.ArrayLike) -> Float64s:
    """Points (n, 2) on a circle."""
    turned = np.asarray(angles, np.float64)
    points: Float64s = radius * np.stack([np.cos(turned), np.sin(turned)], 1)
    return points


def of_unit_area(corners: Float64s, area: float) -> Float64s:
    """A polygon (n, 2), made smaller by the root of an area."""
    smaller: Float64s = corners / np.sqrt(area)
    return smaller


def regular(count: int, first: float) -> Float64s:
    """A regular polygon of area 1, from the direction of its first corner on."""
    corners = on_circle(1.0, first + 2 * np.pi * np.arange(count) / count)
    return of_unit_area(corners, count * np.sin(2 * np.pi / count) / 2)


def star(count: int, first: float) -> Float64s:
    """A star of area 1, whose points reach twice as far as the corners between them."""
    turn = 2 * np.pi / count
    inner = on_circle(1.0, first + turn * np.arange(count))
    outer = on_circle(2.0, first + turn * (np.arange(count) + 0.5))
    return of_unit_area(np.stack([inner, outer], 1).reshape(-1, 2), 2 * count * np.sin(turn / 2))


def spokes(count: int, first: float) -> Float64s:
    """A regular polygon with a rectangle on each side. Spriteworld's formula for its area is kept."""
    turn = 2 * np.pi / count
    inner = on_circle(1.0, first + turn * np.arange(count))
    outward = on_circle(1.0, first + turn * (np.arange(count) + 0.5))
    corners = np.stack([inner + np.roll(outward, 1, 0), inner, inner + outward], 1).reshape(-1, 2)
    return of_unit_area(corners, count * np.sin(turn / 2) * (2 + np.cos(turn / 2)))


SHAPES = (
    regular(4, np.pi / 4),
    regular(3, np.pi / 2),
    star(CORNERS, np.pi / 4),
    spokes(CORNERS, np.pi / 4),
)
"""Around the origin and of area 1, by class."""


def polygon(values: Float64s) -> Float64s:
    """The corners (n, 2) of a shape, as shares of the image: x from the left, y from below."""
    x, y, scale, angle, shape = values
    turn = 2 * np.pi * angle / ANGLES
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    corners: Float64s = scale * SHAPES[int(shape)] @ rotation + (x, y)
    return corners


def picture(values: Float64s, size: int) -> Uint8s:
    """The image (size, size, 1) of the values of the factors (5,)."""
    numbers = np.asarray(values, np.float64)
    if numbers.shape != (len(FACTORS),) or not np.isfinite(numbers).all():
        raise Impossible(f"scene values {numbers.tolist()}: give {len(FACTORS)} finite numbers")
    canvas = Image.new("L", (ANTI_ALIASING * size,) * 2)
    corners = polygon(numbers) * canvas.width
    ImageDraw.Draw(canvas).polygon([(float(x), float(y)) for x, y in corners], fill=255)
    small = canvas.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(small, np.uint8)[::-1, :, None].copy()  # y is counted from below


WORLD = World("natural-sprites", FACTORS, picture, size=SIDE)
