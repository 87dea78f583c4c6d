"""A cluster of three hosts with addresses of their own, started by the words of docs/cluster.md."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cluster.hosts import Host, hosts, possible
from tests.processes import MARK, end, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not possible(), reason="hosts with networks of their own need root, on Linux"),
]

ROOT = Path(__file__).parents[2]
DRAFT = ("--size", 32, "--quality", "draft")
SOON = {"RAY_NUM_REDIS_GET_RETRIES": "3"}
"""Lets Ray give up after three seconds, not after twenty."""

VERSION = version("ident3d")
S3 = 5000
"""The port of the server that speaks S3."""

TIER = """
samples = 512
model = { whiten = true }
supervised = { steps = 60, batch_size = 64, learning_rate = 1e-3, optimizer = "muon", looks = 6 }
unsupervised = { steps = 60, batch_size = 64, learning_rate = 1e-3, optimizer = "muon", looks = 6 }
"""

TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")


def documented(first: Host) -> tuple[list[str], list[str]]:
    """What docs/cluster.md says to type on the first host, and on the others; here each has one core."""
    head, others = re.findall(r"^(ray start [^#\n]+)", (ROOT / "docs" / "cluster.md").read_text(), re.M)
    return [*head.split(), "--num-cpus=1"], [*others.replace("FIRST", first.address).split(), "--num-cpus=1"]


def start(host: Host, words: list[str]) -> None:
    """Start Ray on a host. It gives up after 30 seconds, too few for a busy machine."""

    def started() -> bool:
        if host.run(*words).returncode == 0:
            return True
        host.run("ray", "stop", "--force")
        return False

    wait_for(started)


def cores(host: Host) -> float:
    """How many cores the cluster has that a host is in."""
    return float(re.findall(r"/(\d+\.\d+) CPU", host.run("ray", "status").stdout)[0])


def rendered(folder: Path) -> dict[str, str]:
    """The sha256 of each shard."""
    shards = json.loads((folder / "dataset.json").read_text())["shards"]
    assert shards == sorted(shards, key=lambda shard: shard["file"])
    return {shard["file"]: sha256((folder / shard["file"]).read_bytes()).hexdigest() for shard in shards}


@pytest.fixture(scope="module")
def bare() -> Iterator[list[Host]]:
    """Four hosts on which nothing runs."""
    mark = f"cluster-{os.getpid()}"
    token = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    bucket = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    token["RAY_worker_niceness"] = "0"  # whoever works beside the tests would starve them
    bucket["AWS_ENDPOINT_URL"] = f"http://10.99.0.1:{S3}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "AWS_"))}
    with hosts(4, {**environment, **token, **bucket, MARK: mark, "OMP_NUM_THREADS": "1"}) as made:
        yield made
    end(mark)


@pytest.fixture(scope="module")
def three(bare: list[Host]) -> list[Host]:
    """Three of them as a cluster."""
    first, *others = bare[:3]
    start(first, documented(first)[0])
    for host in others:
        start(host, documented(first)[1])
    wait_for(lambda: cores(first) == 3)
    return bare[:3]


def test_who_has_no_token_or_another_is_told_so(three: list[Host], bare: list[Host], tmp_path: Path) -> None:
    first, stranger = three[0], bare[3]
    command = ("ident", "render", "--n", 16, *DRAFT, "--ray-address", f"{first.address}:6379", "--out", tmp_path / "d")
    for unset, token in (TOKEN, "none"), ((), "another"):
        done = stranger.run(*command, unset=unset, **(SOON if unset else {**SOON, "RAY_AUTH_TOKEN": "another"}))
        assert (done.returncode, done.stdout) == (2, "")
        assert f"it asks for a token, and {token} is set here; export RAY_AUTH_MODE=token" in done.stderr
        assert done.stderr.count("\n") == 1
    done = stranger.run(*documented(first)[1], unset=TOKEN, **SOON)
    assert done.returncode == 1
    assert "Authentication token is missing or incorrect" in done.stderr.strip().splitlines()[-1]
    assert cores(first) == 3
    assert not (tmp_path / "d").exists()


@pytest.fixture
def another_version(bare: list[Host], tmp_path: Path) -> Iterator[Host]:
    """The fourth host, on which ident has another version."""
    (metadata,) = Path(sysconfig.get_path("purelib")).glob("ident3d-*.dist-info/METADATA")
    (tmp_path / "METADATA").write_text(metadata.read_text().replace(f"\nVersion: {VERSION}\n", "\nVersion: 0.0.1\n"))
    assert bare[3].run("mount", "--bind", tmp_path / "METADATA", metadata).returncode == 0
    yield bare[3]
    assert bare[3].run("umount", metadata).returncode == 0


def test_another_version_is_refused(three: list[Host], another_version: Host, tmp_path: Path) -> None:
    first = three[0]
    start(another_version, documented(first)[1])
    wait_for(lambda: cores(first) == 4)
    (tmp_path / "tiny.toml").write_text(TIER)
    for command in (
        ("render", "--n", 64, *DRAFT, "--out", tmp_path / "d"),
        ("bench", "--suite", "table2", "--tier", tmp_path / "tiny.toml", "--out", tmp_path / "results"),
    ):
        done = first.run("ident", *command, "--ray-address", "auto")
        assert done.returncode == 2
        said = f"ident: the worker on {another_version.name} has ident 0.0.1, not {VERSION}: install the same"
        assert done.stderr.splitlines()[-1] == said
    assert another_version.run("ray", "stop", "--force").returncode == 0
    wait_for(lambda: cores(first) == 3)


def test_a_bucket(three: list[Host], tmp_path: Path) -> None:
    first = three[0]
    with first.start(sys.executable, "-m", "moto.server", "--host", first.address, "--port", S3) as server:
        try:
            wait_for(lambda: first.run("curl", "--silent", f"http://{first.address}:{S3}").returncode == 0)
            assert (
                first.run("curl", "--silent", "--request", "PUT", f"http://{first.address}:{S3}/bucket").returncode == 0
            )
            command = ("ident", "render", "--n", 64, *DRAFT, "--out", "s3://bucket/d", "--ray-address", "auto")
            done = three[1].run(*command)
            assert done.returncode == 0, done.stderr
            done = three[2].run("ident", "pull", "s3://bucket/d", "--out", tmp_path / "pulled")
            assert done.returncode == 0, done.stderr
        finally:
            server.kill()
    done = first.run("ident", "render", "--n", 64, *DRAFT, "--out", tmp_path / "alone")
    assert done.returncode == 0, done.stderr
    assert rendered(tmp_path / "pulled") == rendered(tmp_path / "alone")


def test_a_run_on_one_machine_can_be_reached_from_no_other(bare: list[Host], tmp_path: Path) -> None:
    neighbour, host = bare[0], bare[3]
    scan = (
        "import socket\n"
        "for port in range(1, 65536):\n"
        "    with socket.socket() as client:\n"
        "        client.settimeout(5)\n"
        f"        if client.connect_ex(('{host.address}', port)) != 111:\n"  # refused
        "            print(port)\n"
    )
    with host.start(sys.executable, "-m", "http.server", "--bind", host.address, "8000") as server:
        try:
            wait_for(lambda: neighbour.run("curl", "--silent", f"http://{host.address}:8000").returncode == 0)
            out = tmp_path / "d"
            with host.start("ident", "render", "--n", 100_000, *DRAFT, "--out", out, unset=TOKEN) as run:
                try:
                    wait_for(lambda: list(out.glob("shards/*")) or run.poll() is not None)
                    reachable = neighbour.run(sys.executable, "-c", scan)
                    assert run.poll() is None
                finally:
                    run.kill()
        finally:
            server.kill()
    assert (reachable.stdout.split(), reachable.stderr) == (["8000"], "")


GREY = """
import time
import numpy as np
from ident.render.worlds import Factor, Interval, World

def picture(values, size):
    time.sleep(0.05)
    return np.full((size, size, 3), int(100 * (values[0] + 1)), np.uint8)

world = World("grey", (Factor("brightness", Interval(-1, 1)),), picture)
"""


def test_hosts_that_are_lost_and_one_that_comes_back(three: list[Host], tmp_path: Path) -> None:
    """Last of all: a host is cut off in the middle, and another dies with all that runs on it."""
    first, cut, killed = three
    (tmp_path / "grey.py").write_text(GREY)
    command = ("ident", "render", "--world", f"{tmp_path}/grey.py:world", "--n", 480, "--size", 16, "--out")
    done = first.run(*command, tmp_path / "alone", unset=TOKEN)
    assert done.returncode == 0, done.stderr
    (tmp_path / "tiny.toml").write_text(TIER)
    tables = ("--suite", "table2", "--tier", tmp_path / "tiny.toml", "--json")
    done = first.run("ident", "bench", *tables, "--out", tmp_path / "results-alone", "--parallel", unset=TOKEN)
    assert done.returncode == 0, done.stderr
    wanted = json.loads(done.stdout)["rows"]

    shards = tmp_path / "d" / "shards"
    with first.start(*command, tmp_path / "d", "--ray-address", "auto") as run:
        wait_for(lambda: len(list(shards.glob("*"))) >= 6 or run.poll() is not None)
        cut.link("down")
        wait_for(lambda: len(list(shards.glob("*"))) >= 12 or run.poll() is not None)
        killed.kill()
        _, errors = run.communicate()
        assert run.returncode == 0, errors
    assert rendered(tmp_path / "d") == rendered(tmp_path / "alone")

    cut.link("up")
    wait_for(lambda: cores(first) == 1)
    wait_for(lambda: not cut.run("pgrep", "raylet").stdout)
    start(cut, documented(first)[1])
    wait_for(lambda: cores(first) == 2)
    with first.start("ident", "bench", *tables, "--ray-address", "auto", "--out", tmp_path / "results") as run:
        wait_for(lambda: list((tmp_path / "results").glob("*/*/*/result.json")) or run.poll() is not None)
        wait_for(lambda: cut.run("pgrep", "--full", "ray::remotely").stdout or run.poll() is not None)
        assert first.run("pgrep", "--full", "ray::_QueueActor").stdout  # else progress would be lost with its host
        cut.kill()
        out, errors = run.communicate()
        assert run.returncode == 0, errors
    assert json.loads(out)["rows"] == wanted
