"""Newell's teapot as a mesh: bicubic Bezier patches on a uniform grid, welded where they meet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

import numpy as np

from ident.render.aliases import Float64s

CELLS = 10
"""Cells along each side of a patch: the published images have the silhouettes of exactly this mesh."""

# From Newell's space to the object's: scale, turn about z, shift along z.
SCALE = 0.634686
TURN = np.deg2rad(-45)
SHIFT = -0.906694


@dataclass(frozen=True)
class Mesh:
    """Vertices, and faces as tuples of three or four vertex numbers, counter-clockwise as seen from outside."""

    vertices: Float64s  # (vertex, 3)
    faces: tuple[tuple[int, ...], ...]


def control_points() -> Float64s:
    """The control points in object space, (patch, 4, 4, 3)."""
    data = json.loads(resources.files(__package__).joinpath("newell_teapot.json").read_text())
    points = np.asarray(data["control_points"], dtype=np.float64)
    turn = np.array([[np.cos(TURN), -np.sin(TURN), 0], [np.sin(TURN), np.cos(TURN), 0], [0, 0, 1]])
    points = points @ (SCALE * turn).T + [0, 0, SHIFT]
    patches = np.asarray(data["patches"]) - 1
    return np.asarray(points[patches].reshape(-1, 4, 4, 3), dtype=np.float64)


def surface(patches: Float64s, t: Float64s) -> Float64s:
    """Points of every patch on the grid t x t, (patch, t, t, 3)."""
    s = 1 - t
    bernstein = np.stack([s**3, 3 * t * s**2, 3 * t**2 * s, t**3], axis=1)
    return np.asarray(np.einsum("ui,vj,pijk->puvk", bernstein, bernstein, patches))


def build(cells: int = CELLS) -> Mesh:
    """The teapot in object space."""
    points = surface(control_points(), np.linspace(0, 1, cells + 1))
    grid = np.arange(points[..., 0].size).reshape(points.shape[:3])
    # Newell's patches have du x dv pointing inwards, so the quads run along v first.
    quads = np.stack([grid[:, :-1, :-1], grid[:, :-1, 1:], grid[:, 1:, 1:], grid[:, 1:, :-1]], axis=-1).reshape(-1, 4)

    points = points.reshape(-1, 3)
    _, first, weld = np.unique(points.round(6), axis=0, return_index=True, return_inverse=True)
    # Where a side of a patch shrinks to a point (lid, bottom), two corners of a quad are one: a triangle.
    faces = (tuple(dict.fromkeys(quad)) for quad in weld[quads].tolist())
    return Mesh(points[first], tuple(faces))
