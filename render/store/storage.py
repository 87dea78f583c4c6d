"""Where a dataset lies: a folder, or any URL that fsspec knows, like s3://bucket/folder.

A file appears under its name only when whole: in a folder by a rename, elsewhere because what is listed in
dataset.json was uploaded before. The folder that the user names may be a link; below it, nothing
is written through one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import fsspec

from ident.render.errors import Failed, Impossible
from ident.render.store import retries, versions, web
from ident.render.store.files import CHUNK, bounded, naming, open_plain, publish, sha256, whole, write

T = TypeVar("T")


def _pieces(file: IO[bytes], start: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while piece := file.read(CHUNK):
            yield piece


@dataclass(frozen=True)
class Storage:
    """A folder or a URL, and the files in it by name, like shards/00000.h5."""

    url: str
    option: str = field(default="--out", compare=False)
    """By which the user gave it, if something is to be written there."""

    def __post_init__(self) -> None:
        scheme, colons, rest = self.url.partition("://")
        if not self.url or (colons and not rest):
            raise Impossible(f"{self.url!r}: names no place; give a folder or a URL like s3://bucket/folder")
        object.__setattr__(self, "url", (rest if colons and scheme == "file" else self.url).rstrip("/") or "/")
        if not self.folder and not self.http:
            self._files()

    def __str__(self) -> str:
        return self.url

    @property
    def folder(self) -> Path | None:
        """The folder, if it is one on this machine."""
        return None if "://" in self.url else Path(self.url)

    @property
    def here(self) -> Path:
        """The folder; an error if it is none on this machine."""
        if self.folder is None:
            raise Impossible(f"{self}: give a folder on this machine; `ident push` brings it elsewhere then")
        return self.folder

    @property
    def absolute(self) -> Storage:
        """The same place for processes that work in another folder."""
        return Storage(str(self.folder.absolute()), self.option) if self.folder else self

    @property
    def http(self) -> bool:
        """Whether it is a web server's, which can be read and not written."""
        return self.url.startswith(("http://", "https://"))

    @property
    def key(self) -> str:
        """A name for this place, as files in the cache are called."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:16]

    def path(self, name: str) -> str:
        """The full name of a file, for messages too."""
        return f"{self.url}/{name}"

    def _files(self) -> Any:
        """Fsspec's file system, made anew in every process: its connections do not survive a fork."""
        scheme = self.url.partition("://")[0]
        try:
            return fsspec.filesystem(scheme, **({"use_listings_cache": False} if scheme == "s3" else {}))
        except ImportError as error:
            more = "; pip install 'ident3d[s3]'" if scheme == "s3" else ""
            raise Impossible(f"{self.url}: a package is missing for {scheme}:// ({error}{more})") from error
        except ValueError as error:
            known = ", ".join(f"{name}://" for name in ("s3", "http", "gs", "abfs", "sftp"))
            raise Impossible(f"{self.url}: nobody knows {scheme}://; give a folder, or one of {known} ...") from error

    def _again(self, name: str, call: Callable[[Any, str], T], *, makes: bool = False) -> T:
        """A call to the remote storage, some times if need be."""

        def attempt() -> T:
            with self._told(name, makes=makes):
                return call(self._files(), self.path(name))

        return retries.again(attempt, self.path(name))

    @contextmanager
    def _told(self, name: str, *, makes: bool = False) -> Iterator[None]:
        """An error of the remote storage as what it means: that another attempt may help, or that none will."""
        try:
            yield
        except (FileNotFoundError, PermissionError) as error:
            if makes:
                raise Impossible(f"{self.path(name)}: {error}; give another {self.option}") from error
            if isinstance(error, PermissionError):
                raise Failed(f"{self.path(name)}: {error}; check the credentials") from error
            raise
        except Exception as error:  # each library behind fsspec has its own
            raise retries.Again(f"{type(error).__name__}: {error}") from error

    def check_output(self) -> None:
        """Refuse a place that nothing can be written to, or that ends with its process."""
        if self.http or self.url.startswith("memory://"):
            raise Impossible(f"{self.url}: nothing that lasts can be written there; give a folder, or s3://...")

    def fault(self, name: str, size: int, digest: str) -> str | None:
        """What is wrong with a file that should have these bytes and sha256; a remote one shows its size alone."""
        stored = self.size(name)
        if stored is None:
            return "is missing"
        if stored != size:
            return f"is damaged, {stored} bytes and not {size}"
        if self.folder and not (self.folder / name).is_file():
            return "is not a file"
        if self.folder and (wrong := sha256(self.folder / name)) != digest:
            return f"is damaged, its sha256 is {wrong}, not {digest}"
        return None

    def stream(
        self, name: str, start: int = 0, pause: retries.Pause | None = None, version: versions.Version | None = None
    ) -> Iterator[bytes]:
        """The bytes of a file from `start` on; FileNotFoundError if there is none. As web.stream has them."""
        if self.folder:
            return _pieces(os.fdopen(open_plain(self.folder / name), "rb"), start)
        if self.http:
            return web.stream(self.path(name), start, pause, version)
        if version is None:
            return retries.patiently(lambda place: self._remote_pieces(name, place), self.path(name), start, pause)

        def open_at(place: int, seen: bytes) -> Iterator[bytes]:
            if version.differs(self.version(name)):
                raise versions.changed(self.path(name))
            if version.strong:
                return self._remote_pieces(name, place)
            return versions.beyond(self._remote_pieces(name, 0), place, seen, self.path(name))

        return versions.one_version(open_at, self.path(name), version.size)

    def _remote_pieces(self, name: str, start: int) -> Iterator[bytes]:
        with self._told(name):
            yield from _pieces(self._files().open(self.path(name), "rb", block_size=2**23), start)

    def version(self, name: str) -> versions.Version:
        """Which file there is by a name; FileNotFoundError if there is none."""
        if self.folder:
            facts = (self.folder / name).stat()
            return versions.Version(facts.st_size, modified=str(facts.st_mtime_ns))
        if self.http:
            return web.version(self.path(name))

        def ask(files: Any, path: str) -> versions.Version:
            facts = files.info(path)
            etag = str(facts.get("ETag") or facts.get("etag") or "")
            return versions.Version(facts["size"], etag, strong=bool(etag))

        return self._again(name, ask)

    def read(self, name: str, most: int) -> bytes:
        """The content of a file of so many bytes at most; FileNotFoundError if there is none."""
        if self.http:
            return web.read(self.path(name), most)
        pieces, path = self.stream if self.folder else self._remote_pieces, self.path(name)
        return retries.again(lambda: b"".join(bounded(pieces(name, 0), most, path)), path)

    def write(self, name: str, data: bytes) -> None:
        """Write a small file."""
        if self.folder:
            write(self.folder / name, data)
        else:
            self._again(name, lambda files, path: files.pipe_file(path, data), makes=True)

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None if there is none."""
        try:
            if self.folder:
                return (self.folder / name).stat().st_size
            if self.http:
                return web.version(self.path(name)).size
            return int(self._again(name, lambda files, path: files.size(path)))
        except FileNotFoundError:
            return None

    def names(self, pattern: str) -> list[str]:
        """The files whose names fit a pattern."""
        if self.folder:
            return [str(path.relative_to(self.folder)) for path in self.folder.glob(pattern)]
        root = self.url.partition("://")[2].strip("/")
        paths = self._again(pattern, lambda files, path: files.glob(path))
        return [path.partition(f"{root}/")[2] for path in paths]

    def put(self, local: Path, name: str) -> None:
        """Copy a local file to its place."""
        if self.folder:
            with whole(self.folder / name) as part:
                shutil.copyfile(local, part)
        else:
            self._again(name, lambda files, path: files.put_file(str(local), path), makes=True)

    def take(self, part: Path, name: str) -> None:
        """Move a finished local file to its place."""
        if self.folder:
            publish(part, self.folder / name)
        else:
            self.put(part, name)
            part.unlink()

    def fetch(self, name: str, path: Path, most: int) -> None:
        """Copy a file of so many bytes at most to a local path."""
        with naming(path), path.open("wb") as file:
            file.writelines(bounded(self.stream(name), most, self.path(name)))

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            if self.folder:
                (self.folder / name).unlink()
            else:
                self._again(name, lambda files, path: files.rm_file(path))
        except FileNotFoundError:
            pass
