"""HTTP: the bytes of a file from any place on, whatever mood the server is in, and whatever it sends."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from http.client import responses
from importlib import metadata
from queue import Empty, SimpleQueue
from threading import Event, Thread, Timer
from time import sleep
from typing import Any, Self, TypeVar
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationValueError, SSLError
from urllib3.util import parse_url

from ident.render.errors import Failed, Impossible
from ident.render.store.files import CHUNK

T = TypeVar("T")
Pause = Callable[[float], object]
"""Waits for so many seconds."""

PACKED = {"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"}
"""Encodings whose bytes are not those of the file."""
ATTEMPTS = 6  # one after the other that bring nothing
PROGRESS = 2**16  # bytes by which an attempt has brought something
LONGEST_WAIT = 60.0  # seconds between attempts
FIRST = 4.0  # seconds in which a server is reached for the first time
CONNECT, READ = 15.0, 30.0  # seconds without any answer
SLOWEST, SLOW_FOR = 1000, 30.0
"""Bytes a second below which a connection is given up, measured over so many seconds."""
REDIRECTS = 5
PORTS = {"http": 80, "https": 443}


class Again(Exception):
    """What may pass, and so is worth another attempt: after `wait` seconds, if the server said so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass(frozen=True)
class Version:
    """What tells a file from those that had its name before or get it later, as far as its server says."""

    size: int | None = None
    etag: str = ""
    modified: str = ""
    strong: bool = False
    """Whether files of this ETag, or of this date where there is none, are the same byte by byte."""

    @classmethod
    def of(cls, response: urllib3.BaseHTTPResponse) -> Self:
        """What the headers of an answer say; those of a part say it of the whole file."""
        lines = {name: line for name, line in response.headers.items() if line.isprintable()}
        headers = urllib3.HTTPHeaderDict(lines)
        etag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
        total = headers.get("Content-Range", "").rpartition("/")[2]
        size = _number(total if response.status == 206 else headers.get("Content-Length", ""))
        # A file can be replaced twice in a second: its date tells which one it is once that second is over.
        settled = bool(modified) and headers.get("Date") not in (None, modified)
        return cls(size, etag, modified, strong=etag.startswith('"') if etag else settled)

    @property
    def mark(self) -> str:
        """The best of what tells it from others."""
        return self.etag or self.modified

    def differs(self, other: Version) -> bool:
        """Whether the two cannot be the same."""
        pairs = (self.size, other.size), (self.etag, other.etag), (self.modified, other.modified)
        return any(one != two for one, two in pairs if one not in (None, "") and two not in (None, ""))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


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


def one_version(open_at: Callable[[int, bytes], Iterator[bytes]], what: str, size: int | None) -> Iterator[bytes]:
    """The bytes of one version of a source, as `patiently` has them; `open_at` gets the sha256 of those before, too."""
    seen = sha256()

    def chunks(place: int) -> Iterator[bytes]:
        for chunk in open_at(place, seen.digest()):
            seen.update(chunk)
            place += len(chunk)
            yield chunk
        if size is not None and place < size:
            raise Again(f"ends after {place} bytes of {size}")

    return patiently(chunks, what)


def beyond(chunks: Iterator[bytes], start: int, digest: bytes | None, what: str) -> Iterator[bytes]:
    """What comes after the first `start` bytes, which must have the sha256 `digest`, if one is given."""
    skipped = sha256()
    for chunk in chunks:
        skipped.update(chunk[:start])
        rest, start = chunk[start:], max(0, start - len(chunk))
        if not start:
            if digest not in (None, skipped.digest()):
                raise changed(what)
            digest = None
        if rest:
            yield rest
    if start:
        raise Again(f"ends {start} bytes before the place where it broke off")


def changed(what: str) -> Failed:
    """The error for a file of which one part has come, and of which there is another version now."""
    return Failed(f"{what}: was replaced on its server while it was fetched; type the command again, which begins anew")


def bounded(chunks: Iterator[bytes], most: int, what: str) -> Iterator[bytes]:
    """The same bytes, if there are no more than so many."""
    place = 0
    for chunk in chunks:
        place += len(chunk)
        if place > most:
            raise Failed(f"{what}: has more than {most} bytes")
        yield chunk


def stream(url: str, start: int = 0, pause: Pause | None = None, version: Version | None = None) -> Iterator[bytes]:
    """The bytes of a file from `start` on; FileNotFoundError if there is none.

    Without a version they may be of several, one after the other: the caller has a checksum. With one, it is begun at
    the first byte, and nothing that may be of another version follows.
    """
    if version is None:
        return patiently(lambda place: _chunks(url, place), url, start, pause)
    return one_version(lambda place, seen: _chunks(url, place, version, seen), url, version.size)


def read(url: str, most: int) -> bytes:
    """A small file's content; FileNotFoundError if there is none. Where it breaks off, it is fetched anew."""
    return again(lambda: b"".join(bounded(_chunks(url, 0), most, url)), url)


def version(url: str) -> Version:
    """Which file there is; FileNotFoundError if there is none."""

    def ask() -> Version:
        response = _open(url, 0)
        response.close()
        return Version.of(response)

    return again(ask, url)


@contextmanager
def _limited(shutdown: Callable[[], object]) -> Iterator[None]:
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
        with _limited(partial(self.sock.shutdown, socket.SHUT_RD)):
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
def _pool(process: int) -> urllib3.PoolManager:
    """The connections of a process: a child makes its own."""
    assert process == os.getpid()
    pool = urllib3.PoolManager(
        headers={"User-Agent": f"ident/{metadata.version('ident3d')}", "Accept-Encoding": "identity"},
        timeout=urllib3.Timeout(connect=CONNECT, read=READ),
        maxsize=16,
    )
    pool.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
    return pool


@cache
def _reach(host: str, port: int) -> None:
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


def _ask(url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
    """The answer of the server, or of the one that it names instead: 200, 206 or 416."""
    place = url
    for _ in range(REDIRECTS + 1):
        response = _ask_one(url, place, headers)
        location = response.get_redirect_location()
        if not location:
            return _checked(url, response)
        response.close()
        place = _redirected(url, place, location)
    raise Failed(f"{url}: is redirected more than {REDIRECTS} times, at last to {place!r}")


def _ask_one(url: str, place: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
    pool = _pool(os.getpid())
    options: dict[str, Any] = {"preload_content": False, "decode_content": False, "redirect": False, "retries": False}
    try:
        scheme, _, host, port, *_ = parse_url(place)
        if host:
            _reach(host.strip("[]"), port or PORTS[scheme or "http"])
        return pool.request("GET", place, headers={**pool.headers, **headers}, **options)
    except LocationValueError as error:
        raise (Impossible if place == url else Failed)(f"{place!r}: is not a URL") from error
    except SSLError as error:
        if isinstance(error.args[0], ssl.SSLCertVerificationError):
            raise Failed(f"{url}: its certificate is not to be trusted ({error.args[0].verify_message})") from error
        raise Again("breaks off the encryption") from error
    except HTTPError as error:
        raise Again(f"does not answer ({type(error).__name__})") from error


def _redirected(url: str, place: str, location: str) -> str:
    """Where a server sends us, if it may: to the web, and from an encrypted connection to no other."""
    try:
        target = urljoin(place, location)
        scheme = urlsplit(target).scheme
    except ValueError:
        target, scheme = location, ""
    if scheme not in PORTS:
        raise Failed(f"{url}: is redirected to {target!r}; only to http:// and https:// it is followed")
    if scheme == "http" and urlsplit(place).scheme == "https":
        raise Failed(f"{url}: is redirected to {target!r}, which is not encrypted; give that URL if you trust it")
    return target


def _checked(url: str, response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    """An answer, if it is one with a file. Its words stay unsaid: a terminal may take them for commands."""
    status = response.status
    if status in (200, 206, 416):
        encoding = response.headers.get("Content-Encoding", "identity")
        # A packed archive is called encoded by some servers: the bytes are the archive's all the same.
        if PACKED & set(re.findall(r"[\w-]+", encoding.lower())) and not re.search(r"\.(tar|tgz)", url):
            response.close()
            raise Failed(f"{url}: comes encoded, {encoding[:20]!r}, which was not asked for: look at its server")
        return response
    wait = response.headers.get("Retry-After", "")
    response.close()
    if status in (404, 410):
        raise FileNotFoundError(url)
    if status in (408, 425, 429) or status >= 500:
        raise Again(f"answers {status}", _number(wait))
    raise Failed(f"{url}: answers {status} {responses.get(status, '')}".rstrip())


def _open(url: str, start: int, version: Version | None = None) -> urllib3.BaseHTTPResponse:
    """The answer for a file from `start` on, or from its begin: where it is no version that could be gone on with."""
    if start and (version is None or version.strong):
        same = {"If-Range": version.mark} if version else {}
        response = _ask(url, {"Range": f"bytes={start}-", **same})
        if response.status == 200 or (response.status == 206 and _goes_on(response, start, version)):
            return response
        response.close()
        if response.status == 416 and version is None:
            raise Again(f"answers 416 from byte {start} on")
    response = _ask(url, {})
    if response.status != 200:
        response.close()
        raise Again(f"answers {response.status}, a part, to a request for the whole file")
    return response


def _goes_on(response: urllib3.BaseHTTPResponse, start: int, version: Version | None) -> bool:
    """Whether a part begins where it should, and is one of this very version or of an evident other one."""
    place = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", response.headers.get("Content-Range", ""))
    if place is None or int(place[1]) != start:
        return False
    if version is None:
        return True
    part = Version.of(response)
    return part.mark == version.mark or part.differs(version)


def _chunks(url: str, start: int, version: Version | None = None, digest: bytes | None = None) -> Iterator[bytes]:
    """The bytes from `start` on, without another attempt; those before have this sha256, where a version is given."""
    response = _open(url, start, version)
    try:
        if version and version.differs(Version.of(response)):
            raise changed(url)
        chunks = _body(response)
        yield from beyond(chunks, start, digest, url) if response.status == 200 and start else chunks
        response.release_conn()
    except (HTTPError, OSError) as error:
        raise Again(f"broke off ({type(error).__name__})") from error
    finally:
        response.close()


def _body(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    came, since = 0, time.monotonic()
    while True:
        with _limited(response.shutdown) if response.chunked else nullcontext():  # which may have endless trailers
            chunk = response.read1(CHUNK)
        if not chunk:
            return
        came += len(chunk)
        if time.monotonic() - since > SLOW_FOR:
            if came < SLOWEST * SLOW_FOR:
                raise Again(f"brings {came / SLOW_FOR:.0f} bytes a second")
            came, since = 0, time.monotonic()
        yield chunk
