"""From a world's factors to images, and from images to datasets that others can have."""

from ident.render import elsewhere

elsewhere.keep()
