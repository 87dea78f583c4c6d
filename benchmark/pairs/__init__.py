"""Pairs: drawn, of nearest neighbours, rendered, of one sequence, or augmentations of one image."""
