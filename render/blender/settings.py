"""How Blender renders: how much work goes into an image, and the presets. docs/quality.md has what is behind them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ident.render.blender.installed import absent, renderer
from ident.render.checked import check_names, check_texts, whole_number
from ident.render.errors import Impossible

if TYPE_CHECKING:
    from ident.render.blender.engine import Engine
    from ident.render.worlds.world import World

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
        "high": by_light(sun=(15, 27), area=(3, 11), spot=(7, 44)),
        "reference": plain(512),
    }
)

SMALL = 112
"""Pixels along the side of an image below which what a render costs beside its samples counts."""

PRESETS_SMALL: Mapping[str, Quality] = MappingProxyType(
    {**PRESETS, "draft": by_light(sun=(2, 3), area=(1, 1), spot=(1, 3))}
)
"""The presets of small images."""

FORMER: Mapping[str, tuple[Quality, ...]] = MappingProxyType(
    {
        "draft": (by_light(sun=(1, 3), area=(1, 0), spot=(1, 3), known_ground=False),),
        "balanced": (by_light(sun=(1, 6), area=(1, 3), spot=(2, 8), known_ground=False),),
        "high": (
            by_light(sun=(3, 24), area=(2, 12), spot=(4, 44), known_ground=False),
            by_light(sun=(16, 30), area=(3, 12), spot=(8, 48)),
        ),
    }
)
"""What the presets were, the oldest first, in datasets that were begun with them."""


def preset(name: str, size: int) -> Quality:
    """A preset for images of a size."""
    return (PRESETS_SMALL if size < SMALL else PRESETS)[name]


SIZES = range(16, 4097)
PASSES: Mapping[str, tuple[tuple[int, ...], str]] = MappingProxyType(
    {"mask": ((), "uint8"), "depth": ((), "float32"), "normal": ((3,), "float32")}
)
"""What can be rendered beside the image, with the shape and dtype of a pixel. FROM_BLENDER says what each is."""


@dataclass(frozen=True)
class Settings:
    """How Blender renders images: all that decides their pixels beside the scene."""

    size: int = 224
    quality: Quality = PRESETS["balanced"]
    gpus: int = 0
    ON_GPUS: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise Impossible(f"size {self.size}: give a whole number of pixels from {SIZES.start} to {SIZES.stop - 1}")
        if self.gpus < 0:
            raise Impossible(f"gpus {self.gpus}: give a whole number from 0 on")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """The settings that options mean: size, gpus, and quality, a preset's name, or so many plain samples."""
        size, name = options["size"], options.get("quality", "balanced")
        if name not in PRESETS:
            raise Impossible(f"quality {name!r}: choose from {', '.join(PRESETS)}")
        quality = plain(options["samples"]) if "samples" in options else preset(name, size)
        return cls(size, quality, options.get("gpus", 0))

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Self:
        """The settings that describe themselves so."""
        names = [*renderer(), "size", "device", *(field.name for field in fields(Quality))]
        check_names(described, "render", names)
        for exposure in described["exposures"]:
            check_names(exposure, "render.exposures", [field.name for field in fields(Exposure)])
        exposures = tuple(
            Exposure(
                tuple(exposure["lights"]),
                *(whole_number(exposure[name], name, 0, MOST_SAMPLES) for name in ("samples", "object_samples")),
            )
            for exposure in described["exposures"]
        )
        denoise, known_ground = described["denoise"], described.get("known_ground", False)
        if not isinstance(denoise, bool) or not isinstance(known_ground, bool):
            raise ValueError(f"render.denoise {denoise!r}, render.known_ground {known_ground!r}")
        if described["device"] not in ("cpu", "gpu"):
            raise ValueError(f"render.device {described['device']!r}")
        check_texts(described, "render", set(renderer()))
        size = whole_number(described["size"], "size", SIZES.start, SIZES.stop - 1)
        return cls(size, Quality(exposures, denoise, known_ground), int(described["device"] == "gpu"))

    @classmethod
    def absent(cls) -> str:
        """What is wrong with Blender's Python module, and what to type; nothing if all is well."""
        return absent()

    @classmethod
    def versions(cls) -> Mapping[str, str]:
        """Of Blender and ident, and the scene file's sha256."""
        return renderer()

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        device = "gpu" if self.gpus else "cpu"
        return {**renderer(), "device": device, "size": self.size, **self.quality.describe()}

    def on(self, gpus: int) -> Self:
        """The settings on so many GPUs."""
        return replace(self, gpus=gpus)

    def as_begun(self, begun: Self) -> Self:
        """With the quality that a dataset was begun by, where that is what the name of this one's meant then."""
        former = [quality for name in FORMER if preset(name, self.size) == self.quality for quality in FORMER[name]]
        return replace(self, quality=begun.quality) if begun.quality in former else self

    def arrays(self, _: World) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of the image and the passes."""
        image = self.size, self.size
        return {
            "images": ((*image, 3), "uint8"),
            **{name: ((*image, *of), dtype) for name, (of, dtype) in PASSES.items()},
        }

    def start(self, _: World) -> Engine:
        """Blender, in this process."""
        from ident.render.blender.engine import Engine  # here, so that only those start Blender that render

        return Engine(self)


def check_passes(names: Iterable[str], allowed: Iterable[str] = PASSES) -> tuple[str, ...]:
    """The passes asked for, in order and once each, or an error that lists those there are."""
    asked, allowed = set(names), tuple(allowed)
    for name in sorted(asked - set(allowed)):
        raise Impossible(f"pass {name!r}: choose from {', '.join(allowed) or 'none'}")
    return tuple(name for name in allowed if name in asked)
