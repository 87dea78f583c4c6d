"""Datasets between places: pull one from a folder, a web server or a bucket, and push one there.

Shards first, dataset.json last: until all is there and checked, no reader takes it for a dataset. What has arrived
stays, also half a shard, and is not fetched again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock

from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.store.files import (
    LOCK,
    PARTS,
    SPARE,
    cache_folder,
    check_room,
    lock,
    make_inside,
    naming,
    open_plain,
    remove_folder,
)
from ident.render.store.inventory import clear, import_begun, shard_files, tidy
from ident.render.store.manifest import MANIFEST, Manifest, Record
from ident.render.store.storage import Storage

AT_ONCE = 4  # files on their way
TRIES = 3  # of a shard that arrives damaged


class Stopped(Exception):
    """The others have stopped."""


class Count:
    """Bytes from several threads, told as they come; and whether it is time to stop."""

    def __init__(self, total: int, tell: Tell) -> None:
        self._total, self._tell, self._lock, self._there = total, tell, Lock(), 0
        self.stop = Event()
        self.add(0)

    def add(self, count: int) -> None:
        """So many more, or fewer."""
        with self._lock:
            self._there += count
            self._tell(self._there, self._total)

    def pause(self, seconds: float) -> None:
        """Wait, unless it is time to stop."""
        if self.stop.wait(seconds):
            raise Stopped


@dataclass(frozen=True)
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
        sources, damaged, wrong = sorted(self.sources, key=self.failed.__contains__), 0, ""
        while sources and damaged < TRIES:
            source = sources.pop(0)
            try:
                found = fetch(source, file, part, record, count)
            except (Failed, FileNotFoundError) as error:
                wrong = str(error) if isinstance(error, Failed) else f"{source.path(file)}: is missing"
                self.failed.add(source)
                count.add(-part.stat().st_size)  # which the next one goes on from
                continue
            if count.stop.is_set():
                return
            if found == record.sha256:
                self.out.take(part, file)
                return
            sources.append(source)
            damaged += 1
            wrong = f"{source.path(file)}: arrived damaged {damaged} times, its sha256 is {found}, not {record.sha256}"
            count.add(-part.stat().st_size)
            part.unlink()
        raise Failed(wrong)


def fetch(source: Storage, file: str, part: Path, record: Record, count: Count) -> str:
    """Fetch a file from where its part ends; gives the sha256 of what there is then."""
    digest = hashlib.sha256()
    with naming(part), os.fdopen(open_plain(part, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b") as kept:
        kept.seek(0)
        while piece := kept.read(2**20):
            digest.update(piece)
        there = kept.tell()
        if there > record.bytes:
            kept.truncate(0)
            digest, there = hashlib.sha256(), 0
        count.add(there)
        more = True
        while more and not count.stop.is_set():  # a server may end before the file does
            more = False
            for piece in source.stream(file, there, count.pause) if there < record.bytes else ():
                used = piece[: record.bytes - there]
                digest.update(used)
                kept.write(used)
                there += len(used)
                count.add(len(used))
                more = there < record.bytes
                if not more or count.stop.is_set():
                    break
    return digest.hexdigest()


def pull(sources: Sequence[Storage], out: Storage, *, force: bool, tell: Tell) -> Manifest:
    """Bring a dataset into a folder."""
    check_places(sources, out)
    manifest = read_any(sources)
    made = Pull(sources, out, manifest)
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
        each(list(manifest.shards), made.shard, Count(manifest.disk, tell))
        out.write(MANIFEST, manifest.to_json().encode())
        remove_folder(made.parts)
    return manifest


def read_any(sources: Sequence[Storage]) -> Manifest:
    """The manifest, of the first place that gives it."""
    for source in sources[:-1]:
        try:
            return Manifest.read(source)
        except (Failed, Impossible):
            continue
    return Manifest.read(sources[-1])


def check_places(sources: Sequence[Storage], out: Storage) -> None:
    """Refuse to bring a dataset to where it is."""
    for source in sources:
        if source == out or (source.folder and out.folder and source.folder.resolve() == out.folder.resolve()):
            raise Impossible(f"{out} and {source} are the same place; give another {out.option}")


def check_target(out: Storage, manifest: Manifest, *, force: bool) -> None:
    """Refuse to overwrite another dataset, unless forced; one that lacks a shard is completed."""
    try:
        same = Manifest.read(out) == manifest
    except Impossible:
        ours = {manifest.span(number).file: record for number, record in manifest.shards.items()}
        there = shard_files(out)
        same = not import_begun(out) and all(
            name in ours and not out.fault(name, ours[name].bytes, ours[name].sha256) for name in there
        )
    except Failed:
        if not force:
            raise
        same = False
    if not same and not force:
        raise Impossible(f"{out}: holds another dataset: give --force to overwrite it, or another {out.option}")
    if not same:
        clear(out)


def each(numbers: Sequence[int], work: Callable[[int, Count], None], count: Count) -> None:
    """Do the work for all, some at once; the first error stops the others."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(work, number, count) for number in numbers]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future.done():
                    future.result()
        finally:
            count.stop.set()
            pool.shutdown(cancel_futures=True)


def push(source: Storage, out: Storage, *, force: bool, tell: Tell) -> Manifest:
    """Bring a dataset to another place: a folder, or a URL that can be written to."""
    out.check_output()
    check_places([source], out)
    manifest = Manifest.read(source)
    if source.folder is None:
        raise Impossible(f"{source}: give a folder on this machine; `ident pull` brings it there")
    folder = source.folder
    if not manifest.complete:
        raise Impossible(f"{source}: incomplete, {manifest.done} of {manifest.n} images are there")
    if out.folder:
        make_inside(out.folder, "shards", instead=f"give another {out.option}")
    with lock((out.folder or cache_folder("locks", out.key)) / LOCK, f"{out}: another run is writing there"):
        tidy(out)
        check_target(out, manifest, force=force)

        def shard(number: int, count: Count) -> None:
            file, record = manifest.span(number).file, manifest.shards[number]
            wrong = source.fault(file, record.bytes, record.sha256)
            if wrong:
                raise Failed(f"{source.path(file)}: {wrong}")
            if not count.stop.is_set() and out.fault(file, record.bytes, record.sha256):
                out.put(folder / file, file)
            count.add(record.bytes)

        each(list(manifest.shards), shard, Count(manifest.disk, tell))
        out.write(MANIFEST, manifest.to_json().encode())
    return manifest
