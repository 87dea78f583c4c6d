"""The scene file, and the generator that builds it from Newell's control points."""
