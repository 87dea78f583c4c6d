"""Encoders, and the space that their output is brought to."""
