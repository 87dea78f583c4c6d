"""Push: a dataset from a folder on this machine to another place, a folder or a URL that can be written to.

Shards first, dataset.json last: until all have arrived, no reader takes the place for a dataset.
"""

from __future__ import annotations

from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.exchange.copying import Count, check_places, check_target, each
from ident.render.store.files import LOCK, cache_folder, lock, make_inside
from ident.render.store.inventory import tidy
from ident.render.store.manifest import MANIFEST, Manifest
from ident.render.store.storage import Storage


def push(source: Storage, out: Storage, *, force: bool, tell: Tell) -> Manifest:
    """Bring a dataset to another place. Shards that are there and whole are not sent again."""
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
            if fault := source.fault(file, record.bytes, record.sha256):
                raise Failed(f"{source.path(file)}: {fault}")
            if not count.stop.is_set() and out.fault(file, record.bytes, record.sha256):
                out.put(folder / file, file)
            count.add(record.bytes)

        each(list(manifest.shards), shard, Count(manifest.disk, tell))
        out.write(MANIFEST, manifest.to_json().encode())
    return manifest
