"""From scene values to what Blender is told: places, angles and linear colours. Pure; knows no Blender."""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ident.render.aliases import Float64s
from ident.render.errors import Impossible

Triple = tuple[float, float, float]

RISE = 4.4421  # the ground lies this far below the origin; heights above it are measured from there
SPOTLIGHT_RADIUS = 4.0
SPOTLIGHT_HEIGHT = 6.0
FILTER_REACH = 2  # pixels
LEAST_FALL = 0.05  # metres that a line of light falls, or it ends too far away for its shadow to be bounded


@dataclass(frozen=True)
class Scene:
    """One image's scene: all that the ten latents decide. Lengths in metres, angles in radians, colours linear."""

    object_location: Triple
    object_rotation: Triple  # Euler angles, order XYZ
    object_color: Triple
    ground_color: Triple
    spotlight_location: Triple
    spotlight_color: Triple


class Box(NamedTuple):
    """A rectangle of pixels, rows top down: columns left to right - 1, rows top to bottom - 1."""

    left: int
    top: int
    right: int
    bottom: int


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


def rotation(angles: Triple) -> Float64s:
    """The matrix (3, 3) of Euler angles in the order XYZ: about x first."""
    (ca, sa), (cb, sb), (cg, sg) = ((math.cos(a), math.sin(a)) for a in angles)
    about_x = np.array([[1, 0, 0], [0, ca, -sa], [0, sa, ca]])
    about_y = np.array([[cb, 0, sb], [0, 1, 0], [-sb, 0, cb]])
    about_z = np.array([[cg, -sg, 0], [sg, cg, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def pixel_box(world: Float64s, camera: Float64s, size: int) -> Box | None:
    """The pixels that points of the world (n, 3) and all between them can touch; None if they are out of the image.

    Where some lie behind the camera, that is the whole image. `camera` (4, 4) takes the world to the clip space of a
    square image.
    """
    clip = world @ camera[:, :3].T + camera[:, 3]
    if clip[:, 3].min() <= 0:  # behind the camera: it may be anywhere in the image
        return Box(0, 0, size, size)
    across, up = (clip[:, :2] / clip[:, 3:]).T
    left, right = size * (across.min() + 1) / 2 - FILTER_REACH, size * (across.max() + 1) / 2 + FILTER_REACH
    top, bottom = size * (1 - up.max()) / 2 - FILTER_REACH, size * (1 - up.min()) / 2 + FILTER_REACH
    edges = math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)
    box = Box(*(min(max(edge, 0), size) for edge in edges))
    return box if box.left < box.right and box.top < box.bottom else None


def object_points(scene: Scene, vertices: Float64s) -> Float64s:
    """The object's vertices (n, 3), turned and moved."""
    return np.asarray(vertices @ rotation(scene.object_rotation).T + scene.object_location)


def spotlight_rim(scene: Scene, half_angle: float, radius: float) -> Float64s:
    """Points (32, 3) on the ground around all that the spotlight, a ball of a radius, can light there.

    Rays within the half angle from any point of the ball stay in the cone that touches it, whose apex lies behind it.
    """
    spotlight = np.array(scene.spotlight_location, dtype=np.float64)
    axis = scene.object_location - spotlight
    axis /= np.linalg.norm(axis)
    apex = spotlight - axis * radius / math.sin(half_angle)
    side = np.cross(axis, [1.0, 0.0, 0.0])
    side /= np.linalg.norm(side)
    turn = np.linspace(0, 2 * math.pi, 32, endpoint=False)[:, None]
    # The polygon of 32 rays is widened by 1 / cos(pi / 32), so that it holds the circle.
    reach = math.tan(half_angle) / math.cos(math.pi / 32)
    rays = axis + reach * (np.cos(turn) * side + np.sin(turn) * np.cross(axis, side))
    return np.asarray(apex + rays * ((-RISE - apex[2]) / rays[:, 2:]))


def shadow(points: Float64s, light: Float64s) -> Float64s | None:
    """Where on the ground lines from a light through points (n, 3) end; None where a point is not below the light.

    The light (m, 4) is a set of points (x, y, z, 1), or of directions to points far away (x, y, z, 0), whose convex
    hull it is; so the hull of the result, (n * m, 3), is the hull of the shadow.
    """
    far = light[:, 3:] * points[:, None] - light[:, :3]  # (n, m, 3), away from the light
    if (far[..., 2] >= -LEAST_FALL).any():
        return None
    reach = (-RISE - points[:, None, 2:]) / far[..., 2:]
    return np.asarray((points[:, None] + reach * far).reshape(-1, 3))


def sun_directions(half_angle: float) -> Float64s:
    """Directions (8, 4) around all that a sun along the z axis shines from, whose disc has this half angle."""
    turn = np.linspace(0, 2 * math.pi, 8, endpoint=False)
    reach = math.tan(half_angle) / math.cos(math.pi / 8)  # so that the octagon holds the circle
    return np.stack([reach * np.cos(turn), reach * np.sin(turn), np.ones(8), np.zeros(8)], axis=1)
