"""Libraries that look around in the working directory while they are imported: a stranger's files may lie there.

matplotlib takes settings from a `matplotlibrc`, by which it starts LaTeX; a library of CUDA's that PyTorch loads looks
there for the driver, and runs any `libcuda.so.1`. They are imported in the root folder, which is the administrator's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, chdir, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

LIBRARIES = ("matplotlib", "torch")
ROOT = os.sep


class Elsewhere(MetaPathFinder):
    """Finds these libraries where Python does."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """One of them, to be imported elsewhere."""
        spec = PathFinder.find_spec(name, path, target) if name in LIBRARIES else None
        if spec and spec.loader:
            spec.loader = Away(spec.loader)
        return spec


class Away(Loader):
    """Another loader, which finds itself in the root folder."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """What the other makes."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """What the other does, there."""
        with ExitStack() as stack:
            with suppress(FileNotFoundError):  # of a working directory that is gone
                stack.enter_context(chdir(ROOT))
            self.loader.exec_module(module)


def keep() -> None:
    """Have these libraries imported elsewhere from now on, in this process."""
    if not any(isinstance(finder, Elsewhere) for finder in sys.meta_path):
        sys.meta_path.insert(0, Elsewhere())
