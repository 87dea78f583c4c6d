"""Places, angles and colours against what is known of the published boxes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from ident.render.blender import boxes
from ident.render.blender.boxes import Window
from ident.render.worlds.threedident import place

angles = st.floats(-math.pi / 2, math.pi / 2)


@given(alpha=angles, beta=angles, gamma=angles)
def test_rotations_against_scipy(alpha: float, beta: float, gamma: float) -> None:
    expected = Rotation.from_euler("xyz", [alpha, beta, gamma]).as_matrix()
    assert np.allclose(boxes.rotation((alpha, beta, gamma)), expected)


CAMERA = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])  # looks down, sees [-1, 1] squared


def test_windows_hold_the_points_and_the_filter_and_end_at_the_image() -> None:
    square = np.array([[-0.5, -0.5, 0], [0.5, 0.5, 0]])
    assert boxes.window_of(square, CAMERA, 100) == Window(23, 23, 77, 77)
    assert boxes.window_of(square + np.array([0.5, 0.25, 0]), CAMERA, 100) == Window(48, 10, 100, 65)
    assert boxes.window_of(square + np.array([5, 0, 0]), CAMERA, 100) is None


def test_the_rim_of_a_spotlight_that_shines_straight_down() -> None:
    down = replace(place([0] * 10), object_location=(1, 2, 0), spotlight_location=(1, 2, 10))
    rim = boxes.spotlight_rim(down, half_angle=math.radians(20), radius=0.5)
    assert np.allclose(rim[:, 2], -4.4421)
    fall = 14.4421 + 0.5 / math.sin(math.radians(20))
    radii = np.hypot(*(rim[:, :2] - [1, 2]).T)
    assert np.allclose(radii, fall * math.tan(math.radians(20)) / math.cos(math.pi / 32))


def test_points_behind_the_camera_may_be_anywhere() -> None:
    perspective = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, -1, 0]])  # at the origin, looks along -z
    ahead = np.array([[0.0, 0, -2], [0.5, 0.5, -2]])
    assert boxes.window_of(ahead, perspective, 100) == Window(48, 35, 65, 52)
    assert boxes.window_of(np.concatenate([ahead, [[0, 0, 1]]]), perspective, 100) == Window(0, 0, 100, 100)


def test_shadows_end_where_lines_from_the_light_meet_the_ground() -> None:
    points = np.array([[1.0, 2, 0], [0, 0, 3]])
    lamp = np.array([[0, 0, 7.0, 1], [1, 0, 7, 1]])
    shadows = boxes.shadow(points, lamp)
    assert shadows is not None
    assert np.allclose(shadows[:, 2], -4.4421)
    reach = (7 + 4.4421) / 7
    assert np.allclose(shadows[0, :2], [reach, 2 * reach])
    assert np.allclose(shadows[1, :2], [1, 2 * reach])
    assert np.allclose(shadows[2, :2], [0, 0])
    assert boxes.shadow(np.array([[0, 0, 6.97]]), lamp) is None
    assert boxes.shadow(np.array([[0, 0, 8.0]]), lamp) is None


def test_the_shadow_of_a_sun_straight_above_is_a_disc() -> None:
    ends = boxes.shadow(np.array([[1.0, 2, 0]]), boxes.sun_directions(half_angle=0.1))
    assert ends is not None
    assert np.allclose(np.hypot(*(ends[:, :2] - [1, 2]).T), 4.4421 * math.tan(0.1) / math.cos(math.pi / 8))
