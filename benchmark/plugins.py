"""What users bring: a loss or an encoder of their own, named as `package.module:name`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ident.render import children
from ident.render.errors import Impossible


def is_one(text: str) -> bool:
    """Whether a text names something of the user's."""
    return ":" in text


def look_here() -> None:
    """Let Python find modules in the working directory, too: for one that a user has typed there."""
    children.follow([str(Path.cwd())])


def load(text: str) -> Callable[..., Any]:
    """A function or class, from where Python finds modules."""
    module, _, name = text.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # anything may be wrong with a module of the user's
        raise Impossible(f"{text}: cannot be had ({error}); give package.module:name of a function or class") from error
    if not callable(found):
        raise Impossible(f"{text}: is no function or class")
    made: Callable[..., Any] = found
    return made


@cache
def digest(text: str) -> str:
    """A digest of the file that has what is named, as it was when it was first asked for: as it is loaded."""
    named = load(text)
    of_code = hasattr(named, "__qualname__")  # a function or a class, which may come from another module
    module = sys.modules[named.__module__ if of_code else text.partition(":")[0]]
    file = getattr(module, "__file__", None)
    return sha256(Path(file).read_bytes()).hexdigest() if file else ""
