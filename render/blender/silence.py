"""Keeping quiet what other programs write from C."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache


@cache
def _libc() -> ctypes.CDLL:
    # Once: each CDLL is a class of its own, in a cycle that only the garbage collector ends.
    return ctypes.CDLL(None)


@contextlib.contextmanager
def silent(*outputs: int) -> Iterator[None]:
    """Keep the chatter of Blender or Ray off stdout (1) or stderr (2)."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    nothing = os.open(os.devnull, os.O_WRONLY)
    kept = {}
    for output in outputs:
        with contextlib.suppress(OSError):  # closed by whoever started us: nothing to keep
            kept[output] = os.dup(output)
            os.dup2(nothing, output)
    try:
        yield
    finally:
        _libc().fflush(None)
        for output, copy in kept.items():
            os.dup2(copy, output)
            os.close(copy)
        os.close(nothing)
