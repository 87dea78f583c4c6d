"""Files that others have published: where they are looked for, what to type for them, and which ones they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from ident.benchmark.sources.data import FILES, Data
from ident.render.errors import Impossible
from ident.render.store import files


def place_of(data: Mapping[str, Data], place: str, name: str, file: str, stand_in: str) -> Path:
    """The file of a published dataset: at a place, else where the user said, or in the folder of `ident pull`."""
    path = folder_of(data, place, name)
    path = path / file if path.is_dir() or not path.suffix else path
    if not path.is_file():
        raise Impossible(f"{path}: is not there; type ident pull {name}, or --source {stand_in} for stand-ins")
    return path


def folder_of(data: Mapping[str, Data], place: str, name: str) -> Path:
    """The folder of a published dataset, likewise."""
    return Path(place or (data[FILES].place if FILES in data else f"data/{name}"))


def digest_of(paths: Sequence[Path]) -> str:
    """The sha256 of a file, or that of the sums of several."""
    sums = [sum_of(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return sums[0] if len(sums) == 1 else sha256(" ".join(sums).encode()).hexdigest()


@cache
def sum_of(path: Path, size: int, modified: int) -> str:  # noqa: ARG001
    """The sha256 of a file of a size, changed at a time: it is read once."""
    return files.sha256(path)
