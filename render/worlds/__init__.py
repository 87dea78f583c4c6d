"""Worlds: what can be rendered, as named factors, how they are drawn, and what a draw looks like. No Blender here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType

from ident.render import plugins
from ident.render.errors import Impossible
from ident.render.worlds.factors import Category, Circle, Factor, Interval
from ident.render.worlds.world import World, WorldFacts

__all__ = ["WORLDS", "Category", "Circle", "Factor", "Interval", "World", "WorldFacts", "known", "load"]

WORLDS: Mapping[str, str] = MappingProxyType(
    {
        "3dident": "ident.render.worlds.threedident:WORLD",
        "dsprites": "ident.render.worlds.dsprites:WORLD",
        "natural-sprites": "ident.render.worlds.natural_sprites:WORLD",
        "walkers": "ident.render.worlds.walkers:WORLD",
    }
)
"""Where each world of ours is defined, by its name."""


def load(text: str) -> World:
    """A world by its name, or a user's by `package.module:name` or `file.py:name`."""
    if not plugins.is_one(text):
        if text not in WORLDS:
            near = "".join(f"did you mean {name}? " for name in get_close_matches(text, WORLDS, 1))
            raise Impossible(f"world {text!r}: {near}choose from {', '.join(WORLDS)}, or give file.py:name of your own")
        world: World = plugins.load(WORLDS[text])
        return world
    value = plugins.load(text)
    if not isinstance(value, World):
        raise Impossible(f"{text}: is a {type(value).__name__}, not a World")
    reference = plugins.absolute(text)
    return replace(value, reference=reference, source=plugins.digest(reference))


def known(facts: WorldFacts) -> World | None:
    """The world of ours that a dataset is of, if its definition is the one that the dataset was made by."""
    world = load(facts.name) if facts.name in WORLDS else None
    return world if world and world.digest == facts.digest else None
