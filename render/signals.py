"""Signals that wait for what must not be done by half."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def later(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait until the end. Who sets their handlers meanwhile is not heard: Ray does as it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in signals}
    came, set_handler = list[int](), signal.signal
    for number in signals:
        signal.signal(number, lambda number, _: came.append(number))

    def set_other(number: int, handler: Any) -> Any:
        return signal.getsignal(number) if number in handlers else set_handler(number, handler)

    signal.signal = set_other  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = set_handler
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for missed in came:
            signal.raise_signal(missed)
