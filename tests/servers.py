"""A web server for tests: it serves a folder, and has its moods."""

from __future__ import annotations

import math
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import pytest
from s3fs import S3FileSystem


@dataclass
class Moods:
    """How a server behaves; each mood is off by itself."""

    folder: Path
    cut: float = 0.0
    """The share of answers that break off at a random place."""
    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """What the next answers are instead."""
    ranges: bool = True
    if_range: bool = True
    """Whether the condition of a range is looked at."""
    marks: Callable[[bytes], dict[str, str]] = lambda _: {}
    """The headers that tell one version of a file from another."""
    shifted: int | None = 0
    """By how much the range that is sent differs from the one that was asked for; None does not say what is sent."""
    breaks: list[int | None] = field(default_factory=list)
    """After how many bytes the next answers break off; None: not at all."""
    raw: Callable[[str], Iterable[bytes] | None] = lambda _: None
    """What is sent instead of an answer, from the first byte on."""
    longer: int = 0
    """By how much Content-Length is wrong for a shard."""
    changed: Callable[[str, bytes], bytes] = lambda _, data: data
    """What is served instead of a file."""
    trickle: float = 0.0
    """Seconds between the single bytes of an answer."""
    pause: float = 0.0
    """Seconds after each piece of an answer."""
    stops_at: float = math.inf
    """After so many bytes in all it sends no more, and does not hang up."""
    redirect: bool = False
    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    conditions: list[str | None] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    sent: int = 0
    closed: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    moods: Moods

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        moods = self.moods
        wanted = self.headers.get("Range")
        moods.asked.append((self.path, wanted))
        moods.conditions.append(self.headers.get("If-Range"))
        moods.agents.add(self.headers.get("User-Agent", ""))
        if (pieces := moods.raw(self.path)) is not None:
            self.send(pieces)
            return
        if moods.redirect and not self.path.startswith("/moved"):
            self.answer(302, {"Location": f"/moved{self.path}"})
            return
        if moods.statuses:
            self.answer(*moods.statuses.pop(0))
            return
        path = moods.folder / self.path.partition("?")[0].removeprefix("/moved").lstrip("/")
        if not path.is_file():
            self.answer(404, {})
            return
        data = moods.changed(self.path, path.read_bytes())
        marks, condition = moods.marks(data), self.headers.get("If-Range")
        if not moods.ranges or (moods.if_range and condition and condition not in marks.values()):
            wanted = None
        start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
        if start and start >= len(data):
            self.answer(416, {})
            return
        begin = start + (moods.shifted or 0 if start else 0)
        body = whole = data[begin:]
        # By the file and how often it was asked for, so that it does not matter which of several threads is first.
        chance = random.Random(f"{path.name} {sum(asked == self.path for asked, _ in moods.asked)}")
        if chance.random() < moods.cut:
            body = body[: chance.randrange(len(body) + 1)]
        if moods.breaks:  # before the headers: who has these may ask for the next answer
            body = body[: moods.breaks.pop(0)]
        self.send_response(206 if start else 200)
        for name, value in marks.items():
            self.send_header(name, value)
        if start and moods.shifted is not None:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(whole) + (moods.longer if path.suffix == ".h5" else 0)))
        self.end_headers()
        step = 1 if moods.trickle else 2**16
        self.send(body[i : i + step] for i in range(0, len(body), step))

    def send(self, pieces: Iterable[bytes]) -> None:
        """Send pieces as long as somebody takes them."""
        moods = self.moods
        self.close_connection = True
        with suppress(OSError):
            for piece in pieces:
                if moods.sent >= moods.stops_at:
                    moods.closed.wait()
                    break
                self.wfile.write(piece)
                moods.sent += len(piece)
                time.sleep(moods.trickle or moods.pause)

    def answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def serving(folder: Path, encryption: ssl.SSLContext | None = None) -> Iterator[Moods]:
    """Serve a folder on this machine; its moods may be changed on the way."""
    moods = Moods(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("MoodyHandler", (Handler,), {"moods": moods}))
    server.daemon_threads = True
    if encryption:
        server.socket = encryption.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    moods.url = f"{'https' if encryption else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield moods
    finally:
        moods.closed.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def as_s3(server: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a server answer what goes to S3."""
    S3FileSystem.clear_instance_cache()  # one that was made before asks the server of then
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        yield
    finally:
        S3FileSystem.clear_instance_cache()
        server.shutdown()
        thread.join()
        server.server_close()
