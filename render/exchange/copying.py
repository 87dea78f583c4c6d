"""What pull and push share: several files at once, counted and stopped together; and which places are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event, Lock

from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.store.inventory import clear, import_begun, shard_files
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage

AT_ONCE = 4  # files on their way


class Stopped(Exception):
    """The others have stopped."""


class Count:
    """Bytes from several threads, told as they come; and whether it is time to stop."""

    def __init__(self, total: int, tell: Tell) -> None:
        self._total, self._tell, self._lock, self._bytes = total, tell, Lock(), 0
        self.stop = Event()
        self.add(0)

    def add(self, count: int) -> None:
        """So many more, or fewer."""
        with self._lock:
            self._bytes += count
            self._tell(self._bytes, self._total)

    def pause(self, seconds: float) -> None:
        """Wait, unless it is time to stop."""
        if self.stop.wait(seconds):
            raise Stopped


def each(numbers: Sequence[int], work: Callable[[int, Count], None], count: Count) -> None:
    """Do the work for all numbers, some at once; the first error stops the others."""
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
        records = {manifest.span(number).file: record for number, record in manifest.shards.items()}
        same = not import_begun(out) and all(
            name in records and not out.fault(name, records[name].bytes, records[name].sha256)
            for name in shard_files(out)
        )
    except Failed:
        if not force:
            raise
        same = False
    if not same and not force:
        raise Impossible(f"{out}: holds another dataset: give --force to overwrite it, or another {out.option}")
    if not same:
        clear(out)
