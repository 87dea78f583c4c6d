"""Places and colours against what is known of the published scene."""

from __future__ import annotations

import colorsys
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident.render.errors import Impossible
from ident.render.worlds.threedident import hue_color, place


def test_the_scene_of_the_zero_latent() -> None:
    expected = {
        "object_location": (0, 0, 2.22105),
        "object_rotation": (0, 0, 0),
        "object_color": (1, 0, 0),
        "ground_color": (1, 0.4, 0.4),
        "spotlight_location": (0, 4, 10.4421),
        "spotlight_color": (1, 0.2, 0.2),
    }
    assert asdict(place(np.zeros(10))) == {name: pytest.approx(value) for name, value in expected.items()}


def test_every_value_reaches_its_place() -> None:
    placed = place([1, 2, 3, 0.1, 0.2, 0.3, math.pi / 6, 0, 0, 0])
    assert placed.object_location == pytest.approx((1, 2, 5.22105))
    assert placed.object_rotation == (0.1, 0.2, 0.3)
    assert placed.spotlight_location == pytest.approx((2, 4 * math.sqrt(0.75), 10.4421))


@given(hue=st.floats(0, math.pi / 2), saturation=st.floats(0, 1))
def test_hues_above_zero_are_plain_hsv(hue: float, saturation: float) -> None:
    assert hue_color(hue, saturation) == pytest.approx(colorsys.hsv_to_rgb(hue / (2 * math.pi), saturation, 1))


@given(hue=st.floats(-math.pi / 2, -1e-9), saturation=st.floats(0.01, 1))
def test_hues_below_zero_extrapolate_the_sixth_above_them(hue: float, saturation: float) -> None:
    sixths = hue / (2 * math.pi) * 6  # in [-1.5, 0)
    if sixths > -1:  # red to yellow, continued backwards: green falls below the grey part
        expected = (1, 1 - saturation * (1 - sixths), 1 - saturation)
    else:  # magenta to red, continued backwards: blue rises above one
        expected = (1, 1 - saturation, 1 - saturation * (sixths + 1))
    assert hue_color(hue, saturation) == pytest.approx([max(part, 0) for part in expected])


@pytest.mark.parametrize("values", [[0] * 9, [0] * 11, [[0] * 10], [0] * 9 + [np.nan]])
def test_values_that_make_no_scene(values: list[float]) -> None:
    with pytest.raises(Impossible, match="give ten finite numbers"):
        place(values)
