"""Published archives, as their places describe them: by a name of published.toml, a Zenodo record, or a URL."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from ident.render.errors import Failed, Impossible
from ident.render.store import web

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
    """A dataset that others have published: a Zenodo record, and its archives by what is put behind the name.

    Or the one file of it that is kept as it is; or mirrors, and the sha256 of each of several files, which may lie in
    the one file.
    """

    record: str = ""
    archives: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    mirrors: Sequence[str] = ()
    sums: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> list[str]:
        """Where it lies, and what it is called there."""
        files = dict.fromkeys([*self.archives.values(), *filter(None, [self.file]), *self.sums])
        return [*([f"zenodo:{self.record}"] if self.record else self.mirrors), *files]


@cache
def names() -> Mapping[str, Published]:
    """The published datasets by their names."""
    text = resources.files("ident.render.exchange").joinpath("published.toml").read_text()
    return MappingProxyType({name: Published(**entry) for name, entry in tomllib.loads(text).items()})


def record(number: str, api: str | None) -> tuple[dict[str, Archive], dict[str, str]]:
    """The archives of a Zenodo record by their names; and what is wrong with those that cannot be had, likewise."""
    api = (api or os.environ.get("IDENT_ZENODO") or ZENODO).rstrip("/")
    where = f"{api}/records/{number}"
    if not number.isdecimal():
        raise Impossible(f"zenodo:{number}: give the number of a record, like zenodo:4502485")
    archives, wrong = dict[str, Archive](), dict[str, str]()
    try:
        for file in json.loads(web.read(where, LARGEST_RECORD))["files"]:
            name = str(file["key"])
            try:
                archives[name] = described(file, number, api)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                wrong[name] = f"no {error}" if isinstance(error, KeyError) else str(error)
    except FileNotFoundError as error:
        raise Impossible(f"{where}: there is no such record") from error
    except Impossible:  # a ValueError, too, but not of the answer
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Failed(f"{where}: not an answer that Zenodo gives ({type(error).__name__}: {error})") from error
    return archives, wrong


def described(file: Any, number: str, api: str) -> Archive:
    """An archive as Zenodo describes it; an error if that is nothing to be trusted."""
    kind, _, md5 = file["checksum"].partition(":")
    if kind != "md5" or len(md5) != 32 or not isinstance(file["size"], int):
        raise ValueError(f"checksum {file['checksum']!r}, size {file['size']!r}")
    name, url = str(file["key"]), str(file["links"]["self"])
    safe = url.startswith(("https://", f"{api.partition('://')[0]}://"))
    if not safe or not (name + url).isprintable() or "/" in name:
        raise ValueError(f"at {url!r}")
    return Archive(url, f"zenodo:{number}/{name}, md5 {md5}", file["size"], md5)


def file_of(name: str, api: str | None) -> Archive:
    """The one file of a published dataset that is kept as it is."""
    entry = names()[name]
    files, wrong = record(entry.record, api)
    if entry.file in wrong:
        raise Failed(f"zenodo:{entry.record}: file {entry.file!r}: {wrong[entry.file]}")
    if entry.file not in files:
        raise Failed(f"zenodo:{entry.record}: has no {entry.file}, but {', '.join(files) or 'nothing'}")
    return files[entry.file]


def archives_of(source: str, api: str | None, warn: Callable[[str], object]) -> dict[str, Archive]:
    """The archives that a name, a record or a URL stands for, by what is put behind the name of the output."""
    if not is_published(source):
        return {"": Archive(source, base(source))}
    known = names().get(source)
    number = known.record if known else source.removeprefix("zenodo:")
    archives, wrong = record(number, api)
    wanted = dict(known.archives) if known else suffixes([name for name in archives if packed(name)])
    odd = {name: why for name, why in wrong.items() if (name in wanted.values() if known else packed(name))}
    told = [f"zenodo:{number}: file {name!r} is left out: {why}" for name, why in odd.items()]
    if known and (missing := sorted(set(wanted.values()) - set(archives))):
        raise Failed("; ".join([f"zenodo:{number}: has no {', '.join(missing)}, but {', '.join(archives)}", *told]))
    if not wanted and told:
        raise Failed("; ".join(told))
    if not wanted:
        raise Impossible(f"{source}: has no archive, but {', '.join(archives) or 'nothing'}")
    for line in told:
        warn(line)
    return {suffix: archives[name] for suffix, name in wanted.items()}


def suffixes(names: list[str]) -> dict[str, str]:
    """The archives of a record by what is put behind the name of the output: their own names without the ending."""
    stems = [stem(name) for name in names]
    return {f"-{short if stems.count(short) == 1 else name}": name for short, name in zip(stems, names, strict=True)}


def packed(name: str) -> bool:
    """Whether a file is an archive, by its name."""
    return name.endswith(ENDINGS)


def base(url: str) -> str:
    """The last part of a URL or a path, without what is asked of a server behind it."""
    return url.partition("?")[0].rstrip("/").rpartition("/")[2]


def stem(source: str) -> str:
    """The last part of a URL or a path, without what archives end with."""
    last = base(source).removeprefix("zenodo:")
    return next((last.removesuffix(ending) for ending in ENDINGS if last.endswith(ending)), last)


def is_published(source: str) -> bool:
    """Whether Zenodo is asked for it: a name or a record."""
    return bool(source in names() and names()[source].record) or source.startswith("zenodo:")


def is_archive(source: str) -> bool:
    """Whether a name, a record or a URL stands for archives."""
    return is_published(source) or packed(base(source))


def nearest(name: str) -> str:
    """What to say of a name that nobody knows."""
    close = get_close_matches(name, names(), 1)
    return f"did you mean {close[0]}?" if close else f"the names are {', '.join(names())}."
