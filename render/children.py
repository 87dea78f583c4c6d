"""Python processes that are started here: none of them imports from the folder in which the user happens to be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from ident.render.elsewhere import ROOT

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""By which Python keeps the working directory out of its path: with `-c` and `-m` it would come first."""


def ask(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, for what it prints."""
    return subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Folders(MetaPathFinder):
    """Where modules are looked for that are nowhere else: what lies there hides none."""

    folders: tuple[str, ...]

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A module there, if it is not inside a package."""
        return PathFinder.find_spec(name, self.folders, target) if path is None else None


def path() -> tuple[str, ...]:
    """Where this process finds modules beside those of its installation, for another one to `follow`."""
    last = [folder for finder in sys.meta_path if isinstance(finder, Folders) for folder in finder.folders]
    folders = [Path(folder).absolute() for folder in (*sys.path, *last) if folder]
    installed = sys.prefix, sys.base_prefix
    return tuple(str(folder) for folder in folders if not any(map(folder.is_relative_to, installed)))


def follow(folders: Iterable[str]) -> None:
    """Find modules in these folders, too, after all others."""
    finder = Folders(tuple(dict.fromkeys(folders)))
    if finder.folders and finder not in sys.meta_path:
        sys.meta_path.append(finder)


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables for what is started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
