"""Walking figures: silhouettes drawn by rule, where recorded pedestrians cannot be had. Nobody's data, and no paper's.

A figure has a head, a body, two arms and two legs that swing. What varies is where its centre of mass lies, how many
pixels it has, and the phase of its step, which nobody is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ident.render.aliases import Float64s, Uint8s
from ident.render.errors import Impossible
from ident.render.worlds.factors import Circle, Factor, Interval
from ident.render.worlds.world import World

SIDE = 64
SWING = 0.55
"""Radians that a leg swings to either side."""

FACTORS = (
    Factor("y", Interval(0, 1), "middle of the figure, from the top"),
    Factor("x", Interval(0, 1), "middle of the figure, from the left"),
    Factor("height", Interval(0.1, 0.8), "of the figure, as a share of the image"),
    Factor("phase", Circle(0, 1), "of the step", "rad", 2 * np.pi),
)

Mask = npt.NDArray[np.bool_]


def limbs(phase: float) -> Iterator[tuple[float, float, float, float, float]]:
    """Of a figure of height 1 around its middle: strokes from (x, y) to (x, y), and their half widths."""
    swing = SWING * np.sin(phase)
    yield 0.0, -0.42, 0.0, -0.40, 0.08  # head
    yield 0.0, -0.27, 0.0, 0.02, 0.095  # body
    for side in (-1, 1):
        yield 0.0, 0.05, side * 0.42 * np.sin(swing), 0.05 + 0.40 * np.cos(swing), 0.05  # leg
        yield 0.0, -0.24, -side * 0.30 * np.sin(swing), -0.24 + 0.30 * np.cos(swing), 0.035  # arm


def mask(values: Float64s, size: int) -> Mask:
    """Which pixels (size, size) a figure covers: those whose centres it has."""
    numbers = np.asarray(values, np.float64)
    if numbers.shape != (len(FACTORS),) or not np.isfinite(numbers).all():
        raise Impossible(f"scene values {numbers.tolist()}: give {len(FACTORS)} finite numbers")
    y, x, height, phase = numbers
    places = (np.arange(size) + 0.5) / size
    across, down = (places[None, :] - x) / height, (places[:, None] - y) / height
    covered = np.zeros((size, size), bool)
    for x0, y0, x1, y1, half in limbs(phase):
        length = (x1 - x0) ** 2 + (y1 - y0) ** 2
        along = np.clip(((across - x0) * (x1 - x0) + (down - y0) * (y1 - y0)) / length, 0, 1)
        covered |= (across - x0 - along * (x1 - x0)) ** 2 + (down - y0 - along * (y1 - y0)) ** 2 <= half**2
    return covered


def picture(values: Float64s, size: int) -> Uint8s:
    """The image (size, size, 1) of the values of the factors (4,)."""
    return mask(values, size)[:, :, None].view(np.uint8) * np.uint8(255)


WORLD = World("walkers", FACTORS, picture, size=SIDE)
