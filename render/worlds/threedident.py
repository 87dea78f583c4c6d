"""3DIdent: a teapot on coloured ground under a coloured spotlight. Its ten factors, and the scene that they make."""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ident.render.errors import Impossible
from ident.render.worlds.factors import Factor, Interval
from ident.render.worlds.world import World

Triple = tuple[float, float, float]

UNIT = Interval(-1, 1)
QUARTER = math.pi / 2
FACTORS = (
    Factor("x", UNIT, "object position, towards the camera", "m", 3.0),
    Factor("y", UNIT, "object position, to the right", "m", 3.0),
    Factor("z", UNIT, "object position, upwards", "m", 3.0),
    Factor("alpha", UNIT, "object rotation about x", "rad", QUARTER),
    Factor("beta", UNIT, "object rotation about y", "rad", QUARTER),
    Factor("gamma", UNIT, "object rotation about z", "rad", QUARTER),
    Factor("spotlight angle", UNIT, "where on its circle the spotlight stands", "rad", QUARTER),
    Factor("object hue", UNIT, "hue of the object", "rad", QUARTER),
    Factor("spotlight hue", UNIT, "hue of the spotlight", "rad", QUARTER),
    Factor("background hue", UNIT, "hue of the ground", "rad", QUARTER),
)

RISE = 4.4421  # the ground lies this far below the origin; heights above it are measured from there
SPOTLIGHT_RADIUS = 4.0
SPOTLIGHT_HEIGHT = 6.0


@dataclass(frozen=True)
class Scene:
    """One image's scene: all that the factors decide. Lengths in metres, angles in radians, colours linear."""

    object_location: Triple
    object_rotation: Triple  # Euler angles, order XYZ
    object_color: Triple
    ground_color: Triple
    spotlight_location: Triple
    spotlight_color: Triple


def hue_color(hue: float, saturation: float) -> Triple:
    """The linear colour of a hue in radians.

    The published data convert hue / (2 pi) without wrapping it into [0, 1): below zero the conversion cuts the
    sixth of the colour circle towards zero and extrapolates, Blender lifts negative parts to zero, and parts above
    one stay. A hue of -0.9 is therefore a pure red, not a magenta.
    """
    red, green, blue = colorsys.hsv_to_rgb(hue / (2 * math.pi), saturation, 1.0)
    return max(red, 0.0), max(green, 0.0), max(blue, 0.0)


def place(values: npt.ArrayLike) -> Scene:
    """The scene of ten scene values."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (10,) or not np.isfinite(values).all():
        raise Impossible(f"scene values {values.tolist()}: give ten finite numbers")
    x, y, z, alpha, beta, gamma, angle, object_hue, spotlight_hue, ground_hue = values.tolist()
    return Scene(
        object_location=(x, y, z + RISE / 2),
        object_rotation=(alpha, beta, gamma),
        object_color=hue_color(object_hue, 1.0),
        ground_color=hue_color(ground_hue, 0.6),
        spotlight_location=(
            SPOTLIGHT_RADIUS * math.sin(angle),
            SPOTLIGHT_RADIUS * math.cos(angle),
            SPOTLIGHT_HEIGHT + RISE,
        ),
        spotlight_color=hue_color(spotlight_hue, 0.8),
    )


WORLD = World(
    "3dident",
    FACTORS,
    scene=place,
    engine="blender",
    size=224,
    stream="",  # its draws are older than other worlds
)
