"""The presets as data."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from ident.render.errors import Impossible
from ident.render.quality import PRESETS, Exposure, plain


def test_every_preset_lights_every_light_once() -> None:
    assert list(PRESETS) == ["draft", "balanced", "high", "reference"]
    for quality in PRESETS.values():
        lights = [light for exposure in quality.exposures for light in exposure.lights]
        assert sorted(lights) == ["LightDynamic", "LightStatic", "Spotlight"]
    assert PRESETS["reference"] == plain(512)
    assert not PRESETS["reference"].denoise


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
