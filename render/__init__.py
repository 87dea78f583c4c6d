"""From latents to images: the scene, the engine that renders it, and ways to look at it."""

from ident.render import elsewhere

elsewhere.keep()
