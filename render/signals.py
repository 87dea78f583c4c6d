"""Signals that wait for what must not be done by half."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def later(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait until the end; and their handlers be the same after it, which Ray changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in signals}
    came = list[int]()
    for number in signals:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for missed in came:
            signal.raise_signal(missed)
