"""Pulls under a hostile server, pushes that nobody sees half of, and interruptions that lose nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from ident.render.errors import Failed, Impossible
from ident.render.exchange import copying
from ident.render.exchange import pull as pulling
from ident.render.exchange.push import push as push_to
from ident.render.store import manifest, retries, web
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from ident.render.store.verify import verify
from tests.processes import wait_for
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import WANTED, N, paint
from tests.servers import Moods, serving


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of three shards."""
    folder = tmp_path_factory.mktemp("painted")
    paint(folder / "d", replace(RECIPE, passes=("normal",)))
    return folder


@pytest.fixture
def moods(painted: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moods]:
    monkeypatch.setattr(retries, "sleep", lambda _: None)
    monkeypatch.setattr(copying.Count, "pause", lambda *_: None)
    with serving(painted) as made:
        yield made


def pull(url: str, out: Path, *mirrors: str, force: bool = False) -> list[tuple[int, int]]:
    told = list[tuple[int, int]]()
    sources = [Storage(f"{each}/d") for each in (url, *mirrors)]
    pulling.pull(sources, Storage(str(out)), force=force, tell=lambda *far: told.append(far))
    return told


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.suffix}


def same(out: Path, painted: Path) -> bool:
    return all(
        (out / name).read_bytes() == (painted / "d" / name).read_bytes()
        for name in ("dataset.json", *(f"shards/0000{i}.h5" for i in range(3)))
    )


def test_a_pull_brings_the_same_bytes(moods: Moods, painted: Path, tmp_path: Path) -> None:
    told = pull(moods.url, tmp_path / "d")
    assert same(tmp_path / "d", painted)
    assert np.array_equal(Dataset(tmp_path / "d").images(range(N)), WANTED)
    size = Manifest.read(Storage(str(painted / "d"))).disk
    assert (told[0], told[-1]) == ((0, size), (size, size))
    assert all(agent.startswith("ident/") for agent in moods.agents)
    asked = len(moods.asked)
    assert pull(moods.url, tmp_path / "d")[-1] == (size, size)
    assert len(moods.asked) - asked <= 2  # the manifest alone
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [".lock", "dataset.json", "shards"]


@pytest.mark.parametrize(
    "mood",
    [
        {"cut": 0.6},
        {"cut": 0.3, "ranges": False},
        {"statuses": [(429, {"Retry-After": "1"}), (503, {}), (500, {}), (429, {"Retry-After": "Wed, 21 Oct 2015"})]},
        {"ranges": False},
        {"cut": 0.3, "shifted": -7},
        {"cut": 0.3, "shifted": None},
        {"redirect": True},
    ],
    ids=str,
)
def test_bad_days_of_a_server(moods: Moods, painted: Path, tmp_path: Path, mood: dict[str, Any]) -> None:
    for name, value in mood.items():
        setattr(moods, name, value)
    pull(moods.url, tmp_path / "d")
    assert same(tmp_path / "d", painted)


def test_waits_as_long_as_the_server_says(moods: Moods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()
    monkeypatch.setattr(retries, "sleep", slept.append)
    moods.statuses = [(429, {"Retry-After": "7"}), (503, {"Retry-After": "100000"}), (503, {})]
    pull(moods.url, tmp_path / "d")
    assert slept == [7.0, 60.0, 2.0]


def test_a_content_length_that_is_wrong(moods: Moods, painted: Path, tmp_path: Path) -> None:
    moods.longer = 1000
    pull(moods.url, tmp_path / "long")
    assert same(tmp_path / "long", painted)
    moods.longer = -100  # the last 100 bytes never come
    with pytest.raises(Failed, match=r"shards/0000\d\.h5: arrived damaged 3 times"):
        pull(moods.url, tmp_path / "short")


def test_a_changed_byte_is_fetched_again_and_after_three_times_named(
    moods: Moods, painted: Path, tmp_path: Path
) -> None:
    left = [2]

    def changed(path: str, data: bytes) -> bytes:
        if not path.endswith("00001.h5") or left[0] == 0:
            return data
        left[0] -= 1
        return data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]

    moods.changed = changed
    pull(moods.url, tmp_path / "d")
    assert same(tmp_path / "d", painted)
    left[0] = 3
    with pytest.raises(Failed, match=r"shards/00001\.h5: arrived damaged 3 times, its sha256 is [0-9a-f]{64}, not"):
        pull(moods.url, tmp_path / "e")
    assert not (tmp_path / "e" / "dataset.json").exists()
    left[0] = 3
    with serving(painted) as mirror:
        pull(moods.url, tmp_path / "e", mirror.url)
    assert same(tmp_path / "e", painted)


def test_a_slow_trickle_is_given_up(moods: Moods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "SLOW_FOR", 0.3)
    monkeypatch.setattr(retries, "ATTEMPTS", 2)
    moods.trickle = 0.01
    with pytest.raises(Failed, match=r"dataset\.json: brings \d+ bytes a second, 2 times in a row"):
        pull(moods.url, tmp_path / "d")


def test_half_a_shard_is_not_fetched_again(moods: Moods, painted: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(Storage(str(painted / "d")))
    parts = tmp_path / "d" / ".parts"
    parts.mkdir(parents=True)
    for i, record in manifest.shards.items():
        data = (painted / "d" / manifest.span(i).file).read_bytes()
        (parts / f"{i:05d}.{record.sha256[:16]}").write_bytes(data[: len(data) // 2])
    told = pull(moods.url, tmp_path / "d")
    assert same(tmp_path / "d", painted)
    ranges = {path: wanted for path, wanted in moods.asked if path.endswith(".h5")}
    assert ranges == {f"/d/shards/0000{i}.h5": f"bytes={record.bytes // 2}-" for i, record in manifest.shards.items()}
    assert told[-1][0] == manifest.disk
    (parts / "x").parent.mkdir()
    shard = manifest.shards[0]
    (tmp_path / "d" / "shards" / "00000.h5").unlink()
    (parts / f"00000.{shard.sha256[:16]}").write_bytes(b"wrong" * 100)  # a part that is damaged
    pull(moods.url, tmp_path / "d")
    assert same(tmp_path / "d", painted)


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "the number of shards is 200000, not": lambda made: made.update(n=200_000, shard_size=1),
    "a shard '../../etc/passwd'": lambda made: made["shards"][0].update(file="../../etc/passwd"),
    "a shard '/etc/passwd'": lambda made: made["shards"][0].update(file="/etc/passwd"),
    "n is 1000000000000000": lambda made: made.update(n=10**15),
    "bytes is": lambda made: made["shards"][0].update(bytes=10**20),
}


@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_manifest_is_refused(moods: Moods, tmp_path: Path, said: str) -> None:
    def changed(path: str, data: bytes) -> bytes:
        if not path.endswith("dataset.json"):
            return data
        made = json.loads(data)
        HOSTILE[said](made)
        return json.dumps(made).encode()

    moods.changed = changed
    with pytest.raises(Failed, match=said):
        pull(moods.url, tmp_path / "d")
    assert not (tmp_path / "d").exists()


def without_an_end(moods: Moods, name: str) -> None:
    """Let a file go on for 50 MB."""

    def endless(path: str) -> Iterator[bytes] | None:
        if not path.endswith(name):
            return None
        content = (moods.folder / path.lstrip("/")).read_bytes()
        return chain([b"HTTP/1.0 200 OK\r\n\r\n", content], repeat(b" " * 2**16, 800))

    moods.raw = endless


def test_a_manifest_without_an_end(moods: Moods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "LARGEST_MANIFEST", 2**20)
    without_an_end(moods, "dataset.json")
    reads: list[Callable[[str], object]] = [
        Dataset,
        lambda place: verify(place, done=lambda *_: None),
        lambda place: Manifest.read(Storage(place)),
    ]
    for read in reads:
        moods.sent = 0
        with pytest.raises(Failed, match=r"/d/dataset\.json: has more than 1048576 bytes$"):
            read(f"{moods.url}/d")
        assert moods.sent < 400 * 2**16  # what did not fit into the buffers on the way


def test_a_shard_without_an_end(moods: Moods, painted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path / "cache"))
    size = Manifest.read(Storage(str(painted / "d"))).shards[1].bytes
    without_an_end(moods, "00001.h5")
    said = rf"{moods.url}/d/shards/00001\.h5: has more than {size} bytes$"
    with pytest.raises(Failed, match=said):
        Dataset(f"{moods.url}/d").image(8)
    (wrong,) = verify(f"{moods.url}/d", done=lambda *_: None).wrong
    assert re.search(said, wrong)
    assert moods.sent < 2 * 400 * 2**16
    assert not list((tmp_path / "cache").rglob("*.h5"))
    pull(moods.url, tmp_path / "d")  # which takes what belongs to it
    assert same(tmp_path / "d", painted)


def test_a_shard_larger_than_the_disk_is_not_begun(
    moods: Moods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path / "cache"))

    def changed(_: str, data: bytes) -> bytes:
        made = json.loads(data)
        made["shards"][1]["bytes"] = 10 * 10**12
        return json.dumps(made).encode()

    moods.changed = changed
    with pytest.raises(
        Impossible, match=r"10000\.00 GB of http.*/d/shards/00001\.h5 are to come, .* GB are free there"
    ):
        Dataset(f"{moods.url}/d").image(8)
    assert [path for path, _ in moods.asked] == ["/d/dataset.json"]


def test_a_manifest_of_terabytes_is_refused(moods: Moods, tmp_path: Path) -> None:
    def changed(_: str, data: bytes) -> bytes:
        made = json.loads(data)
        made["shards"][0]["bytes"] = 10 * 10**12
        return json.dumps(made).encode()

    moods.changed = changed
    with pytest.raises(Impossible, match=r"10000\.\d+ GB are to come, .* GB are free there: give another --out"):
        pull(moods.url, tmp_path / "d")


def test_a_million_shards_are_refused(moods: Moods, tmp_path: Path) -> None:
    def changed(_: str, data: bytes) -> bytes:
        made = json.loads(data)
        one = made["shards"][0] | {"n": 1, "sums": [0] * 6}
        shards = [one | {"start": i, "file": f"shards/{i:05d}.h5"} for i in range(10**6)]
        return json.dumps(made | {"n": 10**6, "shard_size": 1, "shards": shards}).encode()

    moods.changed = changed
    with pytest.raises(Failed, match=r"dataset\.json: has more than 67108864 bytes$"):
        pull(moods.url, tmp_path / "d")


def test_what_is_not_there(moods: Moods, tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="nothing: no dataset there"):
        pulling.pull([Storage(f"{moods.url}/nothing")], Storage(str(tmp_path)), force=False, tell=lambda *_: None)
    moods.statuses = [(403, {})]
    with pytest.raises(Failed, match=r"dataset\.json: answers 403"):
        pull(moods.url, tmp_path / "d")


def test_another_dataset_is_not_overwritten(moods: Moods, painted: Path, tmp_path: Path) -> None:
    paint(tmp_path / "d", RECIPE, 9)
    before = content(tmp_path / "d")
    with pytest.raises(Impossible, match="holds another dataset: give --force"):
        pull(moods.url, tmp_path / "d")
    with pytest.raises(Impossible, match="holds another dataset: give --force"):
        push(painted / "d", str(tmp_path / "d"))
    assert content(tmp_path / "d") == before
    pull(moods.url, tmp_path / "d", force=True)
    assert same(tmp_path / "d", painted)


def test_the_place_itself_is_refused(painted: Path, tmp_path: Path) -> None:
    paint(tmp_path / "d")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    before = content(tmp_path / "d")
    with pytest.raises(Impossible, match="are the same place; give another --out"):
        pull(str(tmp_path), tmp_path / "link", force=True)
    with pytest.raises(Impossible, match="are the same place; give another --out"):
        pull(str(painted), tmp_path / "d", str(tmp_path), force=True)
    with pytest.raises(Impossible, match="are the same place; give another DEST"):
        push_to(Storage(str(tmp_path / "d")), Storage(f"{tmp_path}/x/../d", "DEST"), force=True, tell=lambda *_: None)
    assert content(tmp_path / "d") == before


def test_a_forced_pull_that_was_stopped_goes_on(moods: Moods, painted: Path, tmp_path: Path) -> None:
    paint(tmp_path / "d", RECIPE, 9)
    moods.changed = lambda path, data: data[: len(data) // 2] if path.endswith("00002.h5") else data
    with pytest.raises(Failed, match=r"00002\.h5: .* times in a row"):
        pull(moods.url, tmp_path / "d", force=True)
    moods.changed = lambda _, data: data
    there = len(list((tmp_path / "d" / "shards").glob("*.h5")))
    assert there == 2
    asked = len(moods.asked)
    pull(moods.url, tmp_path / "d", force=True)
    assert same(tmp_path / "d", painted)
    shards = [(path, wanted) for path, wanted in moods.asked[asked:] if path.endswith(".h5")]
    assert [path for path, _ in shards] == ["/d/shards/00002.h5"]
    assert shards[0][1] is not None


def test_a_begun_import_is_not_overwritten(moods: Moods, painted: Path, tmp_path: Path) -> None:
    (tmp_path / "d" / ".parts").mkdir(parents=True)
    for name in (".imported", ".parts/0-00000.part"):
        (tmp_path / "d" / name).write_text("{}")
    with pytest.raises(Impossible, match="holds another dataset: give --force"):
        pull(moods.url, tmp_path / "d")
    assert (tmp_path / "d" / ".parts" / "0-00000.part").exists()
    pull(moods.url, tmp_path / "d", force=True)
    assert same(tmp_path / "d", painted)
    assert not (tmp_path / "d" / ".imported").exists()


def test_the_next_source_is_tried(moods: Moods, painted: Path, tmp_path: Path) -> None:
    (tmp_path / "lacks" / "d" / "shards").mkdir(parents=True)
    for name in ("dataset.json", "shards/00000.h5", "shards/00002.h5"):
        (tmp_path / "lacks" / "d" / name).write_bytes((painted / "d" / name).read_bytes())
    with serving(tmp_path / "lacks") as lacking:
        pull(lacking.url, tmp_path / "one", moods.url)
        assert same(tmp_path / "one", painted)
        with pytest.raises(Failed, match=r"shards/00001\.h5: is missing"):
            pull(lacking.url, tmp_path / "none", str(tmp_path / "lacks"))

    told = pull("http://127.0.0.1:9", tmp_path / "three", moods.url)
    assert same(tmp_path / "three", painted)
    assert told[-1][0] == told[-1][1]


def test_an_interrupt_ends_the_longest_wait(moods: Moods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    count = copying.Count(1, lambda *_: None)
    moods.statuses = [(503, {"Retry-After": "60"})] * 9
    pieces = Storage(moods.url).stream("d/dataset.json", 0, count.pause)

    def stop_when_asked() -> None:
        wait_for(lambda: moods.asked)
        count.stop.set()

    stop = Thread(target=stop_when_asked)
    stop.start()
    with pytest.raises(copying.Stopped):
        next(pieces)
    stop.join()
    assert len(moods.asked) == 1


def push(source: Path, out: str, *, force: bool = False) -> None:
    push_to(Storage(str(source)), Storage(out), force=force, tell=lambda *_: None)


def test_a_push_brings_the_same_bytes_and_goes_on(
    painted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = list[str]()
    put = Storage.put

    def noted(self: Storage, local: Path, name: str) -> None:
        order.append(name)
        put(self, local, name)

    monkeypatch.setattr(Storage, "put", noted)
    push(painted / "d", str(tmp_path / "d"))
    assert same(tmp_path / "d", painted)
    (tmp_path / "d" / "dataset.json").unlink()
    (tmp_path / "d" / "shards" / "00001.h5").unlink()
    order.clear()
    push(painted / "d", str(tmp_path / "d"))
    assert order == ["shards/00001.h5"]
    assert same(tmp_path / "d", painted)


def test_a_damaged_dataset_is_not_pushed(painted: Path, tmp_path: Path) -> None:
    push(painted / "d", str(tmp_path / "d"))
    shard = tmp_path / "d" / "shards" / "00001.h5"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(Failed, match=r"00001\.h5: is damaged, its sha256 is"):
        push(tmp_path / "d", str(tmp_path / "e"))
    assert not (tmp_path / "e" / "dataset.json").exists()


def test_an_incomplete_dataset_is_not_moved(painted: Path, tmp_path: Path) -> None:
    push(painted / "d", str(tmp_path / "d"))
    manifest = Manifest.read(Storage(str(tmp_path / "d")))
    part = replace(manifest, shards={0: manifest.shards[0]})
    (tmp_path / "d" / "dataset.json").write_text(part.to_json())
    for move in (
        lambda: push(tmp_path / "d", str(tmp_path / "e")),
        lambda: pull(str(tmp_path), tmp_path / "e"),
    ):
        with pytest.raises(Impossible, match="incomplete, 8 of 20 images are there"):
            move()


def test_the_reader_reads_from_a_web_server(moods: Moods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path))
    moods.cut = 0.5
    data = Dataset(f"{moods.url}/d")
    assert np.array_equal(data.images([0, 19]), WANTED[[0, 19]])
    assert hashlib.sha256(b"").hexdigest() not in {path.stem for path in (tmp_path / "datasets").glob("*.h5")}
