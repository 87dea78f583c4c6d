"""Natural Sprites, against images that Spriteworld has drawn; and walking figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ident.render.errors import Impossible
from ident.render.worlds import load, natural_sprites, walkers

DRAWN = Path(__file__).with_name("spriteworld.npz")
"""24 images of Spriteworld's own renderer, with the factors that they were asked for."""


def test_spriteworld_draws_the_same() -> None:
    with np.load(DRAWN) as drawn:
        for values, image in zip(drawn["values"], drawn["images"], strict=True):
            assert np.array_equal(natural_sprites.picture(values, 64)[:, :, 0], image)


def test_a_sprite_lies_where_its_factors_say() -> None:
    image = natural_sprites.picture(np.array([0.25, 0.7, 0.2, 0, 0]), 64)[:, :, 0].astype(float)
    across, down = np.meshgrid(np.arange(64) + 0.5, np.arange(64) + 0.5)
    assert (image * across).sum() / image.sum() == pytest.approx(64 * 0.25, abs=0.5)
    assert (image * down).sum() / image.sum() == pytest.approx(64 * 0.3, abs=0.5)  # y is counted from below
    assert image.sum() / 255 == pytest.approx((64 * 0.2) ** 2, rel=0.05)


@pytest.mark.parametrize("name", ["natural-sprites", "walkers"])
def test_worlds_that_can_be_rendered(name: str) -> None:
    world = load(name)
    engine = world.settings(size=24).start(world)
    for raw in world.draw(seed=0, split="train", start=0, n=8):
        assert engine.image(world.scene_of(raw)).shape == (24, 24, 1)


def test_walkers_are_where_and_as_high_as_they_are_said_to_be() -> None:
    covered = walkers.mask(np.array([0.5, 0.25, 0.6, 1.2]), 64)
    rows, columns = np.nonzero(covered)
    assert columns.mean() + 0.5 == pytest.approx(16, abs=1)
    assert np.ptp(rows) + 1 == pytest.approx(0.6 * 64, abs=5)
    assert not np.array_equal(covered, walkers.mask(np.array([0.5, 0.25, 0.6, 2.9]), 64))


def test_values_that_are_no_numbers() -> None:
    for draw in (natural_sprites.picture, walkers.mask):
        with pytest.raises(Impossible, match="finite numbers"):
            draw(np.array([np.nan, 0, 1, 0, 0]), 64)
