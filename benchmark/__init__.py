"""Spaces, pairs, losses and suites: what is done with the images."""

from ident.render import elsewhere

elsewhere.keep()  # before any of this imports PyTorch
