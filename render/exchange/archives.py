"""Published archives, brought into shards as they stream by: by URL, from a Zenodo record, or by a name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import IO, cast

from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.exchange.importing import Given, Streamed, bring
from ident.render.exchange.layouts import LAYOUTS
from ident.render.exchange.layouts.files import files_of_archive
from ident.render.store import web
from ident.render.store.files import bounded, free_bytes
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage

ZENODO = "https://zenodo.org/api"
LARGEST_RECORD = 2**24  # bytes of Zenodo's answer
ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


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
        made = json.loads(web.read(where, LARGEST_RECORD))
        found = {}
        for file in made["files"]:
            kind, _, sum_ = file["checksum"].partition(":")
            if kind != "md5" or len(sum_) != 32 or not isinstance(file["size"], int):
                raise ValueError(f"checksum {file['checksum']!r}, size {file['size']!r}")
            name, url = str(file["key"]), str(file["links"]["self"])
            safe = url.startswith(("https://", f"{api.partition('://')[0]}://"))
            if not safe or not (name + url).isprintable() or "/" in name:
                raise ValueError(f"file {name!r} at {url!r}")
            found[name] = Archive(url, f"zenodo:{number}/{name}, md5 {sum_}", file["size"], sum_)
    except FileNotFoundError as error:
        raise Impossible(f"{where}: there is no such record") from error
    except Impossible:  # a ValueError, too, but not of the answer
        raise
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
    return {"": Archive(source, base(source))}


def base(url: str) -> str:
    """The last part of a URL or a path, without what is asked of a server behind it."""
    return url.partition("?")[0].rstrip("/").rpartition("/")[2]


def is_published(source: str) -> bool:
    """Whether Zenodo is asked for it: a name or a record."""
    return source in NAMES or source.startswith("zenodo:")


def is_archive(source: str) -> bool:
    """Whether a name, a record or a URL stands for archives."""
    return is_published(source) or base(source).endswith(ENDINGS)


def nearest(name: str) -> str:
    """What to say of a name that nobody knows."""
    close = get_close_matches(name, NAMES, 1)
    return f"did you mean {close[0]}?" if close else f"the names are {', '.join(NAMES)}."


def pull(archive: Archive, out: Storage, *, codec: str, force: bool, tell: Tell) -> Manifest:
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

        given = Given(
            files_of_archive(cast("IO[bytes]", stream), archive.url),
            archive.url,
            archive.origin,
            archive.md5 or archive.url,
            size or 0,
            check,
            f"{version.size} {version.mark}" if version else "",
        )
        return bring(given, LAYOUTS, out, codec=codec, force=force)
    except FileNotFoundError as error:
        raise Impossible(f"{archive.url}: is not there") from error
