"""Connections to web servers: reached at once or not at all, and cut where they never end.

urllib3 limits how long a server may be silent. It limits neither the look-up of its name nor headers that a byte now
and then keeps alive.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import metadata
from queue import Empty, SimpleQueue
from threading import Event, Thread, Timer
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from ident.render.errors import Failed

FIRST = 4.0  # seconds in which a server is reached for the first time
CONNECT, READ = 15.0, 30.0  # seconds without any answer
PORTS = {"http": 80, "https": 443}


@contextmanager
def limited(shutdown: Callable[[], object]) -> Iterator[None]:
    """Cut a connection where a step takes too long: each byte of an endless header keeps a socket from timing out."""
    late = Event()

    def cut() -> None:
        late.set()
        with suppress(OSError, RuntimeError, ValueError):  # it ended in this moment
            shutdown()

    timer = Timer(READ, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError


class _Headers:
    """Lets the headers of an answer take no longer than READ."""

    def getresponse(self: Any) -> Any:
        with limited(partial(self.sock.shutdown, socket.SHUT_RD)):
            return super().getresponse()  # type: ignore[misc]


class _HTTP(_Headers, HTTPConnection):
    """A plain connection."""


class _HTTPS(_Headers, HTTPSConnection):
    """An encrypted connection."""


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HTTP


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HTTPS


@cache
def pool(process: int) -> urllib3.PoolManager:
    """The connections of a process: a child makes its own."""
    assert process == os.getpid()
    connections = urllib3.PoolManager(
        headers={"User-Agent": f"ident/{metadata.version('ident3d')}", "Accept-Encoding": "identity"},
        timeout=urllib3.Timeout(connect=CONNECT, read=READ),
        maxsize=16,
    )
    connections.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
    return connections


@cache
def reach(host: str, port: int) -> None:
    """Connect to a server for the first time: if that fails, it hardly helps to try again, and somebody waits.

    In a thread, since there is no other limit to how long the look-up of a name takes.
    """
    outcome = SimpleQueue[Exception | None]()

    def connect() -> None:
        try:
            socket.create_connection((host, port), FIRST / 2).close()  # of several addresses the first may be dead
        except (OSError, UnicodeError) as error:
            outcome.put(error)
        else:
            outcome.put(None)

    Thread(target=connect, daemon=True).start()
    try:
        error = outcome.get(timeout=FIRST)
    except Empty:
        error = TimeoutError()
    match error:
        case None:
            return
        case socket.gaierror() | UnicodeError():
            why = "its name is not known here"
        case TimeoutError():
            why = "no answer"
        case _:
            why = getattr(error, "strerror", None) or type(error).__name__
    name = host if port in PORTS.values() else f"{host}:{port}"
    raise Failed(f"{name} cannot be reached ({why}): is there a network?") from error
