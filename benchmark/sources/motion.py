"""Random motion within ranges, of which the stand-ins of recordings are made."""

from __future__ import annotations

import numpy as np

from ident.render.aliases import Float64s
from ident.render.errors import Impossible

FRAMES, LENGTH = 8_000, 40
"""Frames of a stand-in in all, and frames of each of its sequences."""
TURNS, STANDS, STEP = 0.15, 0.3, 0.02
"""How often a coordinate changes its speed, how often it then stands still, and the scale of speeds, in ranges."""


def check_frames(frames: int) -> int:
    """A number of frames, if it is one."""
    if type(frames) is not int or not 2 * LENGTH <= frames <= 10**6:
        raise Impossible(f"frames {frames!r}: give a whole number from {2 * LENGTH} to 1000000")
    return frames


def smooth(rng: np.random.Generator, length: int, ranges: list[tuple[float, float]]) -> Float64s:
    """Random motion (length, d) within ranges: steps with heavy tails, as tracked objects have, reflected at the ends.

    From frame to frame a coordinate goes on as before, or changes its speed, or stands still.
    """
    low, high = np.array(ranges).T
    wide, count = high - low, len(ranges)
    speed, place, places = rng.laplace(0, STEP, count) * wide, rng.uniform(low, high), list[Float64s]()
    for _ in range(length):
        places.append(place)
        another = rng.laplace(0, STEP, count) * wide * (rng.random(count) >= STANDS)
        speed = np.where(rng.random(count) < TURNS, another, speed)
        place = place + speed
        speed, place = np.where((place < low) | (place > high), -speed, speed), np.clip(place, low, high)
    return np.array(places)
