"""A pull over loopback against curl: the same bytes from the same server, checksums included."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ident.render.exchange import pull as pulling
from ident.render.store.files import sha256
from ident.render.store.manifest import Manifest, Record
from ident.render.store.storage import Storage
from tests.render.engines import RECIPE

SHARDS, SIZE = 64, 30_000_000  # bytes, as a shard of 1,000 images in `fast` has
ROUNDS = 5


def make(folder: Path) -> Manifest:
    """Files that a manifest lists: for a transfer it does not matter what is in them."""
    (folder / "shards").mkdir(parents=True)
    recipe = replace(RECIPE, shard_size=1)
    empty, records = Manifest.of(recipe, SHARDS, {}), {}
    noise = np.random.default_rng(0)
    for i in range(SHARDS):
        path = folder / empty.span(i).file
        path.write_bytes(noise.bytes(SIZE))
        records[i] = Record(i, 1, SIZE, sha256(path), (0,) * 6)
    manifest = Manifest.of(recipe, SHARDS, records)
    (folder / "dataset.json").write_text(manifest.to_json())
    return manifest


def by_curl(url: str, manifest: Manifest, out: Path) -> None:
    """The shards by one curl, and nothing checked."""
    out.mkdir()
    files = [word for i in range(SHARDS) for word in ("-O", f"{url}/{manifest.span(i).file}")]
    subprocess.run(["curl", "--silent", "--fail", *files], cwd=out, check=True)


def measure() -> Iterator[dict[str, Any]]:
    """One ratio."""
    with tempfile.TemporaryDirectory() as root, socket.socket() as free:
        folder = Path(root)
        manifest = make(folder / "d")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", root, str(port)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url, taken = f"http://127.0.0.1:{port}/d", defaultdict[str, list[float]](list)
            wait = ["curl", "--silent", "--fail", "--retry", "9", "--retry-connrefused", "-o", "/dev/null"]
            subprocess.run([*wait, f"{url}/dataset.json"], check=True)
            ways: dict[str, Callable[[Path], object]] = {
                "curl": lambda out: by_curl(url, manifest, out),
                "pull": lambda out: pulling.pull([Storage(url)], Storage(str(out)), force=False, tell=lambda *_: None),
            }
            for _ in range(1 + ROUNDS):  # in turns, so that both see the same machine
                for name, way in ways.items():
                    os.sync()  # neither waits for what the other left to be written, or for memory that it left full
                    start = time.monotonic()
                    way(folder / name)
                    taken[name].append(time.monotonic() - start)
                    os.sync()
                    taken[f"{name} and a sync"].append(time.monotonic() - start)
                    shutil.rmtree(folder / name)
        finally:
            server.kill()
            server.wait()
    times = {name: float(np.median(found[1:])) for name, found in taken.items()}
    rate = SHARDS * SIZE / 1e6
    yield {
        "name": "transfer.pull",
        "ratio": round(times["curl"] / times["pull"], 2),
        "bar": 0.8,
        "quality": 1.0,
        "unit": "of curl's speed, with checksums",
        "note": f"{SHARDS} shards of {SIZE / 1e6:.0f} MB, in MB/s: "
        + ", ".join(f"{name} {rate / taken:.0f}" for name, taken in times.items()),
    }
