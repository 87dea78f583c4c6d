"""The bare ground: smooth functions are kept, noise is not, and its colour is a factor."""

from __future__ import annotations

import numpy as np
import pytest

from ident.render.blender.ground import GRID, Ground, enlarged


def smooth(size: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A highlight on a slope, at the centres of pixels."""
    x = (2 * np.arange(size) + 1) / size - 1
    return np.asarray(0.1 + 0.02 * x[:, None] + 0.05 * np.exp(-(x[:, None] ** 2) - (x - 0.3) ** 2), np.float32)


@pytest.mark.parametrize("size", [16, 64, 224, 1000])
def test_smooth_images_are_the_same_at_any_size(size: int) -> None:
    assert np.allclose(enlarged(smooth(GRID), size), smooth(size), atol=2e-6)


def test_noise_is_left_behind() -> None:
    noise = np.random.default_rng(0).normal(0, 1e-3, (GRID, GRID)).astype(np.float32)
    left = enlarged(smooth(GRID) + noise, 224) - smooth(224)
    assert np.sqrt(np.mean(left**2)) < 0.25e-3


def test_ground_of_a_colour_lies_between_black_and_white() -> None:
    black, white = 0.1 * smooth(GRID), smooth(GRID)
    ground = Ground(black, white, size=32)
    assert np.allclose(ground.under((0, 1, 0.25)), np.stack([0.1 * smooth(32), smooth(32), 0.325 * smooth(32)], -1))
