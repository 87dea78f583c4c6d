"""Spaces, pairs, losses and suites: what is done with the images."""
