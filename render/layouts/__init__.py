"""Layouts that other people's readers expect, a module each; LAYOUTS has them by the names that users type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from ident.render.layouts import causal3dident, threedident

LAYOUTS: Mapping[str, ModuleType] = MappingProxyType({"3dident": threedident, "causal3dident": causal3dident})
