"""Published archives, brought into shards as they stream by: by URL, from a Zenodo record, or by a name."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import IO, cast

from ident.render import web
from ident.render.errors import Failed, Impossible
from ident.render.importing import Import
from ident.render.layouts import LAYOUTS
from ident.render.layouts.files import File, detect, files_of_archive, files_of_folder, local
from ident.render.manifest import Imported, Manifest
from ident.render.plan import clear, shard_files, tidy
from ident.render.storage import LOCK, PARTS, Storage, check_room, lock, make_folder

ZENODO = "https://zenodo.org/api"
ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

Tell = Callable[[int, int], object]


@dataclass(frozen=True)
class Archive:
    """An archive somewhere, and what its publisher says of it."""

    url: str
    origin: str
    size: int | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Published:
    """A dataset that others have published: a Zenodo record, and its archives by what is put behind the name."""

    record: str
    archives: Mapping[str, str]


NAMES: Mapping[str, Published] = MappingProxyType(
    {
        "3dident": Published("4502485", {"": "3dident_train.tar", "-test": "3dident_test.tar"}),
        "causal3dident": Published("4784282", {"": "trainset.tar.gz", "-test": "testset.tar.gz"}),
    }
)


def record(number: str, api: str | None) -> dict[str, Archive]:
    """The archives of a Zenodo record by their names."""
    api = (api or os.environ.get("IDENT_ZENODO") or ZENODO).rstrip("/")
    where = f"{api}/records/{number}"
    if not number.isdecimal():
        raise Impossible(f"zenodo:{number}: give the number of a record, like zenodo:4502485")
    try:
        made = json.loads(b"".join(web.stream(where)))
        found = {}
        for file in made["files"]:
            kind, _, sum_ = file["checksum"].partition(":")
            if kind != "md5" or len(sum_) != 32 or not isinstance(file["size"], int):
                raise ValueError(f"checksum {file['checksum']!r}, size {file['size']!r}")
            origin = f"zenodo:{number}/{file['key']}, md5 {sum_}"
            found[str(file["key"])] = Archive(str(file["links"]["self"]), origin, file["size"], sum_)
    except FileNotFoundError as error:
        raise Impossible(f"{where}: there is no such record") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Failed(f"{where}: not an answer that Zenodo gives ({type(error).__name__}: {error})") from error
    return found


def find(source: str, api: str | None) -> dict[str, Archive]:
    """The archives that a name, a record or a URL stands for, by what is put behind the name of the output."""
    if source in NAMES:
        published = NAMES[source]
        there = record(published.record, api)
        missing = set(published.archives.values()) - set(there)
        if missing:
            raise Failed(f"zenodo:{published.record}: has no {', '.join(sorted(missing))}, but {', '.join(there)}")
        return {suffix: there[file] for suffix, file in published.archives.items()}
    if source.startswith("zenodo:"):
        there = record(source.removeprefix("zenodo:"), api)
        found = {f"-{file.partition('.')[0]}": archive for file, archive in there.items() if file.endswith(ENDINGS)}
        if not found:
            raise Impossible(f"{source}: has no archive, but {', '.join(there) or 'nothing'}")
        return found
    return {"": Archive(source, source.rpartition("/")[2])}


def nearest(name: str) -> str:
    """What to say of a name that nobody knows."""
    close = get_close_matches(name, NAMES, 1)
    return f"did you mean {close[0]}?" if close else f"the names are {', '.join(NAMES)}"


class Streamed:
    """An archive as a file that is read once, with its md5 and how far it is."""

    def __init__(self, pieces: Iterator[bytes], tell: Callable[[int], object]) -> None:
        self._pieces, self._tell, self._left = pieces, tell, b""
        self.md5, self.count = hashlib.md5(usedforsecurity=False), 0

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


def pull(archive: Archive, out: Storage, *, codec: str, force: bool, tell: Tell) -> Manifest:
    """Bring an archive into shards in a folder, as it streams by."""
    parent, _, name = archive.url.rpartition("/")
    place = Storage(parent or ".")
    size = archive.size if archive.size is not None else place.size(name)
    stream = Streamed(place.stream(name), lambda count: tell(count, size or count))

    def check() -> None:
        stream.drain()
        if archive.md5 is not None and stream.md5.hexdigest() != archive.md5:
            raise Failed(f"{archive.url}: arrived damaged, its md5 is {stream.md5.hexdigest()}, not {archive.md5}")

    files = files_of_archive(cast("IO[bytes]", stream), archive.url)
    return bring(files, archive.origin, archive.url, out, size or 0, codec=codec, force=force, check=check)


def bring(
    files: Iterator[File],
    origin: str,
    where: str,
    out: Storage,
    size: int,
    *,
    codec: str,
    force: bool,
    check: Callable[[], object] = lambda: None,
    tell: Callable[[int], object] = lambda _: None,
    layout: str | None = None,
) -> Manifest:
    """Bring files in a known layout into shards in a folder."""
    make_folder(out.here / "shards")
    with lock(out.here / LOCK, f"{out}: another run is writing there"):
        tidy(out)
        if force:
            clear(out)
        there = existing(out)
        if there is not None and there.complete and there.source.get("origin") == origin and there.codec == codec:
            return there
        if there is not None or (shard_files(out) and not (out.here / PARTS / "import.json").exists()):
            raise Impossible(f"{out}: holds something else: give --force to overwrite it, or another --out")
        check_room(out.here, size, f"about {size / 1e9:.2f} GB are needed,")
        layouts = {name: known for name, known in LAYOUTS.items() if layout in (None, name)}
        found, files = detect(files, layouts, where)
        return Import(out, Imported(found, origin), codec, size).run(layouts[found].items(files, where), check, tell)


def existing(out: Storage) -> Manifest | None:
    """The manifest that is there."""
    try:
        return Manifest.read(out)
    except Impossible:
        return None


def bring_local(
    path: Path, layout: str, out: Storage, *, codec: str, force: bool, tell: Callable[[int], object]
) -> Manifest:
    """Bring a folder or a local archive into shards."""
    if layout not in LAYOUTS:
        raise Impossible(f"layout {layout!r}: choose from {', '.join(LAYOUTS)}")
    origin = path.name
    if path.is_dir():
        files = files_of_folder(path)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return bring(files, origin, str(path), out, size, codec=codec, force=force, tell=tell, layout=layout)
    if not path.is_file():
        raise Impossible(f"{path}: is not there; give a folder, or a tar archive")
    with path.open("rb") as stream:
        is_part = LAYOUTS[layout].pattern.fullmatch(path.name) is not None
        files = iter([local(path, path.name)]) if is_part else files_of_archive(stream, str(path))
        size = path.stat().st_size
        return bring(files, origin, str(path), out, size, codec=codec, force=force, tell=tell, layout=layout)
