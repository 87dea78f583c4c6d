"""Places, angles and colours against what is known of the published scene."""

from __future__ import annotations

import colorsys
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from ident.render.errors import Impossible
from ident.render.worlds import scene
from ident.render.worlds.scene import Box

angles = st.floats(-math.pi / 2, math.pi / 2)


def test_the_scene_of_the_zero_latent() -> None:
    expected = {
        "object_location": (0, 0, 2.22105),
        "object_rotation": (0, 0, 0),
        "object_color": (1, 0, 0),
        "ground_color": (1, 0.4, 0.4),
        "spotlight_location": (0, 4, 10.4421),
        "spotlight_color": (1, 0.2, 0.2),
    }
    assert asdict(scene.place(np.zeros(10))) == {name: pytest.approx(value) for name, value in expected.items()}


def test_every_value_reaches_its_place() -> None:
    placed = scene.place([1, 2, 3, 0.1, 0.2, 0.3, math.pi / 6, 0, 0, 0])
    assert placed.object_location == pytest.approx((1, 2, 5.22105))
    assert placed.object_rotation == (0.1, 0.2, 0.3)
    assert placed.spotlight_location == pytest.approx((2, 4 * math.sqrt(0.75), 10.4421))


@given(hue=st.floats(0, math.pi / 2), saturation=st.floats(0, 1))
def test_hues_above_zero_are_plain_hsv(hue: float, saturation: float) -> None:
    assert scene.hue_color(hue, saturation) == pytest.approx(colorsys.hsv_to_rgb(hue / (2 * math.pi), saturation, 1))


@given(hue=st.floats(-math.pi / 2, -1e-9), saturation=st.floats(0.01, 1))
def test_hues_below_zero_extrapolate_the_sixth_above_them(hue: float, saturation: float) -> None:
    sixths = hue / (2 * math.pi) * 6  # in [-1.5, 0)
    if sixths > -1:  # red to yellow, continued backwards: green falls below the grey part
        expected = (1, 1 - saturation * (1 - sixths), 1 - saturation)
    else:  # magenta to red, continued backwards: blue rises above one
        expected = (1, 1 - saturation, 1 - saturation * (sixths + 1))
    assert scene.hue_color(hue, saturation) == pytest.approx([max(part, 0) for part in expected])


@given(alpha=angles, beta=angles, gamma=angles)
def test_rotations_against_scipy(alpha: float, beta: float, gamma: float) -> None:
    expected = Rotation.from_euler("xyz", [alpha, beta, gamma]).as_matrix()
    assert np.allclose(scene.rotation((alpha, beta, gamma)), expected)


CAMERA = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])  # looks down, sees [-1, 1] squared


def test_boxes_hold_the_points_and_the_filter_and_end_at_the_image() -> None:
    square = np.array([[-0.5, -0.5, 0], [0.5, 0.5, 0]])
    assert scene.pixel_box(square, CAMERA, 100) == Box(23, 23, 77, 77)
    assert scene.pixel_box(square + np.array([0.5, 0.25, 0]), CAMERA, 100) == Box(48, 10, 100, 65)
    assert scene.pixel_box(square + np.array([5, 0, 0]), CAMERA, 100) is None


def test_the_rim_of_a_spotlight_that_shines_straight_down() -> None:
    down = replace(scene.place([0] * 10), object_location=(1, 2, 0), spotlight_location=(1, 2, 10))
    rim = scene.spotlight_rim(down, half_angle=math.radians(20), radius=0.5)
    assert np.allclose(rim[:, 2], -4.4421)
    fall = 14.4421 + 0.5 / math.sin(math.radians(20))
    radii = np.hypot(*(rim[:, :2] - [1, 2]).T)
    assert np.allclose(radii, fall * math.tan(math.radians(20)) / math.cos(math.pi / 32))


def test_points_behind_the_camera_may_be_anywhere() -> None:
    perspective = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, -1, 0]])  # at the origin, looks along -z
    ahead = np.array([[0.0, 0, -2], [0.5, 0.5, -2]])
    assert scene.pixel_box(ahead, perspective, 100) == Box(48, 35, 65, 52)
    assert scene.pixel_box(np.concatenate([ahead, [[0, 0, 1]]]), perspective, 100) == Box(0, 0, 100, 100)


def test_shadows_end_where_lines_from_the_light_meet_the_ground() -> None:
    points = np.array([[1.0, 2, 0], [0, 0, 3]])
    lamp = np.array([[0, 0, 7.0, 1], [1, 0, 7, 1]])
    shadows = scene.shadow(points, lamp)
    assert shadows is not None
    assert np.allclose(shadows[:, 2], -4.4421)
    reach = (7 + 4.4421) / 7
    assert np.allclose(shadows[0, :2], [reach, 2 * reach])
    assert np.allclose(shadows[1, :2], [1, 2 * reach])
    assert np.allclose(shadows[2, :2], [0, 0])
    assert scene.shadow(np.array([[0, 0, 6.97]]), lamp) is None
    assert scene.shadow(np.array([[0, 0, 8.0]]), lamp) is None


def test_the_shadow_of_a_sun_straight_above_is_a_disc() -> None:
    ends = scene.shadow(np.array([[1.0, 2, 0]]), scene.sun_directions(half_angle=0.1))
    assert ends is not None
    assert np.allclose(np.hypot(*(ends[:, :2] - [1, 2]).T), 4.4421 * math.tan(0.1) / math.cos(math.pi / 8))


@pytest.mark.parametrize("values", [[0] * 9, [0] * 11, [[0] * 10], [0] * 9 + [np.nan]])
def test_values_that_make_no_scene(values: list[float]) -> None:
    with pytest.raises(Impossible, match="give ten finite numbers"):
        scene.place(values)
