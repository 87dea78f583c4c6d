"""Which pixels of an image an exposure must render: those that its light, the object or its shadow can touch. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ident.render.aliases import Float64s
from ident.render.blender.settings import SPOT, Exposure
from ident.render.worlds.threedident import RISE, Scene, Triple

FILTER_REACH = 2  # pixels
LEAST_FALL = 0.05  # metres that a line of light falls, or it ends too far away for its shadow to be bounded


class Window(NamedTuple):
    """A rectangle of pixels, rows top down: columns left to right - 1, rows top to bottom - 1."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def area(self) -> int:
        """How many pixels it has."""
        return (self.right - self.left) * (self.bottom - self.top)


def rotation(angles: Triple) -> Float64s:
    """The matrix (3, 3) of Euler angles in the order XYZ: about x first."""
    (ca, sa), (cb, sb), (cg, sg) = ((math.cos(a), math.sin(a)) for a in angles)
    about_x = np.array([[1, 0, 0], [0, ca, -sa], [0, sa, ca]])
    about_y = np.array([[cb, 0, sb], [0, 1, 0], [-sb, 0, cb]])
    about_z = np.array([[cg, -sg, 0], [sg, cg, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def window_of(world: Float64s, camera: Float64s, size: int) -> Window | None:
    """The pixels that points of the world (n, 3) and all between them can touch; None if they are out of the image.

    Where some lie behind the camera, that is the whole image. `camera` (4, 4) takes the world to the clip space of a
    square image.
    """
    clip = world @ camera[:, :3].T + camera[:, 3]
    if clip[:, 3].min() <= 0:  # behind the camera: it may be anywhere in the image
        return Window(0, 0, size, size)
    across, up = (clip[:, :2] / clip[:, 3:]).T
    left, right = size * (across.min() + 1) / 2 - FILTER_REACH, size * (across.max() + 1) / 2 + FILTER_REACH
    top, bottom = size * (1 - up.max()) / 2 - FILTER_REACH, size * (1 - up.min()) / 2 + FILTER_REACH
    edges = math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)
    window = Window(*(min(max(edge, 0), size) for edge in edges))
    return window if window.left < window.right and window.top < window.bottom else None


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


Parts = tuple[tuple[Window | None, int], ...]
"""The windows of an exposure, and the samples a pixel of each."""

RENDER = 3500
"""How many samples take as long as what a render costs beside them."""


def work(parts: Parts) -> int:
    """What parts cost, in samples."""
    return sum(RENDER + samples * window.area for window, samples in parts if window and samples)


@dataclass(frozen=True)
class Setup:
    """What of a scene file decides which pixels are touched: the camera, the object's shape, and the lights'."""

    size: int
    camera: Float64s
    vertices: Float64s
    hull: Float64s
    """The vertices of the object's convex hull."""
    lights: Mapping[str, Float64s]
    """Of each light that stands still, the hull, as `shadow` takes it."""
    half_angle: float
    """Of the spotlight's cone."""
    radius: float
    """Of the spotlight itself."""

    @property
    def whole(self) -> Window:
        """The whole image."""
        return Window(0, 0, self.size, self.size)

    def lit(self, exposure: Exposure, scene: Scene) -> Parts:
        """All that the lights shine on, and the object once more."""
        points = object_points(scene, self.vertices)
        lit: Window | None = self.whole
        if exposure.lights == (SPOT,):  # beyond its cone the image is black
            lit = self._window(np.concatenate([points, self._rim(scene)]))
        return (lit, exposure.samples), (self._window(points), exposure.object_samples)

    def changed(self, exposure: Exposure, scene: Scene) -> Parts:
        """What the light does not send to the camera from the bare ground: the object, and its shadow or the cone.

        Both in one window, where that takes less time.
        """
        points = object_points(scene, self.hull)
        (light,) = exposure.lights
        on_ground = self._rim(scene) if light == SPOT else shadow(points, self.lights[light])
        around_object = self._window(points)
        if on_ground is None:
            return (self.whole, exposure.samples), (around_object, exposure.object_samples)
        apart = (self._window(on_ground), exposure.samples), (around_object, exposure.object_samples)
        both = self._window(np.concatenate([points, on_ground]))
        together = ((both, max(exposure.samples, exposure.object_samples)),)
        return min(apart, together, key=work)

    def _window(self, points: Float64s) -> Window | None:
        return window_of(points, self.camera, self.size)

    def _rim(self, scene: Scene) -> Float64s:
        return spotlight_rim(scene, self.half_angle, self.radius)
