"""Archives that change on their server: what is made of one is of one version of it, or nothing is."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import boto3
import numpy as np
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from PIL import Image
from werkzeug.serving import make_server

from ident.render import threads
from ident.render.errors import Failed, Impossible
from ident.render.exchange import assembly, import_
from ident.render.exchange.import_ import import_archive
from ident.render.exchange.published import Archive
from ident.render.store import retries
from ident.render.store.dataset import Dataset
from ident.render.store.inventory import clear
from ident.render.store.storage import Storage
from tests.render.exchange.test_import_ import RAW, npy, stop_after_two_shards, tar
from tests.render.store.test_dataset import WANTED
from tests.servers import Moods, as_s3, serving

BREAK = 25_000
"""The byte after which an answer breaks off: in the middle of the images."""


def packed(images: np.ndarray) -> bytes:  # type: ignore[type-arg]
    """An archive that is as long as one of any other images."""
    files = {}
    for i, image in enumerate(images):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "png", compress_level=0)
        files[f"images/{i:02d}.png"] = file.getvalue()
    return tar(files | {"raw_latents.npy": npy(RAW)}).getvalue()


OLD, NEW = packed(WANTED), packed(255 - WANTED)
assert len(OLD) == len(NEW) > BREAK

MARKS: dict[str, Callable[[bytes], dict[str, str]]] = {
    "etag": lambda data: {"ETag": f'"{hashlib.md5(data).hexdigest()}"'},
    "date": lambda data: {"Last-Modified": f"Wed, {21 if data == OLD else 28} Oct 2015 07:28:00 GMT"},
    "weak": lambda data: {"ETag": f'W/"{hashlib.md5(data).hexdigest()}"', **MARKS["date"](data)},
    "none": lambda _: {},
}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "SHARD_SIZE", 8)
    monkeypatch.setattr(threads, "cores", lambda: 1)  # so few images are taken in ahead
    monkeypatch.setattr(retries, "sleep", lambda _: None)


@pytest.fixture
def moods(tmp_path: Path) -> Iterator[Moods]:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "x.tar").write_bytes(OLD)
    with serving(tmp_path / "served") as moods:
        yield moods


def pull(moods: Moods, out: Path, *, md5: str | None = None, force: bool = False) -> None:
    archive = Archive(f"{moods.url}/x.tar", "x.tar", None if md5 is None else len(OLD), md5)
    import_archive(archive, Storage(str(out)), codec="fast", force=force, tell=lambda *_: None)


def replaced_after(moods: Moods, answers: int) -> None:
    """Serve the new archive after so many answers from now on."""
    until = len(moods.asked) + answers
    moods.changed = lambda _, data: data if len(moods.asked) <= until else NEW


def stop_at_the_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop as by Ctrl-C, once, where an answer has broken off."""

    def stop(_: float) -> None:
        monkeypatch.setattr(retries, "sleep", lambda _: None)
        raise KeyboardInterrupt

    monkeypatch.setattr(retries, "sleep", stop)


def assert_made_of(images: np.ndarray, out: Path) -> None:  # type: ignore[type-arg]
    data = Dataset(out)
    assert np.array_equal(data.images(range(len(data))), images)
    assert np.array_equal(data.latents, RAW)


@pytest.mark.parametrize("mark", MARKS)
def test_what_breaks_off_goes_on_where_the_server_proves_that_it_is_the_same(
    moods: Moods, tmp_path: Path, mark: str
) -> None:
    moods.marks, moods.breaks = MARKS[mark], [None, BREAK]
    pull(moods, tmp_path / "d")
    assert_made_of(WANTED, tmp_path / "d")
    proven = mark in ("etag", "date")
    assert moods.asked[2:] == [("/x.tar", f"bytes={BREAK}-" if proven else None)]
    assert moods.conditions[2] == (next(iter(MARKS[mark](OLD).values())) if proven else None)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("moody", [{}, {"ranges": False}, {"if_range": False}], ids=str)
def test_an_archive_that_is_replaced_on_the_way(
    moods: Moods, tmp_path: Path, mark: str, moody: dict[str, bool]
) -> None:
    moods.marks, moods.breaks = MARKS[mark], [None, BREAK]
    for name, value in moody.items():
        setattr(moods, name, value)
    replaced_after(moods, 2)
    with pytest.raises(Failed) as failed:
        pull(moods, tmp_path / "d")
    said = "was replaced on its server while it was fetched; type the command again, which begins anew"
    assert str(failed.value) == f"{moods.url}/x.tar: {said}"
    pull(moods, tmp_path / "d")
    assert_made_of(255 - WANTED, tmp_path / "d")


def test_an_archive_that_is_replaced_before_its_first_byte(moods: Moods, tmp_path: Path) -> None:
    moods.marks = MARKS["etag"]
    replaced_after(moods, 1)
    with pytest.raises(Failed, match=r"x\.tar: was replaced on its server"):
        pull(moods, tmp_path / "d")


@pytest.mark.parametrize("mark", MARKS)
def test_an_archive_that_is_replaced_between_two_runs(
    moods: Moods, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moods.marks, moods.breaks = MARKS[mark], [None, BREAK]
    stop_at_the_break(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        pull(moods, tmp_path / "d")
    assert list((tmp_path / "d" / ".parts").glob("*.part"))
    replaced_after(moods, 0)
    pull(moods, tmp_path / "d")
    assert_made_of(255 - WANTED, tmp_path / "d")


@pytest.mark.parametrize("mark", MARKS)
def test_an_archive_that_is_replaced_when_some_shards_are_made(
    moods: Moods, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moods.marks = MARKS[mark]
    stop_after_two_shards(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        pull(moods, tmp_path / "d")
    assert len(list((tmp_path / "d" / "shards").glob("*.h5"))) == 2
    replaced_after(moods, 0)
    if mark == "none":  # and of the same size: that is seen when all of it has come
        with pytest.raises(Failed, match=r"x\.tar: has changed since the import was begun; type the command again"):
            pull(moods, tmp_path / "d")
    pull(moods, tmp_path / "d")
    assert_made_of(255 - WANTED, tmp_path / "d")


@pytest.mark.parametrize("mark", ["etag", "date", "weak"])
def test_a_finished_dataset_is_not_overwritten_by_a_new_version(moods: Moods, tmp_path: Path, mark: str) -> None:
    moods.marks = MARKS[mark]
    pull(moods, tmp_path / "d")
    asked = len(moods.asked)
    pull(moods, tmp_path / "d")
    assert len(moods.asked) == asked + 1  # which version there is
    replaced_after(moods, 0)
    with pytest.raises(Impossible, match=r"holds what http://.*/x\.tar was before: give --force to overwrite it"):
        pull(moods, tmp_path / "d")
    assert_made_of(WANTED, tmp_path / "d")
    pull(moods, tmp_path / "d", force=True)
    assert_made_of(255 - WANTED, tmp_path / "d")


def test_a_finished_dataset_is_not_mended_by_a_new_version(moods: Moods, tmp_path: Path) -> None:
    pull(moods, tmp_path / "d")
    (tmp_path / "d" / "shards" / "00001.h5").unlink()
    replaced_after(moods, 0)
    for _ in range(2):
        with pytest.raises((Failed, Impossible), match=r"give --force to overwrite .*, or another --out"):
            pull(moods, tmp_path / "d")
        assert len(list((tmp_path / "d" / "shards").glob("*.h5"))) == 2
    pull(moods, tmp_path / "d", force=True)
    assert_made_of(255 - WANTED, tmp_path / "d")


def test_an_archive_here_that_is_replaced_between_two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, out = Archive(f"{tmp_path}/x.tar", "x.tar"), Storage(str(tmp_path / "d"))
    (tmp_path / "x.tar").write_bytes(OLD)
    stop_after_two_shards(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        import_archive(archive, out, codec="fast", force=False, tell=lambda *_: None)
    (tmp_path / "x.tar").write_bytes(NEW)
    import_archive(archive, out, codec="fast", force=False, tell=lambda *_: None)
    assert_made_of(255 - WANTED, tmp_path / "d")


def test_what_arrived_damaged_is_not_kept(moods: Moods, tmp_path: Path) -> None:
    """The images came, and then the checksum was wrong: none of them is among those of the next run."""
    md5 = hashlib.md5(NEW).hexdigest()
    with pytest.raises(Failed, match=rf"arrived damaged, its md5 is {hashlib.md5(OLD).hexdigest()}, not {md5}"):
        pull(moods, tmp_path / "d", md5=md5)
    replaced_after(moods, 0)
    pull(moods, tmp_path / "d", md5=md5)
    assert_made_of(255 - WANTED, tmp_path / "d")


@pytest.mark.parametrize("md5", [None, hashlib.md5(OLD).hexdigest()])
@pytest.mark.parametrize("shifted", [-512, 1, None])
def test_a_range_that_was_not_asked_for(moods: Moods, tmp_path: Path, shifted: int | None, md5: str | None) -> None:
    moods.marks, moods.shifted, moods.breaks = MARKS["etag"], shifted, [None, BREAK] if md5 is None else [BREAK]
    pull(moods, tmp_path / "d", md5=md5)
    assert_made_of(WANTED, tmp_path / "d")
    assert [wanted for _, wanted in moods.asked[-2:]] == [f"bytes={BREAK}-", None]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    app = DomainDispatcherApplication(create_backend_app)
    with as_s3(make_server("127.0.0.1", 0, app, threaded=True), monkeypatch):
        boto3.client("s3").create_bucket(Bucket="archives")
        yield


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize("place", ["s3://archives", "memory://archives"])  # where there are ETags, and where not
def test_an_object_in_a_bucket_that_is_replaced(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, out = Storage(place), Storage(str(tmp_path / "d"))
    bucket.write("x.tar", OLD)
    pieces, starts, new = Storage._remote_pieces, list[int](), [OLD]

    def breaking(self: Storage, name: str, start: int) -> Iterator[bytes]:
        starts.append(start)
        if len(starts) == 1:
            yield next(pieces(self, name, start))[:BREAK]
            bucket.write("x.tar", new[0])
            raise retries.Again("broke off")
        yield from pieces(self, name, start)

    def pull() -> None:
        archive = Archive(f"{place}/x.tar", "x.tar")
        import_archive(archive, out, codec="fast", force=True, tell=lambda *_: None)

    monkeypatch.setattr(Storage, "_remote_pieces", breaking)
    pull()
    assert_made_of(WANTED, tmp_path / "d")
    assert starts == [0, BREAK if place.startswith("s3") else 0]
    clear(out)
    starts.clear()
    new[0] = NEW
    with pytest.raises(Failed, match=rf"^{place}/x\.tar: was replaced on its server while it was fetched"):
        pull()
    pull()
    assert_made_of(255 - WANTED, tmp_path / "d")


def test_an_archive_without_an_end(moods: Moods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_, "free_bytes", lambda _: 10 * len(OLD))
    begin = OLD.rstrip(b"\0")

    def endless(_: str) -> Iterator[bytes]:
        return chain([b"HTTP/1.0 200 OK\r\n\r\n", begin], repeat(bytes(2**16), 1000))

    moods.raw = endless
    with pytest.raises(Failed, match=rf"x\.tar: has more than {10 * len(OLD)} bytes"):
        pull(moods, tmp_path / "d")
    assert moods.sent < 500 * 2**16
