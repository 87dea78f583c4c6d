"""Blender: one scene to one image. The only package that imports bpy."""
