"""TOML files of suites and tiers, ours and users': read with a bound on their size and depth."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from ident.render.errors import Failed, Impossible
from ident.render.store.files import read

OURS = files("ident.benchmark.suites")
LARGEST = 2**20  # bytes
DEEPEST = 8
"""Lists and tables in each other."""


def read_ours(name: str) -> dict[str, Any]:
    """A file beside this one."""
    return tomllib.loads(OURS.joinpath(f"{name}.toml").read_text())


def read_file(path: Path, what: str, instead: str) -> dict[str, Any]:
    """A user's file, which should be so-and-so; an error says what to give instead."""
    try:
        return check_depth(tomllib.loads(read(path, LARGEST).decode()))
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}; give {instead}") from error
    except (Failed, Impossible) as error:
        raise Impossible(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise Impossible(f"{path}: is no {what} ({error}); give {instead}") from error


def check_depth(content: dict[str, Any]) -> dict[str, Any]:
    """What a file has, if its lists and tables lie no deeper in each other than any suite's."""
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if level:
        raise ValueError(f"it is deeper than {DEEPEST} levels")
    return content


def frozen(value: Any) -> Any:
    """A value with tuples for its lists, also in tables."""
    if isinstance(value, dict):
        return {name: frozen(inner) for name, inner in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value
