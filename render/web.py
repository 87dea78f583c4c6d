"""HTTP: the bytes of a file from any place on, whatever mood the server is in."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from time import sleep
from typing import TypeVar

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError

from ident.render.errors import Failed, Impossible

T = TypeVar("T")
Pause = Callable[[float], object]
"""Waits for so many seconds."""

CHUNK = 2**20
ATTEMPTS = 6  # one after the other that bring nothing
PROGRESS = 2**16  # bytes by which an attempt has brought something
LONGEST_WAIT = 60.0  # seconds between attempts
CONNECT, READ = 15.0, 30.0  # seconds without any answer
SLOWEST, SLOW_FOR = 1000, 30.0
"""Bytes a second below which a connection is given up, measured over so many seconds."""


class Again(Exception):
    """What may pass, and so is worth another attempt: after `wait` seconds, if the server said so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


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
    (pause or sleep)(min(0.25 * 2**failures if error.wait is None else error.wait, LONGEST_WAIT))


def stream(url: str, start: int = 0, pause: Pause | None = None) -> Iterator[bytes]:
    """The bytes of a file from `start` on; FileNotFoundError if there is none."""
    return patiently(lambda place: _chunks(url, place), url, start, pause)


def size(url: str) -> int | None:
    """How many bytes a file has, if the server says so; FileNotFoundError if there is none."""

    def ask() -> int | None:
        response = _open(url, 0)
        length = response.headers.get("Content-Length", "")
        response.close()
        return int(length) if length.isdecimal() else None

    return again(ask, url)


@cache
def _pool(process: int) -> urllib3.PoolManager:
    """The connections of a process: a child makes its own."""
    assert process == os.getpid()
    return urllib3.PoolManager(
        headers={"User-Agent": f"ident/{version('ident')}", "Accept-Encoding": "identity"},
        timeout=urllib3.Timeout(connect=CONNECT, read=READ),
        retries=urllib3.Retry(5, connect=0, read=0, status=0, other=0, respect_retry_after_header=False),
        maxsize=16,
    )


def _open(url: str, start: int) -> urllib3.BaseHTTPResponse:
    """The answer for a file from `start` on, or from its begin if the server does not know ranges."""
    pool = _pool(os.getpid())
    more = {"Range": f"bytes={start}-"} if start else {}
    try:
        response = pool.request("GET", url, headers={**pool.headers, **more}, preload_content=False)
    except LocationParseError as error:
        raise Impossible(f"{url}: is not a URL") from error
    except HTTPError as error:
        raise Again(f"{type(error).__name__}: {error}") from error
    status = response.status
    if status in (200, 206):
        return response
    wait = response.headers.get("Retry-After", "")
    response.close()
    if status in (404, 410):
        raise FileNotFoundError(url)
    if status == 416:
        raise Again(f"answers 416 from byte {start} on")
    if status in (408, 425, 429) or status >= 500:
        raise Again(f"answers {status}", float(wait) if wait.isdecimal() else None)
    raise Failed(f"{url}: answers {status} {response.reason}")


def _chunks(url: str, start: int) -> Iterator[bytes]:
    response = _open(url, start)
    skip = start if response.status == 200 else 0
    came, since = 0, time.monotonic()
    try:
        while chunk := response.read1(CHUNK):
            came += len(chunk)
            if time.monotonic() - since > SLOW_FOR:
                if came < SLOWEST * SLOW_FOR:
                    raise Again(f"brings {came / SLOW_FOR:.0f} bytes a second")
                came, since = 0, time.monotonic()
            if skip < len(chunk):
                yield chunk[skip:]
            skip = max(0, skip - len(chunk))
        response.release_conn()
    except (HTTPError, OSError) as error:
        raise Again(f"broke off ({type(error).__name__})") from error
    finally:
        response.close()
