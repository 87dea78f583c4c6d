"""What there is of a dataset where it lies; how a shard gets there, and how all of it is removed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ident.render.aliases import Float32s
from ident.render.errors import Failed, Impossible
from ident.render.store import shards
from ident.render.store.columns import Columns
from ident.render.store.files import IMPORTED, PARTS, TEMPORARY, remove, remove_folder, sha256
from ident.render.store.journal import Journal
from ident.render.store.manifest import MANIFEST, Manifest, Record
from ident.render.store.recipe import agreed
from ident.render.store.shards import Span
from ident.render.store.storage import Storage


def manifest_there(out: Storage) -> Manifest | None:
    """The manifest of the dataset that is there."""
    try:
        return Manifest.read(out)
    except Impossible:
        return None
    except Failed as error:
        raise Failed(f"{error}: give --force to make the dataset anew, or another --out") from error


def whole_shards(out: Storage, manifest: Manifest) -> dict[int, Record]:
    """The shards of a manifest that are there as it says, by number."""

    def fault(number: int) -> str | None:
        record = manifest.shards[number]
        return out.fault(manifest.span(number).file, record.bytes, record.sha256)

    with ThreadPoolExecutor(8) as pool:
        faults = pool.map(fault, manifest.shards)
        return {i: record for (i, record), wrong in zip(manifest.shards.items(), faults, strict=True) if not wrong}


def put_shard(
    out: Storage,
    part: Path,
    span: Span,
    raw: Float32s,
    columns: Columns,
    journal: Journal,
    recipe: Mapping[str, Any],
) -> Record:
    """Write the shard of a full journal to `part`, and put it in its place."""
    names = [factor["name"] for factor in recipe["world"]["factors"]]
    try:
        shards.write(part, span, raw, names, columns, journal, json.dumps(agreed(recipe)))
        record = Record(span.start, span.n, part.stat().st_size, sha256(part), journal.sums)
        out.take(part, span.file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return record


def clear(out: Storage) -> None:
    """Remove the dataset that is there or was begun, and nothing else; its manifest first: no reader sees a half."""
    out.delete(MANIFEST)
    for name in shard_files(out):
        out.delete(name)
    if out.folder:
        (out.folder / IMPORTED).unlink(missing_ok=True)
        remove_folder(out.folder / PARTS)


def import_begun(out: Storage) -> bool:
    """Whether an import was begun there; its files may be all that there is of it."""
    return out.folder is not None and (out.folder / IMPORTED).exists()


def shard_files(out: Storage) -> list[str]:
    """The files there whose names only shards have."""
    return [name for name in out.names("shards/*.h5") if re.fullmatch(r"shards/\d{5,}\.h5", name)]


def tidy(out: Storage) -> None:
    """Remove what was not whole when a run was killed."""
    if out.folder:
        for folder in (out.folder, out.folder / "shards"):
            remove(folder, TEMPORARY)
