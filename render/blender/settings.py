"""How much work goes into an image: the presets, as data. docs/quality.md has the measurements behind them."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata, resources
from types import MappingProxyType
from typing import Any

from ident.render.errors import Impossible

SUN, AREA, SPOT = LIGHTS = "LightDynamic", "LightStatic", "Spotlight"
MOST_SAMPLES = 65536


@dataclass(frozen=True)
class Exposure:
    """Some of the lights on: samples a pixel of all that they light, and more in the box around the object.

    Where the ground is known (see `Quality`): samples a pixel of what changes on the ground, and of the object.
    """

    lights: tuple[str, ...]
    samples: int
    object_samples: int = 0

    def __post_init__(self) -> None:
        if not self.lights or not set(self.lights) <= set(LIGHTS):
            raise Impossible(f"lights {self.lights}: choose one or more of {', '.join(LIGHTS)}")
        for name, samples, least in (("samples", self.samples, 1), ("object_samples", self.object_samples, 0)):
            if not least <= samples <= MOST_SAMPLES:
                raise Impossible(f"{name} {samples}: give a whole number from {least} to {MOST_SAMPLES}")


@dataclass(frozen=True)
class Quality:
    """An image is the sum of its exposures in linear light, denoised or not."""

    exposures: tuple[Exposure, ...]
    denoise: bool
    known_ground: bool = False
    """Whether the ground is rendered only where a light moves over it or the object's shadow falls: see `ground`."""

    def describe(self) -> dict[str, Any]:
        """As JSON has it; what has no known ground is described as before there was one."""
        described: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {name: value for name, value in described.items() if name != "known_ground" or value}

    def __post_init__(self) -> None:
        if not self.exposures:
            raise Impossible("exposures (): give at least one")
        if self.known_ground and any(len(exposure.lights) > 1 for exposure in self.exposures):
            raise Impossible("known_ground: give exposures of one light each")


def plain(samples: int) -> Quality:
    """All lights at once and no denoiser, as the published images were sampled."""
    return Quality((Exposure((SUN, AREA, SPOT), samples),), denoise=False)


def by_light(
    sun: tuple[int, int], area: tuple[int, int], spot: tuple[int, int], *, known_ground: bool = True
) -> Quality:
    """One light at a time, each with (samples, object_samples), denoised."""
    exposures = Exposure((SUN,), *sun), Exposure((AREA,), *area), Exposure((SPOT,), *spot)
    return Quality(exposures, denoise=True, known_ground=known_ground)


PRESETS: Mapping[str, Quality] = MappingProxyType(
    {
        "draft": by_light(sun=(3, 5), area=(1, 1), spot=(1, 5)),
        "balanced": by_light(sun=(6, 10), area=(1, 4), spot=(2, 11)),
        "high": by_light(sun=(16, 30), area=(3, 12), spot=(8, 48)),
        "reference": plain(512),
    }
)

SMALL = 112
"""Pixels along the side of an image below which what a render costs beside its samples counts."""

PRESETS_SMALL: Mapping[str, Quality] = MappingProxyType(
    {**PRESETS, "draft": by_light(sun=(2, 3), area=(1, 1), spot=(1, 3))}
)
"""The presets of small images."""

FORMER: Mapping[str, Quality] = MappingProxyType(
    {
        "draft": by_light(sun=(1, 3), area=(1, 0), spot=(1, 3), known_ground=False),
        "balanced": by_light(sun=(1, 6), area=(1, 3), spot=(2, 8), known_ground=False),
        "high": by_light(sun=(3, 24), area=(2, 12), spot=(4, 44), known_ground=False),
    }
)
"""What the presets were, in datasets that were begun with them."""


def preset(name: str, size: int) -> Quality:
    """A preset for images of a size."""
    return (PRESETS_SMALL if size < SMALL else PRESETS)[name]


SIZES = range(16, 4097)
PASSES = ("mask", "depth", "normal")


@dataclass(frozen=True)
class Settings:
    """How images are rendered: all that decides their pixels beside the scene."""

    size: int = 224
    quality: Quality = PRESETS["balanced"]
    gpus: int = 0

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise Impossible(f"size {self.size}: give a whole number of pixels from {SIZES.start} to {SIZES.stop - 1}")
        if self.gpus < 0:
            raise Impossible(f"--gpus {self.gpus}: give a whole number from 0 on")


def check_passes(names: Iterable[str]) -> tuple[str, ...]:
    """The passes asked for, in order and once each, or an error that lists those there are."""
    asked = set(names)
    for name in sorted(asked - set(PASSES)):
        raise Impossible(f"pass {name!r}: choose from {', '.join(PASSES)}")
    return tuple(name for name in PASSES if name in asked)


RENDERS = (3, 11)
"""The Python that Blender's module is for."""

LIBRARIES = "docker/system-libraries.sh"


def lacking(error: ImportError | None = None) -> tuple[str, str] | None:
    """What is wrong with Blender's Python module, as it is installed or as it failed to load, and what to type."""
    if sys.version_info[:2] != RENDERS:
        found = platform.python_version()
        return f"rendering needs Python 3.11, here is {found}", "python3.11 -m venv .venv, and install ident3d there"
    if sys.platform == "linux" and platform.machine() != "x86_64":
        return f"Blender's Python module is for x86_64, here is {platform.machine()}", "ident render on such a machine"
    if renderer()["bpy"] == "none" or (isinstance(error, ModuleNotFoundError) and error.name == "bpy"):
        return "Blender's Python module is missing", "pip install 'bpy>=4.5,<4.6'"
    return (f"Blender's Python module does not load ({error})", LIBRARIES) if error else None


def absent(error: ImportError | None = None) -> str:
    """The same in a line; nothing if all is well."""
    return ": type ".join(lacking(error) or ())


@cache
def renderer() -> Mapping[str, str]:
    """What renders: the versions and the scene file."""
    scene = resources.files("ident.blend_assets").joinpath("3dident.sha256").read_text().split()[0]
    try:
        blender = metadata.version("bpy")
    except metadata.PackageNotFoundError:
        blender = "none"
    return MappingProxyType({"ident": metadata.version("ident3d"), "bpy": blender, "scene": scene})
