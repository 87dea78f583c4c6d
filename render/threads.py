"""The cores of this process, and work in a thread on each, whose results come in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[T], R], items: Iterable[T], *, ahead: int | None = None) -> Iterator[tuple[T, R]]:
    """The items and their results in order, by a thread a core; no more are taken in than these need, or `ahead`."""
    waiting, most = deque[tuple[T, Future[R]]](), 4 * cores() if ahead is None else ahead
    with ThreadPoolExecutor(min(cores(), most)) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > most:
                    first, result = waiting.popleft()
                    yield first, result.result()
            for first, result in waiting:
                yield first, result.result()
        finally:
            pool.shutdown(cancel_futures=True)
