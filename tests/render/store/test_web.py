"""Servers that cannot be reached, and those that send something else than files."""

from __future__ import annotations

import gzip
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from itertools import chain, repeat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ident.render.errors import Failed, Impossible
from ident.render.store import connections, retries, web
from tests.servers import Moods, serving

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
OWNED = "\x1b]0;owned\x07"
"""What sets the title of a terminal, as it could do worse."""


@pytest.fixture
def moods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moods]:
    monkeypatch.setattr(retries, "sleep", lambda _: None)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.json").write_bytes(b"content")
    with serving(tmp_path / "served") as moods:
        yield moods


def failure(url: str) -> str:
    """What is said of a file that cannot be read."""
    with pytest.raises(Failed) as failed:
        web.read(url, 2**20)
    assert str(failed.value).isprintable()
    return str(failed.value)


def never(_: float) -> None:
    raise AssertionError("waits for what will not pass")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://nowhere.invalid/a", "nowhere.invalid cannot be reached (its name is not known here)"),
        (f"http://{'x' * 64}.invalid/a", f"{'x' * 64}.invalid cannot be reached (its name is not known here)"),
        ("http://127.0.0.1:9/a", "127.0.0.1:9 cannot be reached (Connection refused)"),
        ("http://[::1]:9/a", "::1:9 cannot be reached ("),
    ],
)
def test_a_server_that_cannot_be_reached_is_said_at_once(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FIRST", 60)  # for a slow look-up of names
    monkeypatch.setattr(retries, "sleep", never)
    assert failure(url).startswith(said)


def test_a_server_that_says_nothing_at_all_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "sleep", never)
    monkeypatch.setattr(connections, "FIRST", 0.4)
    with ExitStack() as stack, socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):  # those that fill its queue: no other is answered
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        port = server.getsockname()[1]
        assert failure(f"http://127.0.0.1:{port}/a").startswith(f"127.0.0.1:{port} cannot be reached (no answer)")


def test_one_that_was_reached_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()
    monkeypatch.setattr(retries, "sleep", slept.append)
    (tmp_path / "a.json").write_bytes(b"content")
    with serving(tmp_path) as moods:
        assert web.read(f"{moods.url}/a.json", 7) == b"content"
    assert re.fullmatch(
        r"http://127.*/a\.json: does not answer \(\w+\), 6 times in a row", failure(f"{moods.url}/a.json")
    )
    assert slept == [0.5, 1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("url", ["https:///a", "http://[a/b", "http://a:99999/b"])
def test_what_is_not_a_url(url: str) -> None:
    with pytest.raises(Impossible, match=rf"^{re.escape(repr(url))}: is not a URL$"):
        web.read(url, 9)


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "ftp://host/a", "data:,a", "s3://bucket/a", "http://[a/b", f"javascript:{OWNED}"],
)
def test_a_redirect_to_something_else_is_refused_at_once(
    moods: Moods, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "sleep", never)
    moods.statuses = [(302, {"Location": target})]
    said = f"is redirected to {target!r}; only to http:// and https:// it is followed"
    assert failure(f"{moods.url}/a.json") == f"{moods.url}/a.json: {said}"
    assert len(moods.asked) == 1


def test_redirects_without_an_end(moods: Moods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "sleep", never)
    moods.statuses = [(302, {"Location": f"/{i}"}) for i in range(9)]
    assert failure(f"{moods.url}/a") == f"{moods.url}/a: is redirected more than 5 times, at last to '{moods.url}/5'"


def test_a_redirect_is_followed(moods: Moods) -> None:
    moods.statuses = [(status, {"Location": "a.json"}) for status in (301, 302, 303, 307, 308)]
    assert web.read(f"{moods.url}/b", 7) == b"content"


HOSTILE: dict[str, tuple[Callable[[], Iterable[bytes]], str]] = {
    "a reason": (lambda: [f"HTTP/1.1 403 {OWNED}\r\n\r\n".encode()], "answers 403 Forbidden"),
    "an unknown status": (lambda: [f"HTTP/1.1 299 {OWNED}\r\n\r\n".encode()], "answers 299"),
    "no status": (lambda: [f"{OWNED}\r\n\r\n".encode()], "does not answer (ProtocolError), 2 times in a row"),
    "a part": (lambda: [b"HTTP/1.1 206 OK\r\n\r\n"], "answers 206, a part, to a request for the whole file, 2 times"),
    "gzip": (
        lambda: [OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(bytes(2**26))],
        "comes encoded, 'gzip', which was not asked for: look at its server",
    ),
    "an encoding": (
        lambda: [OK + f"Content-Encoding: br {OWNED}\r\n\r\n".encode()],
        f"comes encoded, {f'br {OWNED}'[:20]!r}, which was not asked for: look at its server",
    ),
    "without an end": (
        lambda: chain([OK + b"\r\n"], repeat(bytes(2**16), 800)),
        "has more than 1048576 bytes",
    ),
    "chunks without an end": (
        lambda: chain([CHUNKED], repeat(b"10000\r\n" + bytes(2**16) + b"\r\n", 800)),
        "has more than 1048576 bytes",
    ),
    "a header of any length": (
        lambda: chain([OK + b"X: "], repeat(b"x" * 2**16, 800)),
        "does not answer (ProtocolError), 2 times in a row",
    ),
    "any number of headers": (
        lambda: chain([OK], repeat(b"X: x\r\n" * 2**13, 800)),
        "does not answer (ProtocolError), 2 times in a row",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_server_may_send_instead(moods: Moods, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "ATTEMPTS", 2)
    pieces, said = HOSTILE[name]
    moods.raw = lambda _: pieces()
    assert failure(f"{moods.url}/a.json").startswith(f"{moods.url}/a.json: {said}")
    assert moods.sent < 400 * 2**16


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (OK + b"Content-Length: 7\r\n", b"X: x\r\n"),  # and never its content
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED + b"7\r\ncontent\r\n0\r\n", b"X: x\r\n"),
    ],
    ids=["headers", "answers that promise another", "trailers"],
)
def test_what_never_ends_is_cut(moods: Moods, begin: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "ATTEMPTS", 2)
    monkeypatch.setattr(connections, "READ", 0.3)
    moods.raw, moods.pause = lambda _: chain([begin], repeat(more, 2000)), 0.01
    assert re.search(r"a\.json: (does not answer|broke off) \(\w+\), 2 times in a row", failure(f"{moods.url}/a.json"))


def test_an_archive_that_is_called_encoded(moods: Moods) -> None:
    packed = gzip.compress(b"an archive")
    moods.raw = lambda _: [OK + b"Content-Encoding: x-gzip\r\n\r\n", packed]
    assert web.read(f"{moods.url}/a.tar.gz", 99) == packed


def test_numbers_that_are_none(moods: Moods) -> None:
    for length in ("9" * 5000, "-1", "seven", "7, 7"):
        moods.raw = lambda _, length=length: [OK + f"Content-Length: {length}\r\n\r\n".encode(), b"content"]  # type: ignore[misc]
        assert web.version(f"{moods.url}/a.json").size is None


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of this machine, and its key, in one file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = tmp_path / "certificate.pem"
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    return path


def test_an_encrypted_connection(tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "sleep", never)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.json").write_bytes(b"content")
    with serving(tmp_path / "served", context) as moods:
        url = f"{moods.url}/a.json"
        assert url.startswith("https://")
        assert failure(url).startswith(f"{url}: its certificate is not to be trusted (")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setattr(web, "pool", cache(connections.pool.__wrapped__))  # the old one knows other certificates
        assert web.read(url, 7) == b"content"
        moods.statuses = [(302, {"Location": "http://127.0.0.1:9/a"})]
        said = "is redirected to 'http://127.0.0.1:9/a', which is not encrypted; give that URL if you trust it"
        assert failure(url) == f"{url}: {said}"
        monkeypatch.setattr(connections, "READ", 0.3)
        monkeypatch.setattr(retries, "ATTEMPTS", 1)
        moods.raw, moods.pause = lambda _: chain([OK], repeat(b"X: x\r\n", 2000)), 0.01
        assert failure(url).startswith(f"{url}: does not answer (")
