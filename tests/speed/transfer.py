"""A pull over loopback against curl: the same bytes from the same server, checksums included."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ident.render import transfer
from ident.render.manifest import Manifest, Record
from ident.render.storage import Storage, sha256
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
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        manifest = make(folder / "d")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", name, str(port)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url, taken = f"http://127.0.0.1:{port}/d", {"curl": list[float](), "pull": list[float]()}
            subprocess.run(
                [
                    "curl",
                    "--silent",
                    "--fail",
                    "--retry",
                    "9",
                    "--retry-connrefused",
                    "-o",
                    "/dev/null",
                    f"{url}/dataset.json",
                ],
                check=True,
            )
            for i in range(ROUNDS):  # in turns, so that both see the same machine
                os.sync()  # so that neither waits for what the other left to be written
                start = time.monotonic()
                by_curl(url, manifest, folder / f"curl{i}")
                taken["curl"].append(time.monotonic() - start)
                os.sync()
                start = time.monotonic()
                transfer.pull([Storage(url)], Storage(f"{folder}/pull{i}"), force=False, tell=lambda *_: None)
                taken["pull"].append(time.monotonic() - start)
                for made in (f"curl{i}", f"pull{i}"):
                    subprocess.run(["rm", "-r", folder / made], check=True)
        finally:
            server.kill()
            server.wait()
    times = {name: float(np.median(found)) for name, found in taken.items()}
    rate = SHARDS * SIZE / 1e6
    yield {
        "name": "transfer.pull",
        "ratio": round(times["curl"] / times["pull"], 2),
        "bar": 0.8,
        "quality": 1.0,
        "unit": "of curl's speed, with checksums",
        "note": f"{SHARDS} shards of {SIZE / 1e6:.0f} MB: pull {rate / times['pull']:.0f} MB/s, "
        f"curl {rate / times['curl']:.0f} MB/s",
    }
