"""Layouts that other people's readers expect, a module each; LAYOUTS has them by the names that users type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ident.render.exchange.layouts.causal3dident import Causal3DIdent
from ident.render.exchange.layouts.huggingface import HuggingFace
from ident.render.exchange.layouts.layout import Layout
from ident.render.exchange.layouts.mds import MDS
from ident.render.exchange.layouts.threedident import ThreeDIdent
from ident.render.exchange.layouts.webdataset import WebDataset

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "3dident": ThreeDIdent(),
        "causal3dident": Causal3DIdent(),
        "webdataset": WebDataset(),
        "mds": MDS(),
        "huggingface": HuggingFace(),
    }
)
