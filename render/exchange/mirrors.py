"""Files of published datasets that mirrors have: each from the first that has it as its sum says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ident.render.errors import Failed, Impossible
from ident.render.store.files import sha256
from ident.render.store.storage import Storage

T = TypeVar("T")


def holds(path: Path, digest: str, *, force: bool) -> bool:
    """Whether a file is there as its sum says; refused where another lies that shall not be overwritten."""
    if path.is_file() and sha256(path) == digest:
        return True
    if path.exists() and not force:
        raise Impossible(f"{path}: holds something else; give --force to overwrite it, or another --out")
    return False


def from_first(mirrors: Sequence[str], names: Sequence[str], get: Callable[[Storage, str], T]) -> T:
    """What is got of the first mirror that has a file of one of these names; else what is wrong with all of them."""
    faults = list[str]()
    for mirror in mirrors:
        place = Storage(mirror)
        for name in names:
            try:
                return get(place, name)
            except FileNotFoundError:
                faults.append(f"{place.path(name)}: is not there")
            except (Failed, OSError) as error:
                faults.append(f"{place.path(name)}: {error}")
    raise Failed("; ".join(faults))
