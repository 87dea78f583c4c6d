"""The engine of worlds that draw their pictures themselves, in numpy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ident.render.aliases import Array, Float64s, Uint8s
from ident.render.errors import Impossible

if TYPE_CHECKING:
    from ident.render.worlds.world import World

SIZES = range(1, 4097)
CHANNELS = (1, 3, 4)
"""Grey; red, green, blue; and these with alpha."""


@dataclass(frozen=True)
class Settings:
    """The size of the pictures."""

    size: int
    gpus: ClassVar[int] = 0
    ON_GPUS: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size not in SIZES:
            raise Impossible(f"size {self.size}: give a whole number of pixels from {SIZES.start} to {SIZES.stop - 1}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """The settings that options mean."""
        for name, value in options.items():
            if name != "size" and value:
                raise Impossible(
                    f"{name} {value}: the pictures of this world have a size, and nothing else; leave it out"
                )
        return cls(options["size"])

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Self:
        """The settings that describe themselves so."""
        if set(described) != {"ident", "device", "size"} or described["device"] != "cpu":
            raise Impossible(f"settings {dict(described)}: wanted are ident, device cpu, and size")
        return cls(described["size"])

    @classmethod
    def absent(cls) -> str:
        """Nothing."""
        return ""

    @classmethod
    def versions(cls) -> dict[str, str]:
        """Of this package."""
        return {"ident": version("ident3d")}

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.versions(), "device": "cpu", "size": self.size}

    def on(self, gpus: int) -> Self:  # noqa: ARG002
        """These."""
        return self

    def as_begun(self, begun: Self) -> Self:  # noqa: ARG002
        """These: no option has changed what it means."""
        return self

    def arrays(self, world: World) -> dict[str, tuple[tuple[int, ...], str]]:
        """That of the images, whose shape one of them tells."""
        raw = world.draw(seed=0, split="shape", start=0, n=1)[0]
        return {"images": (self.start(world).image(world.scene_of(raw)).shape, "uint8")}

    def start(self, world: World) -> Drawing:
        """The engine."""
        return Drawing(world, self.size)


class Drawing:
    """Draws a world's pictures at a size."""

    def __init__(self, world: World, size: int) -> None:
        self._world, self._size = world, size

    def image(self, values: Float64s) -> Uint8s:
        """The picture of scene values, (H, W, C)."""
        assert self._world.picture is not None
        picture = self._world.picture(values, self._size)
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim != 3:
            shape = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
            raise Impossible(f"world {self._world.name}: its picture is {shape}; give uint8 of the shape (H, W, C)")
        height, width, channels = picture.shape
        if max(height, width) != self._size or min(height, width) < 1 or channels not in CHANNELS:
            raise Impossible(
                f"world {self._world.name}: its picture at size {self._size} is {picture.shape}; give (H, W, C) whose "
                f"longer side is {self._size}, and C one of {', '.join(map(str, CHANNELS))}"
            )
        return picture

    def passes(self, _: Float64s, names: Collection[str]) -> dict[str, Array]:
        """None: there are no others than the image."""
        assert not names
        return {}
