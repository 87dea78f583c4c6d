"""The mesh against the published mesh's numbers and an independent evaluation of the patches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from ident.blend_assets import teapot


def test_the_numbers_of_the_published_mesh() -> None:
    mesh = teapot.build()
    assert mesh.vertices.min(axis=0) == pytest.approx([-1.40211, -1.55930, -0.90669], abs=1e-5)
    assert mesh.vertices.max(axis=0) == pytest.approx([1.55930, 1.40211, 1.09257], abs=1e-5)
    assert 1.5 * np.ptp(mesh.vertices, axis=0).max() == pytest.approx(4.4421, abs=5e-5)
    assert (len(mesh.vertices), len(mesh.faces)) == (3241, 3200)
    assert Counter(map(len, mesh.faces)) == {4: 3120, 3: 80}


def de_casteljau(points: npt.NDArray[np.float64], t: float) -> npt.NDArray[np.float64]:
    while len(points) > 1:
        points = (1 - t) * points[:-1] + t * points[1:]
    return np.asarray(points[0])


def test_patches_against_de_casteljau() -> None:
    patches, t = teapot.control_points(), np.array([0, 0.3, 0.5, 1])
    points = teapot.surface(patches, t)
    for p in (0, 13, 31):
        for i, u in enumerate(t):
            for j, v in enumerate(t):
                expected = de_casteljau(np.stack([de_casteljau(row, v) for row in patches[p]]), u)
                assert np.allclose(points[p, i, j], expected)


def test_no_two_vertices_in_one_place() -> None:
    vertices = teapot.build().vertices
    assert len(np.unique(vertices.round(5), axis=0)) == len(vertices)


def test_faces_turn_outwards() -> None:
    """Neighbours run along a shared edge in opposite directions, and the body's faces look away from its axis."""
    mesh = teapot.build()
    edges = Counter((a, b) for face in mesh.faces for a, b in zip(face, face[1:] + face[:1], strict=True))
    assert max(edges.values()) == 1
    body = np.array(mesh.faces[400:1200])  # patches 4 to 11
    a, b, c, _ = mesh.vertices[body].transpose(1, 0, 2)
    assert (np.sum(np.cross(b - a, c - a)[:, :2] * a[:, :2], axis=1) > 0).all()
