"""What is named as `package.module:name`, or as `file.py:name`: one of ours by a registry, or of the user's own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from ident.render import children
from ident.render.errors import Impossible


def is_one(text: str) -> bool:
    """Whether a text names something so."""
    return ":" in text


def look_here() -> None:
    """Let Python find modules in the working directory, too: for one that a user has typed there."""
    children.follow([str(Path.cwd())])


def load(text: str) -> Any:
    """What is named, from where Python finds modules, or from the file."""
    where, _, name = text.rpartition(":")
    try:
        value: Any = _module(where)
        for part in name.split("."):
            value = getattr(value, part)
    except Exception as error:  # anything may be wrong with a module of the user's
        said = f"{type(error).__name__}: {error}" if isinstance(error, SyntaxError | KeyError) else str(error)
        raise Impossible(f"{text}: cannot be loaded ({said}); give package.module:name, or file.py:name") from error
    return value


def load_callable(text: str) -> Callable[..., Any]:
    """A function or class that is named."""
    value = load(text)
    if not callable(value):
        raise Impossible(f"{text}: is no function or class")
    called: Callable[..., Any] = value
    return called


def absolute(text: str) -> str:
    """The name for processes that work in another folder."""
    where, _, name = text.rpartition(":")
    return f"{Path(where).absolute()}:{name}" if _is_file(where) else text


@cache
def digest(text: str) -> str:
    """The sha256 of the file that defines what is named, as it was when it was first asked for."""
    value, module = load(text), _module(text.rpartition(":")[0])
    if callable(value):  # a function or class says where it is defined
        module = sys.modules.get(getattr(value, "__module__", ""), module)
    file = getattr(module, "__file__", None)
    return sha256(Path(file).read_bytes()).hexdigest() if file else ""


def _is_file(where: str) -> bool:
    return where.endswith(".py")


def _module(where: str) -> ModuleType:
    return _of_file(str(Path(where).absolute())) if _is_file(where) else importlib.import_module(where)


@cache
def _of_file(path: str) -> ModuleType:
    """A module of a file, which leaves no compiled one beside it."""
    code = Path(path).read_bytes()
    module = ModuleType(f"{Path(path).stem}-{sha256(path.encode() + code).hexdigest()[:16]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # where dataclasses and pickle look for it
    try:
        exec(compile(code, path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module
