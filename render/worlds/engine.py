"""What a world is rendered by: an engine, and its settings, which decide all pixels beside the scene."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from ident.render.aliases import Array, Uint8s

if TYPE_CHECKING:
    from ident.render.worlds.world import World

ENGINES: Mapping[str, str] = MappingProxyType(
    {
        "blender": "ident.render.blender.settings:Settings",
        "drawn": "ident.render.worlds.drawn:Settings",
    }
)
"""Where the class of each engine's settings is, by the name that worlds have for it."""


class Engine(Protocol):
    """Renders scenes of one world by its settings."""

    def image(self, scene: Any, /) -> Uint8s:
        """The image (H, W, C)."""

    def passes(self, scene: Any, names: Collection[str], /) -> dict[str, Array]:
        """The passes asked for."""


class Settings(Protocol):
    """All that decides the pixels beside the scene. An engine is named by the class of these, see ENGINES."""

    ON_GPUS: ClassVar[bool]
    """Whether GPUs make it faster."""

    @property
    def size(self) -> int:
        """Pixels along the longer side of an image."""

    @property
    def gpus(self) -> int:
        """On how many GPUs it renders; on 0, on the CPU."""

    @classmethod
    def of(cls, options: Mapping[str, Any], /) -> Self:
        """The settings that the user's options mean; those left out have defaults, others are an error."""

    @classmethod
    def read(cls, described: Mapping[str, Any], /) -> Self:
        """The settings that describe themselves so, checked."""

    @classmethod
    def absent(cls) -> str:
        """What the engine lacks on this machine, and what to type; nothing if all is there."""

    @classmethod
    def versions(cls) -> Mapping[str, str]:
        """Of all that renders, `ident` among them, which is noted and changes no pixel."""

    def describe(self) -> dict[str, Any]:
        """As JSON, with the versions and the device, cpu or gpu."""

    def on(self, gpus: int, /) -> Self:
        """The settings on so many GPUs."""

    def as_begun(self, begun: Self, /) -> Self:
        """The settings that a dataset was begun by, if they are what the options of these meant then; else these."""

    def arrays(self, world: World, /) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of all arrays that it can make of a scene: of "images", and of the passes."""

    def start(self, world: World, /) -> Engine:
        """The engine."""
