"""Positive pairs: nearest neighbours, rendered ones, augmentations."""
