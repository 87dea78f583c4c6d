"""How spaces and distributions are written, as in the papers' tables: `laplace(0.05)`, `box(3) * sphere(8)`."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from ident.render import plugins
from ident.render.errors import Impossible, unknown

T = TypeVar("T")

CONVENTIONS = {"paper": 1.0, "code": 0.5}
"""What Lambda is, by name: the factor before D' Lambda D in the exponent of a conditional, and of a model of it.

`paper` is equation 2 of Rusak et al. (2024), `code` that of the authors' code, where Lambda is one over a variance.
"""

GEOMETRIES: Mapping[str, Callable[..., tuple[float, ...]]] = {
    "sphere": lambda dim, radius=1.0: (dim, radius),
    "box": lambda dim, low=-1.0, high=1.0: (dim, low, high),
    "unbounded": lambda dim: (dim,),
}
"""The numbers that a space is written with, by its name: dimensions, and then a radius or bounds."""

EXAMPLES = {"space": "sphere(10)"}
"""How it is written, where that is not like a distribution."""

COUNTED = re.compile(r"(?P<number>[^\sx]+)\s*x\s*(?P<count>\d{1,4})")
"""A number that stands for so many: `25 x20`."""

TERM = re.compile(r"\s*(?P<name>[a-z_][a-z0-9_]*|[a-z_][\w.]*:[\w.]+)\s*(\((?P<arguments>[^()]*)\))?\s*", re.IGNORECASE)


def parse(
    text: str, known: Mapping[str, Callable[..., T]], what: str, defaults: Mapping[str, float], *, own: bool = False
) -> list[T]:
    """What a text says: terms joined by `*`, each a known name and its numbers; some have defaults.

    With `own` a name may be module:name, of what a user brings: only for texts that the user has typed.
    """
    terms = []
    for term in text.split("*") if isinstance(text, str) else [""]:
        match = TERM.fullmatch(term)
        if match is None:
            example = EXAMPLES.get(what, "laplace(0.05)")
            raise Impossible(f"{what} {text!r}: write it like {example}; known are {', '.join(known)}")
        name, arguments = match["name"], match["arguments"]
        if plugins.is_one(name):
            if not own:
                raise Impossible(f"{what} {text!r}: is a user's own, which is not loaded here")
            terms.append(_call(plugins.load_callable(name), name, arguments, text, what, defaults))
            continue
        if name.lower() not in known:
            close = get_close_matches(name.lower(), known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            raise Impossible(f"{what} {text!r}: nobody knows {name!r}; {hint}")
        terms.append(_call(known[name.lower()], name.lower(), arguments, text, what, defaults))
    return terms


def _call(
    make: Callable[..., T], name: str, arguments: str | None, text: str, what: str, defaults: Mapping[str, float]
) -> T:
    try:
        signature = inspect.signature(make)
    except ValueError as error:
        raise Impossible(f"{what} {text!r}: {error}") from error
    shape = f"{name}({', '.join(signature.parameters)})"
    words = [key for key, one in signature.parameters.items() if one.annotation in ("str", str)]
    numbers, named = list[float](), dict[str, float | str]()
    for argument in filter(None, (part.strip() for part in (arguments or "").split(","))):
        key, equals, value = (part.strip() for part in argument.rpartition("="))
        if key in words:
            named[key] = value
            continue
        counted = None if equals else COUNTED.fullmatch(value)
        try:
            number = float(counted["number"] if counted else value)
        except ValueError as error:
            raise Impossible(f"{what} {text!r}: {argument!r} is not a number; write it like {shape}") from error
        if equals:
            named[key] = number
        elif named:
            raise Impossible(f"{what} {text!r}: {argument!r} follows what has a name; write it like {shape}")
        else:
            numbers += [number] * (int(counted["count"]) if counted else 1)
    try:
        given = signature.bind_partial(*numbers, **named).arguments
        lacking = {key: value for key, value in defaults.items() if key in signature.parameters and key not in given}
        bound = signature.bind(*numbers, **named, **lacking)
    except TypeError as error:
        raise Impossible(f"{what} {text!r}: {error}; write it like {shape}") from error
    return make(*bound.args, **bound.kwargs)


def write(name: str, numbers: Sequence[float], **words: str) -> str:
    """A term as a text."""
    parts = [repr(float(number)).removesuffix(".0") for number in numbers]
    parts += [f"{key}={word}" for key, word in words.items()]
    return f"{name}({', '.join(parts)})" if parts else name


def whole(dim: float) -> int:
    """The dimensions of a space, if there can be so many."""
    if not (dim >= 1 and math.isfinite(dim) and dim == int(dim)):
        raise Impossible(f"a space of {dim:g} dimensions: give a whole number from 1 on")
    return int(dim)


def factor(convention: str) -> float:
    """The factor before D' Lambda D by the name of a convention."""
    if convention not in CONVENTIONS:
        raise unknown("convention", convention, CONVENTIONS)
    return CONVENTIONS[convention]


def is_code(convention: str) -> bool:
    """Whether a loss is that of its authors' code, where it is not that of their paper."""
    factor(convention)
    return convention == "code"
