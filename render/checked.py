"""Checks of values from JSON that anybody may have written: an error says which one is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

DEEPEST = 8
LONGEST = 2**16  # characters of a text


def check_names(described: Mapping[str, Any], where: str, names: Iterable[str]) -> None:
    """Refuse an object that has other names than these."""
    if unknown := set(described) - set(names):
        raise ValueError(f"unknown in {where}: {', '.join(sorted(map(repr, unknown)))}")


def check_texts(described: Mapping[str, Any], where: str, names: Iterable[str]) -> None:
    """Refuse an object whose values of these names are not a line of text each."""
    for name in names:
        if not isinstance(described[name], str) or not described[name].isprintable():
            raise ValueError(f"{where}.{name} is {described[name]!r}")


def check_tree(value: Any, where: str, depth: int = DEEPEST) -> None:
    """Refuse what nests deeper than any description of ours, or has texts that are not lines."""
    if isinstance(value, str) and (len(value) > LONGEST or not value.isprintable()):
        raise ValueError(f"{where} is {value[:100]!r}")
    if isinstance(value, Mapping | list):
        if depth == 0:
            raise ValueError(f"{where} nests too deep")
        for each in (*value, *value.values()) if isinstance(value, Mapping) else value:
            check_tree(each, where, depth - 1)


def whole_number(value: Any, name: str, least: int, most: int) -> int:
    """The value, if it is a whole number in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}, not a whole number from {least} to {most}")
    return value
