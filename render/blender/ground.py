"""The bare ground under a light that stands still: in every image the same, but for the ground's colour.

Light falls on it directly alone, and what it sends to the camera is linear in its colour: black + colour * (white -
black). Both are smooth, so that a small render of each, without its noise, says them for images of any size.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from ident.render.aliases import Float32s, Float64s
from ident.render.worlds.threedident import Triple

GRID = 64
"""Pixels along a side of the small renders."""

DEGREE = 12
"""Of the polynomials along each side of an image: of more, they would follow the noise."""


class Ground:
    """What black and white ground send to the camera under one light, each an image (GRID, GRID) of one channel."""

    def __init__(self, black: Float32s, white: Float32s, *, size: int) -> None:
        self._black, self._white = (enlarged(image, size).astype(np.float32)[..., None] for image in (black, white))

    def under(self, color: Triple) -> Float32s:
        """What ground of a colour sends, (H, W, 3)."""
        return np.asarray(self._black + np.asarray(color, np.float32) * (self._white - self._black))


def enlarged(image: Float32s, size: int) -> Float64s:
    """The polynomial of two variables that fits an image (GRID, GRID) best, at the pixels of (size, size)."""
    fit = np.linalg.pinv(_polynomials(GRID))
    coefficients = np.einsum("ai,ij,bj->ab", fit, image.astype(np.float64), fit)
    at = _polynomials(size)
    return np.asarray(np.einsum("ia,ab,jb->ij", at, coefficients, at, optimize=["einsum_path", (0, 1), (0, 1)]))


def _polynomials(size: int) -> Float64s:
    """Those up to DEGREE at the centres of so many pixels, (size, DEGREE + 1)."""
    return np.asarray(chebvander((2 * np.arange(size) + 1) / size - 1, DEGREE))  # type: ignore[no-untyped-call]
