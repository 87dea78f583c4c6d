"""Datasets as they lie in a folder or a bucket: written, read, verified. No Blender, no Ray, no torch."""
