"""dSprites by rule, against published images and a slow oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.path import Path as Outline

from ident.render.aliases import Array
from ident.render.errors import Impossible
from ident.render.worlds import dsprites, load

PUBLISHED = Path(__file__).with_name("dsprites.npz")
"""The 25 images that the published dataset's own notebook shows, and the classes that they were found to have."""


def test_the_published_images_to_the_pixel() -> None:
    with np.load(PUBLISHED) as published:
        frames, classes = np.unpackbits(published["frames"], axis=2), published["classes"]
    assert len(frames) == 25
    assert np.bincount(classes[:, 0]).tolist() == [9, 8, 8]
    assert np.array_equal(dsprites.draw(classes) > 0, frames > 0)


def test_a_slow_oracle_draws_the_same() -> None:
    curve = np.linspace(0, 2 * np.pi, 4000, endpoint=False)
    heart = np.stack(
        [
            0.5994 * 16 * np.sin(curve) ** 3,
            -0.6611 * (13 * np.cos(curve) - 5 * np.cos(2 * curve) - 2 * np.cos(3 * curve) - np.cos(4 * curve)) - 1.435,
        ],
        1,
    )
    turn = 12.76 * np.cos(curve), 7.22 * np.sin(curve)
    square = 9.605 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    outlines = square, np.stack(turn, 1), heart
    across, down = np.meshgrid(np.arange(64) + 0.5, np.arange(64) + 0.5)
    points = np.stack([across.ravel(), down.ravel()], 1)
    classes = dsprites.classes_of(np.random.default_rng(0).integers(dsprites.COUNT, size=60))
    wrong = 0
    for (shape, scale, angle, x, y), image in zip(classes.tolist(), dsprites.draw(classes), strict=True):
        turned = 2 * np.pi * angle / 39
        rotation = np.array([[np.cos(turned), np.sin(turned)], [-np.sin(turned), np.cos(turned)]])
        corners = (0.5 + 0.1 * scale) * outlines[shape] @ rotation + (16 + 32 * x / 31, 16 + 32 * y / 31)
        wrong += int((Outline(corners).contains_points(points).reshape(64, 64) != (image > 0)).sum())
    assert wrong <= 2  # the oracle's outlines are polygons


def test_order_and_sizes_are_the_published_ones() -> None:
    assert dsprites.COUNT == 737_280
    assert dsprites.classes_of(np.array([0, 1, 32, 1024, 40 * 1024, 737_279])).tolist() == [
        [0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [2, 5, 39, 31, 31],
    ]  # fmt: skip


def test_the_last_orientation_is_the_first() -> None:
    classes = np.array([[2, 5, 0, 9, 9], [2, 5, 39, 9, 9]])
    first, last = dsprites.draw(classes)
    assert np.array_equal(first, last)


def test_smaller_images_show_the_same() -> None:
    classes = dsprites.classes_of(np.arange(0, dsprites.COUNT, 30_011))
    large, small = dsprites.draw(classes) > 0, dsprites.draw(classes, 16) > 0
    assert np.allclose(small.mean((1, 2)), large.mean((1, 2)), atol=0.02)


def test_as_a_world_that_can_be_rendered() -> None:
    world = load("dsprites")
    raw = world.draw(seed=3, split="test", start=5, n=20)
    engine = world.settings(size=32).start(world)
    images = np.stack([engine.image(world.scene_of(one)) for one in raw])
    assert np.array_equal(images[..., 0], dsprites.draw(raw.astype(np.int64), 32))


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (np.array([[0, 0, 40, 0, 0]]), "row 0, orientation is 40; give 0 to 39"),
        (np.array([[0, 0, 0, 0, -1]]), "row 0, y is -1; give 0 to 31"),
        (np.zeros((1, 6), int), r"classes int64 \(1, 6\)"),
        (np.zeros((1, 5)), "classes float64"),
    ],
)
def test_classes_that_there_are_not(classes: Array, said: str) -> None:
    with pytest.raises(Impossible, match=said):
        dsprites.draw(classes)
