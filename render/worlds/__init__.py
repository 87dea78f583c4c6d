"""Worlds: what can be rendered, as named factors, how they are drawn, and what a draw looks like. No Blender here."""
