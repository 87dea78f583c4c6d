"""Pull: a dataset from a folder, a web server or a bucket, each shard from the first place that has it whole.

Shards first, dataset.json last: until all have arrived and been checked, no reader takes the folder for a dataset. What
has arrived stays, also half a shard, and is not fetched again. How patient it is with a server that answers 429 or 503
is in `ident.render.store.retries`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.exchange.copying import Count, check_places, check_target, each
from ident.render.store.files import (
    LOCK,
    PARTS,
    SPARE,
    check_room,
    lock,
    make_inside,
    naming,
    open_plain,
    remove_folder,
)
from ident.render.store.inventory import tidy
from ident.render.store.manifest import MANIFEST, Manifest, Record
from ident.render.store.storage import Storage

TRIES = 3  # of a shard that arrives damaged


@dataclass
class Pull:
    """A dataset, the places that have it, and the folder where it goes."""

    sources: Sequence[Storage]
    out: Storage
    manifest: Manifest
    failed: set[Storage] = field(default_factory=set)
    """The sources to be asked last."""

    @property
    def parts(self) -> Path:
        """Where files lie that are on their way."""
        return self.out.here / PARTS

    def shard(self, number: int, count: Count) -> None:
        """Fetch a shard, or what is missing of it."""
        file, record = self.manifest.span(number).file, self.manifest.shards[number]
        if not self.out.fault(file, record.bytes, record.sha256):
            count.add(record.bytes)
            return
        part = self.parts / f"{number:05d}.{record.sha256[:16]}"
        sources, damaged, fault = sorted(self.sources, key=self.failed.__contains__), 0, ""
        while sources and damaged < TRIES:
            source = sources.pop(0)
            try:
                digest = fetch(source, file, part, record, count)
            except (Failed, FileNotFoundError) as error:
                fault = str(error) if isinstance(error, Failed) else f"{source.path(file)}: is missing"
                self.failed.add(source)
                count.add(-part.stat().st_size)  # which the next one goes on from
                continue
            if count.stop.is_set():
                return
            if digest == record.sha256:
                self.out.take(part, file)
                return
            sources.append(source)
            damaged += 1
            fault = f"{source.path(file)}: arrived damaged {damaged} times, its sha256 is {digest}, not {record.sha256}"
            count.add(-part.stat().st_size)
            part.unlink()
        raise Failed(fault)


def fetch(source: Storage, file: str, part: Path, record: Record, count: Count) -> str:
    """Fetch a file from where its part ends; gives the sha256 of what the part has then."""
    digest = hashlib.sha256()
    with naming(part), os.fdopen(open_plain(part, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b") as kept:
        kept.seek(0)
        while piece := kept.read(2**20):
            digest.update(piece)
        place = kept.tell()
        if place > record.bytes:
            kept.truncate(0)
            digest, place = hashlib.sha256(), 0
        count.add(place)
        more = True
        while more and not count.stop.is_set():  # a server may end before the file does
            more = False
            for piece in source.stream(file, place, count.pause) if place < record.bytes else ():
                used = piece[: record.bytes - place]
                digest.update(used)
                kept.write(used)
                place += len(used)
                count.add(len(used))
                more = place < record.bytes
                if not more or count.stop.is_set():
                    break
    return digest.hexdigest()


def pull(sources: Sequence[Storage], out: Storage, *, force: bool, tell: Tell) -> Manifest:
    """Bring a dataset into a folder."""
    check_places(sources, out)
    manifest = read_any(sources)
    if not manifest.complete:
        raise Impossible(
            f"{sources[0]}: incomplete, {manifest.done} of {manifest.n} images are there; it is being made"
        )
    make_inside(out.here, "shards")
    with lock(out.here / LOCK, f"{out}: another run is writing there"):
        tidy(out)
        check_target(out, manifest, force=force)
        make_inside(out.here, PARTS)
        missing = sum(record.bytes for i, record in manifest.shards.items() if out.size(manifest.span(i).file) is None)
        said = f"{missing / 1e9:.2f} GB are to come, and {SPARE / 1e9:.2f} GB shall stay free;"
        check_room(out.here, missing, said)
        run = Pull(sources, out, manifest)
        each(list(manifest.shards), run.shard, Count(manifest.disk, tell))
        out.write(MANIFEST, manifest.to_json().encode())
        remove_folder(run.parts)
    return manifest


def read_any(sources: Sequence[Storage]) -> Manifest:
    """The manifest, of the first place that gives it."""
    for source in sources[:-1]:
        try:
            return Manifest.read(source)
        except (Failed, Impossible):
            continue
    return Manifest.read(sources[-1])
