"""The denoiser: what it keeps, what it takes away."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from ident.render.blender.denoise import Denoiser, restore


def ramp(size: int = 96) -> npt.NDArray[np.float32]:
    """A smooth image with one hard edge."""
    x = np.linspace(0.1, 0.9, size, dtype=np.float32)
    image = np.stack([np.tile(x, (size, 1)), np.tile(x[:, None], (1, size)), np.full((size, size), 0.5)], axis=2)
    image[size // 3 : size // 2, size // 3 : size // 2] = (0.9, 0.1, 0.2)
    return np.asarray(image, np.float32)


def test_noise_goes_and_the_image_stays() -> None:
    clean = ramp()
    noisy = (clean * np.random.default_rng(0).gamma(4, 0.25, clean.shape)).astype(np.float32)
    denoised = Denoiser(96, 96)(noisy)
    assert np.mean((denoised - clean) ** 2) < 0.05 * np.mean((noisy - clean) ** 2)
    assert denoised.mean() == pytest.approx(noisy.mean(), rel=0.01)


def test_the_same_image_comes_out_the_same_whatever_came_before() -> None:
    denoise, noisy = Denoiser(64, 64), np.random.default_rng(1).random((64, 64, 3), np.float32)
    first = denoise(noisy)
    denoise(noisy[::-1].copy())
    assert np.array_equal(denoise(noisy), first)
    assert np.array_equal(Denoiser(64, 64)(noisy), first)


def test_restore_gives_back_a_lost_tenth_and_leaves_the_rest() -> None:
    clean = ramp()
    assert np.allclose(restore(0.9 * clean, clean), clean, rtol=1e-5)
    assert np.allclose(restore(clean, clean), clean, rtol=1e-5)
    assert np.array_equal(restore(np.zeros_like(clean), clean), np.zeros_like(clean))
