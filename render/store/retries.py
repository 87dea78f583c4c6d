"""What is tried again: a server that is busy (429, 503, ...), a connection that breaks off; how often, and how soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import sleep
from typing import TypeVar

from ident.render.errors import Failed

T = TypeVar("T")
Pause = Callable[[float], object]
"""Waits for so many seconds."""

ATTEMPTS = 6  # one after the other that bring nothing
PROGRESS = 2**16  # bytes by which an attempt has brought something
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0  # seconds between attempts, twice as many each time

BUSY = (408, 425, 429)
"""Answers that ask for patience; so do all from 500 on."""


class Again(Exception):
    """What may pass, and so is worth another attempt: after `wait` seconds, if the server said so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


def may_pass(status: int) -> bool:
    """Whether a server that answers so may answer otherwise soon."""
    return status in BUSY or status >= 500


def again(call: Callable[[], T], what: str) -> T:
    """The result of a call that raises Again for what may pass."""
    for failures in range(1, ATTEMPTS + 1):
        try:
            return call()
        except Again as error:
            _pause(failures, error, what)
    raise AssertionError


def patiently(
    open_at: Callable[[int], Iterator[bytes]], what: str, start: int = 0, pause: Pause | None = None
) -> Iterator[bytes]:
    """The bytes of a source that can be opened at any place, from `start` on; where it breaks off, it goes on.

    Between attempts it sleeps, or does so by `pause`, which may raise.
    """
    place, since, failures = start, start, 0
    while True:
        try:
            for chunk in open_at(place):
                place += len(chunk)
                yield chunk
            return
        except Again as error:
            failures = 1 if place - since >= PROGRESS else failures + 1
            since = place
            _pause(failures, error, what, pause)


def _pause(failures: int, error: Again, what: str, pause: Pause | None = None) -> None:
    if failures >= ATTEMPTS:
        raise Failed(f"{what}: {error}, {failures} times in a row") from error
    (pause or sleep)(min(FIRST_WAIT * 2 ** (failures - 1) if error.wait is None else error.wait, LONGEST_WAIT))
