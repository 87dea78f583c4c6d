"""TOML files of suites and tiers, ours and users': read with a bound on their size and depth."""

from __future__ import annotations

import itertools
import math
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from ident.render.errors import Failed, Impossible
from ident.render.store.files import read

OURS = files("ident.benchmark.suites")
LARGEST = 2**20  # bytes
LONGEST = 2000
"""Letters of a text that values are put into."""
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


def cells(row: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """The rows that a row with a table `over` of lists stands for: one for each choice of a value from each list.

    `{name}` in its texts stands for the value, and a text that is nothing else for the value as it is. A row without
    `over` stands for itself.
    """
    if "over" not in row:
        return [row]
    over = row["over"]
    if not isinstance(over, dict) or not over or not all(isinstance(one, list) and one for one in over.values()):
        raise Impossible(f"row {row.get('id')}, over {over!r}: give a table of lists, like {{ batch = [64, 256] }}")
    if wrong := [value for values in over.values() for value in values if not is_filling(value)]:
        raise Impossible(f"row {row.get('id')}, over {wrong[0]!r}: give numbers, or short texts without braces")
    if (count := math.prod(map(len, over.values()))) > most:
        raise Impossible(f"row {row.get('id')}, over: stands for {count} rows; give at most {most}")
    rest = {name: value for name, value in row.items() if name != "over"}
    return [filled(rest, dict(zip(over, values, strict=True))) for values in itertools.product(*over.values())]


def is_filling(value: Any) -> bool:
    """Whether a value may stand in a row's texts."""
    return type(value) in (int, float) or (isinstance(value, str) and len(value) <= 100 and not set("{}") & set(value))


def filled(value: Any, values: dict[str, Any]) -> Any:
    """A value of a file with what stands in braces in its texts, in lists and tables too."""
    match value:
        case dict():
            return {name: filled(inner, values) for name, inner in value.items()}
        case list():
            return [filled(inner, values) for inner in value]
        case str():
            if len(value) > LONGEST:
                raise Impossible(f"{value[:40]!r}...: is longer than {LONGEST} letters")
            for name, one in values.items():
                if value == f"{{{name}}}":
                    return one
                value = value.replace(f"{{{name}}}", str(one))
    return value


def frozen(value: Any) -> Any:
    """A value with tuples for its lists, also in tables."""
    if isinstance(value, dict):
        return {name: frozen(inner) for name, inner in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value
