"""The presets as data."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from ident.render.blender.settings import (
    FORMER,
    PRESETS,
    PRESETS_SMALL,
    Exposure,
    Quality,
    Settings,
    check_passes,
    plain,
    preset,
)
from ident.render.errors import Impossible


def test_every_preset_lights_every_light_once() -> None:
    assert list(PRESETS) == ["draft", "balanced", "high", "reference"]
    for quality in PRESETS.values():
        lights = [light for exposure in quality.exposures for light in exposure.lights]
        assert sorted(lights) == ["LightDynamic", "LightStatic", "Spotlight"]
    assert PRESETS["reference"] == plain(512)
    assert not PRESETS["reference"].denoise


def test_no_preset_is_what_it_was_before() -> None:
    assert not any({PRESETS[name], PRESETS_SMALL[name]} & set(FORMER[name]) for name in FORMER)


def test_a_quality_without_a_known_ground_is_described_as_before() -> None:
    assert set(plain(4).describe()) == {"exposures", "denoise"}
    assert PRESETS["draft"].describe()["known_ground"] is True


def test_small_images_have_presets_of_their_own() -> None:
    assert list(PRESETS_SMALL) == list(PRESETS)
    assert preset("draft", 111) == PRESETS_SMALL["draft"] != preset("draft", 112) == PRESETS["draft"]
    assert preset("high", 64) == PRESETS["high"]


@pytest.mark.parametrize("samples", [0, -1, 65537])
def test_samples_out_of_range(samples: int) -> None:
    with pytest.raises(Impossible, match=f"samples {samples}: "):
        plain(samples)
    with pytest.raises(Impossible, match="object_samples -1"):
        Exposure(("Spotlight",), 1, -1)


def test_presets_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        PRESETS["draft"].denoise = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        PRESETS["draft"] = plain(1)  # type: ignore[index]


def test_settings_check_themselves() -> None:
    for size in (0, -5, 15, 100_000):
        with pytest.raises(Impossible, match=f"size {size}: .* 16 to 4096"):
            Settings(size=size)
    with pytest.raises(Impossible, match="gpus -1"):
        Settings(gpus=-1)
    with pytest.raises(Impossible, match=r"lights \('Sun',\): choose one or more of LightDynamic"):
        Exposure(("Sun",), 1)
    with pytest.raises(Impossible, match="lights"):
        Exposure((), 1)
    with pytest.raises(Impossible, match="exposures"):
        Quality((), denoise=False)
    with pytest.raises(Impossible, match="known_ground: give exposures of one light each"):
        replace(plain(1), known_ground=True)


def test_passes_come_in_one_order_once_each() -> None:
    assert check_passes(["normal", "mask", "mask"]) == ("mask", "normal")
    with pytest.raises(Impossible, match="'albedo': choose from mask, depth, normal"):
        check_passes(["mask", "albedo"])
