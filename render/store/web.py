"""HTTP: the bytes of a file from any place on, of the version that is wanted, whatever a server sends instead.

What is tried again, and how often, is in `retries`. urllib3's own retries would not go on in the middle of a file, nor
end with the other threads; its redirects would leave an encrypted connection.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from http.client import responses
from typing import Any
from urllib.parse import urljoin, urlsplit

from urllib3 import BaseHTTPResponse, HTTPHeaderDict
from urllib3.exceptions import HTTPError, LocationValueError, SSLError
from urllib3.util import parse_url

from ident.render.errors import Failed, Impossible
from ident.render.store.connections import PORTS, limited, pool, reach
from ident.render.store.files import CHUNK, bounded
from ident.render.store.retries import Again, Pause, again, may_pass, patiently
from ident.render.store.versions import Version, beyond, changed, one_version

PACKED = {"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"}
"""Encodings whose bytes are not those of the file."""
SLOWEST, SLOW_FOR = 1000, 30.0
"""Bytes a second below which a connection is given up, measured over so many seconds."""
REDIRECTS = 5


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
        return _version_of(response)

    return again(ask, url)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _version_of(response: BaseHTTPResponse) -> Version:
    """What the headers of an answer say of the file; those of a part say it of the whole."""
    lines = {name: line for name, line in response.headers.items() if line.isprintable()}
    headers = HTTPHeaderDict(lines)
    etag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
    total = headers.get("Content-Range", "").rpartition("/")[2]
    size = _number(total if response.status == 206 else headers.get("Content-Length", ""))
    # A file can be replaced twice in a second: its date tells which one it is once that second is over.
    settled = bool(modified) and headers.get("Date") not in (None, modified)
    return Version(size, etag, modified, strong=etag.startswith('"') if etag else settled)


def _ask(url: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
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


def _ask_one(url: str, place: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
    connections = pool(os.getpid())
    options: dict[str, Any] = {"preload_content": False, "decode_content": False, "redirect": False, "retries": False}
    try:
        scheme, _, host, port, *_ = parse_url(place)
        if host:
            reach(host.strip("[]"), port or PORTS[scheme or "http"])
        return connections.request("GET", place, headers={**connections.headers, **headers}, **options)
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


def _checked(url: str, response: BaseHTTPResponse) -> BaseHTTPResponse:
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
    if may_pass(status):
        raise Again(f"answers {status}", _number(wait))
    raise Failed(f"{url}: answers {status} {responses.get(status, '')}".rstrip())


def _open(url: str, start: int, version: Version | None = None) -> BaseHTTPResponse:
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


def _goes_on(response: BaseHTTPResponse, start: int, version: Version | None) -> bool:
    """Whether a part begins where it should, and is one of this very version or of an evident other one."""
    place = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", response.headers.get("Content-Range", ""))
    if place is None or int(place[1]) != start:
        return False
    if version is None:
        return True
    part = _version_of(response)
    return part.mark == version.mark or part.differs(version)


def _chunks(url: str, start: int, version: Version | None = None, digest: bytes | None = None) -> Iterator[bytes]:
    """The bytes from `start` on, without another attempt; those before have this sha256, where a version is given."""
    response = _open(url, start, version)
    try:
        if version and version.differs(_version_of(response)):
            raise changed(url)
        chunks = _body(response)
        yield from beyond(chunks, start, digest, url) if response.status == 200 and start else chunks
        response.release_conn()
    except (HTTPError, OSError) as error:
        raise Again(f"broke off ({type(error).__name__})") from error
    finally:
        response.close()


def _body(response: BaseHTTPResponse) -> Iterator[bytes]:
    came, since = 0, time.monotonic()
    while True:
        with limited(response.shutdown) if response.chunked else nullcontext():  # which may have endless trailers
            chunk = response.read1(CHUNK)
        if not chunk:
            return
        came += len(chunk)
        if time.monotonic() - since > SLOW_FOR:
            if came < SLOWEST * SLOW_FOR:
                raise Again(f"brings {came / SLOW_FOR:.0f} bytes a second")
            came, since = 0, time.monotonic()
        yield chunk
