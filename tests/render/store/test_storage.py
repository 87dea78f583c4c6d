"""Files that appear whole, locks, and places that cannot be."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ident.render.errors import Failed, Impossible
from ident.render.store import files
from ident.render.store.storage import Storage
from tests.processes import HANG
from tests.servers import as_s3


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Impossible, match="is a file or lies in one"):
            files.make_folder(path)
    with pytest.raises(Impossible, match="/proc/nowhere"):
        files.make_folder(Path("/proc/nowhere"))


def test_what_is_not_a_file_of_its_own_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "name").hardlink_to(tmp_path / "theirs")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, writes, reads in (
        ("link", "is a link, and nothing goes where it leads; remove it", None),
        ("name", "is another file's second name, which would be changed with it; remove it", None),
        ("pipe", "is not a file; remove it", "is not a file"),
        ("folder", "is not a file; remove it", "is not a file"),
    ):
        for flags in (os.O_WRONLY, os.O_RDWR | os.O_CREAT | os.O_APPEND):
            with pytest.raises(Impossible) as error:
                files.open_plain(tmp_path / name, flags)
            assert str(error.value) == f"{tmp_path / name}: {writes}"
        if reads is None:
            assert files.read(tmp_path / name, 8) == b"precious"
        else:
            with pytest.raises(Failed, match=f"{name}: {reads}$"):
                files.read(tmp_path / name, 8)
    with pytest.raises(Failed, match="theirs: has more than 7 bytes"):
        files.read(tmp_path / "theirs", 7)
    with pytest.raises(Failed, match="/dev/zero: is not a file"):
        files.read(Path("/dev/zero"), 7)


def test_only_our_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    for name in ("00000.part", "notes.txt", "0-00001.part", ".ident-0123_abc", "00000.0123456789abcdef", "1.part"):
        (tmp_path / "theirs" / name).write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    files.remove_folder(tmp_path / "link")
    assert len(list((tmp_path / "theirs").iterdir())) == 6
    files.remove_folder(tmp_path / "theirs")
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == ["1.part", "notes.txt"]
    files.remove_folder(tmp_path / "nowhere")


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        files.write(tmp_path / "folder", b"data")
    with contextlib.suppress(KeyError), files.whole(tmp_path / "file") as part:
        part.write_bytes(b"half")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_is_written_has_the_usual_rights(tmp_path: Path) -> None:
    files.write(tmp_path / "ours", b"data")
    (tmp_path / "usual").write_bytes(b"data")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def hold(path: Path, got: multiprocessing.synchronize.Event) -> None:
    with files.lock(path):
        got.set()
        os.kill(os.getpid(), 9)


def test_a_lock_says_who_holds_it_and_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with files.lock(path) as owner:
        assert path.read_text() == owner
        with (
            pytest.raises(Impossible, match=f"busy here .process {os.getpid()} on .*, run"),
            files.lock(path, "busy here"),
        ):
            pass
    spawn = multiprocessing.get_context("spawn")
    got = spawn.Event()
    holder = spawn.Process(target=hold, args=(path, got))
    holder.start()
    assert got.wait(HANG)
    holder.join()
    with files.lock(path, "busy"):
        pass


def same_files(place: Storage, tmp_path: Path) -> None:
    """What every storage does."""
    assert place.size("a.json") is None
    with pytest.raises(FileNotFoundError):
        place.read("a.json", 9)
    place.write("a.json", b"one")
    place.write("a.json", b"other")
    assert place.read("a.json", 9) == b"other"
    assert place.size("a.json") == 5
    (tmp_path / "part").write_bytes(b"shard")
    place.take(tmp_path / "part", "shards/00000.h5")
    assert place.read("shards/00000.h5", 9) == b"shard"
    assert not (tmp_path / "part").exists()
    assert place.names("shards/[0-9]*.h5") == ["shards/00000.h5"]
    place.delete("a.json")
    place.delete("a.json")
    assert place.size("a.json") is None


def test_a_folder_and_a_url_do_the_same(tmp_path: Path) -> None:
    (tmp_path / "out" / "shards").mkdir(parents=True)
    same_files(Storage(str(tmp_path / "out")), tmp_path)
    same_files(Storage("memory://bucket/out"), tmp_path)


def test_urls(tmp_path: Path) -> None:
    assert Storage(f"file://{tmp_path}/").folder == tmp_path
    assert Storage("here").absolute == Storage(str(Path("here").absolute()))
    assert Storage("s3://bucket/folder").absolute == Storage("s3://bucket/folder")
    assert Storage("s3://bucket/folder/").path("dataset.json") == "s3://bucket/folder/dataset.json"
    assert Storage("s3://bucket/folder").folder is None
    for url, said in (
        ("nobody://knows/this", "nobody knows nobody://; give a folder"),
        ("", "names no place"),
        ("s3://", "names no place"),
    ):
        with pytest.raises(Impossible, match=said):
            Storage(url)


class Forbidding(BaseHTTPRequestHandler):
    """An S3 that forbids everything."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_PUT = do_GET


def test_a_bucket_that_forbids_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with as_s3(ThreadingHTTPServer(("127.0.0.1", 0), Forbidding), monkeypatch):
        place = Storage("s3://theirs/d", "DEST")
        for ask in (lambda: place.size("a.json"), lambda: place.read("a.json", 9)):
            with pytest.raises(Failed, match=r"^s3://theirs/d/a\.json: .*; check the credentials$"):
                ask()
        with pytest.raises(Impossible, match=r"^s3://theirs/d/a\.json: .*; give another DEST$"):
            place.write("a.json", b"data")


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    for place in Storage(str(tmp_path)), Storage("memory://bounded"):
        place.write("a.json", b"123456789")
        assert place.read("a.json", 9) == b"123456789"
        with pytest.raises(Failed, match=r"/a\.json: has more than 8 bytes$"):
            place.read("a.json", 8)
        with pytest.raises(Failed, match=r"/a\.json: has more than 8 bytes$"):
            place.fetch("a.json", tmp_path / "copy", 8)
