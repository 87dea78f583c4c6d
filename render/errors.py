"""The two ways in which a command ends early, each with one line for the user."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class Impossible(ValueError):
    """The user asked for something that cannot be done: what, the value given, what is allowed. Exit code 2."""


class Failed(RuntimeError):
    """Something went wrong on the way; what was done so far is kept. Exit code 1."""


def unknown(what: str, name: object, names: Iterable[str], or_else: str = "") -> Impossible:
    """The error for a name of a family that nobody knows: it lists the family, and says the nearest."""
    names = list(names)
    nearest = get_close_matches(name, names, 1) if isinstance(name, str) else []
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return Impossible(f"{what} {name!r}: choose from {', '.join(names)}{f', or {or_else}' if or_else else ''}{hint}")
