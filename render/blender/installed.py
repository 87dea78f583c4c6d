"""What renders here: Blender's Python module and the scene file, and what is wrong with them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata, resources
from types import MappingProxyType

RENDERS = (3, 11)
"""The Python that Blender's module is for."""

LIBRARIES = "docker/system-libraries.sh"


def lacking(error: ImportError | None = None) -> tuple[str, str] | None:
    """What is wrong with Blender's Python module, as it is installed or as it failed to load, and what to type."""
    if sys.version_info[:2] != RENDERS:
        return (
            f"rendering needs Python 3.11, here is {platform.python_version()}",
            "python3.11 -m venv .venv, and install ident3d there",
        )
    if sys.platform == "linux" and platform.machine() != "x86_64":
        return f"Blender's Python module is for x86_64, here is {platform.machine()}", "ident render on such a machine"
    if renderer()["bpy"] == "none" or (isinstance(error, ModuleNotFoundError) and error.name == "bpy"):
        return "Blender's Python module is missing", "pip install 'bpy>=4.5,<4.6'"
    return (f"Blender's Python module does not load ({error})", LIBRARIES) if error else None


def absent(error: ImportError | None = None) -> str:
    """What is wrong with it and what to type, in a line; nothing if all is well."""
    return ": type ".join(lacking(error) or ())


@cache
def renderer() -> Mapping[str, str]:
    """What renders: the versions and the scene file."""
    scene = resources.files("ident.blend_assets").joinpath("3dident.sha256").read_text().split()[0]
    try:
        blender = metadata.version("bpy")
    except metadata.PackageNotFoundError:
        blender = "none"
    return MappingProxyType({"ident": metadata.version("ident3d"), "bpy": blender, "scene": scene})
