"""Imports: images and latents in a foreign layout, of a folder, a file, or an archive that streams by, become shards.

Which files those are, whether they may go where they shall go, and whether they are there already.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import md5, sha256
from pathlib import Path
from typing import IO, cast

from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.exchange.assembly import Assembly, Note
from ident.render.exchange.layouts import LAYOUTS
from ident.render.exchange.layouts.files import File, files_of_archive, paths_below
from ident.render.exchange.layouts.layout import Layout, detect
from ident.render.exchange.published import Archive
from ident.render.store.files import LOCK, PARTS, bounded, check_room, free_bytes, lock, make_inside
from ident.render.store.inventory import clear, import_begun, shard_files, tidy, whole_shards
from ident.render.store.manifest import MANIFEST, Manifest
from ident.render.store.recipe import Imported
from ident.render.store.storage import Storage


@dataclass(frozen=True)
class Import:
    """Files to be imported: where they are, and what tells them from others of the same name."""

    files: Iterator[File]
    where: str
    origin: str
    identity: str
    size: int
    check: Callable[[], object] = lambda: None
    version: str = ""
    """Which of the files that were or will be there by this name they are, if that is known."""

    def run(self, layouts: Mapping[str, Layout], out: Storage, *, codec: str, force: bool) -> Manifest:
        """Bring the files, which are in one of the layouts, into shards in a folder."""
        command = sha256(json.dumps([self.origin, self.identity, list(layouts), codec]).encode()).digest()
        key = command + (sha256(self.version.encode()).digest() if self.version else b"")
        if (manifest := finished(out, key)) is not None:
            return manifest
        name, files = detect(self.files, layouts, self.where)
        layout = layouts[name]
        make_inside(out.here, "shards")
        with lock(out.here / LOCK, f"{out}: another run is writing there"):
            tidy(out)
            note = Note.read(out.here)
            if note is None or note.key != key or note.latents != len(layout.factors):
                of_command = note is not None and note.key.startswith(command)
                if not force and holds_something(out) and (not of_command or out.size(MANIFEST) is not None):
                    held = f"what {self.where} was before" if of_command else "something else"
                    raise Impossible(f"{out}: holds {held}: give --force to overwrite it, or another --out")
                clear(out)  # also what was begun of an earlier version: of two, no dataset is made
            check_room(out.here, self.size, f"about {self.size / 1e9:.2f} GB are needed,")
            source = Imported(name, self.origin)
            return Assembly(out, layout, source, codec, key).run(layout.items(files, self.where), self.check)


def finished(out: Storage, key: bytes) -> Manifest | None:
    """The manifest of what these very files became, if all of it is there and whole."""
    note = Note.read(out.here)
    if note is None or note.key != key:
        return None
    try:
        manifest = Manifest.read(out)
    except (Failed, Impossible):
        return None
    layout = LAYOUTS.get(manifest.source.get("layout", ""))
    kept = layout is not None and note.latents == len(layout.factors)
    return manifest if kept and len(whole_shards(out, manifest)) == manifest.count else None


def holds_something(out: Storage) -> bool:
    """Whether a dataset is there, or one was begun."""
    return out.size(MANIFEST) is not None or bool(shard_files(out)) or (out.here / PARTS).exists() or import_begun(out)


def import_path(path: Path, layout: str, out: Storage, *, codec: str, force: bool, tell: Tell) -> Manifest:
    """Bring a folder, an archive of one, or a file that has a whole set into shards."""
    if not path.exists():
        raise Impossible(f"{path}: is not there; give a folder, or a tar archive")
    if not (path.is_dir() or path.is_file()):
        raise Impossible(f"{path}: is not a file; give a folder, or a tar archive")
    if out.here.resolve() in (path.resolve(), *path.resolve().parents) or path.resolve() in out.here.resolve().parents:
        raise Impossible(f"{out} and {path} lie in each other; give another --out")
    paths = {file.relative_to(path).as_posix(): file for file in paths_below(path)} if path.is_dir() else {"": path}
    facts = [(name, file.stat().st_size, file.stat().st_mtime_ns) for name, file in paths.items()]
    total = sum(size for _, size, _ in facts)
    layouts = {layout: LAYOUTS[layout]}

    def run(files: Iterator[File]) -> Manifest:
        return Import(files, str(path), path.name, repr(facts), total).run(layouts, out, codec=codec, force=force)

    if not path.is_dir() and is_archive_of(path, layouts):
        with path.open("rb") as file:
            stream = Streamed(iter(partial(file.read, 2**20), b""), lambda count: tell(count, total))
            return run(files_of_archive(cast("IO[bytes]", stream), str(path)))
    alone = LAYOUTS[layout].path(0, 1)
    if not path.is_dir() and (LAYOUTS[layout].rows == 1 or not path.name.endswith(Path(alone).suffix)):
        raise Impossible(f"{path}: not a tar archive with files in the layout {layout}, nor one of its files")
    return run(counted(paths if path.is_dir() else {alone: path}, lambda count: tell(count, total)))


def is_archive_of(path: Path, layouts: Mapping[str, Layout]) -> bool:
    """Whether a file is a tar archive of files in one of the layouts."""
    with path.open("rb") as file:
        try:
            detect(files_of_archive(file, str(path)), layouts, str(path))
        except (Failed, Impossible):
            return False
    return True


def counted(paths: Mapping[str, Path], tell: Callable[[int], object]) -> Iterator[File]:
    """Files on a disk by the names that they shall have, telling how many bytes they have so far."""
    count = 0
    for name, path in paths.items():
        yield name, partial(cast("Callable[..., IO[bytes]]", path.open), "rb")
        count += path.stat().st_size
        tell(count)


class Streamed:
    """A file that is read once, with its md5 and how far it is."""

    def __init__(self, pieces: Iterator[bytes], tell: Callable[[int], object]) -> None:
        self._pieces, self._tell, self._left = pieces, tell, b""
        self.md5, self.count = md5(usedforsecurity=False), 0

    def read(self, size: int) -> bytes:
        """So many bytes, or as many as are left."""
        parts, got = [self._left], len(self._left)
        while got < size and (piece := next(self._pieces, b"")):
            self.md5.update(piece)
            self.count += len(piece)
            self._tell(self.count)
            parts.append(piece)
            got += len(piece)
        data = b"".join(parts)
        self._left = data[size:]
        return data[:size]

    def drain(self) -> None:
        """Read what is left, for the sum."""
        while self.read(2**20):
            pass


def import_archive(archive: Archive, out: Storage, *, codec: str, force: bool, tell: Tell) -> Manifest:
    """Bring an archive into shards in a folder, as it streams by."""
    parent, _, name = archive.url.rpartition("/")
    place = Storage(parent or ".")
    try:
        version = place.version(name) if archive.md5 is None else None
        size = version.size if version else archive.size
        # Of an archive whose size nobody knows as much may come as there is room for.
        most = free_bytes(out.here) if size is None else size
        pieces = bounded(place.stream(name, version=version), most, archive.url)
        stream = Streamed(pieces, lambda count: tell(count, size or count))

        def check() -> None:
            stream.drain()
            if archive.md5 is not None and stream.md5.hexdigest() != archive.md5:
                raise Failed(f"{archive.url}: arrived damaged, its md5 is {stream.md5.hexdigest()}, not {archive.md5}")

        return Import(
            files_of_archive(cast("IO[bytes]", stream), archive.url),
            archive.url,
            archive.origin,
            archive.md5 or archive.url,
            size or 0,
            check,
            f"{version.size} {version.mark}" if version else "",
        ).run(LAYOUTS, out, codec=codec, force=force)
    except FileNotFoundError as error:
        raise Impossible(f"{archive.url}: is not there") from error
