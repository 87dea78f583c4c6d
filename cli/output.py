"""Results that several commands print."""

from __future__ import annotations

from ident.cli.progress import in_bytes
from ident.cli.terminal import say, say_json
from ident.render.store.manifest import MANIFEST, Manifest
from ident.render.store.storage import Storage


def say_made(made: list[tuple[Storage, Manifest]], *, as_json: bool) -> None:
    """The datasets that were made: one JSON object, or a line each."""
    if as_json:
        found = [{"out": out.url, "images": manifest.n, "bytes": manifest.disk} for out, manifest in made]
        say_json({"datasets": found})
    else:
        for out, manifest in made:
            say(f"{out.path(MANIFEST)}: {manifest.n} images, {in_bytes(manifest.disk)}")
