"""Results that several commands print."""

from __future__ import annotations

from pathlib import Path

from ident.cli.progress import in_bytes
from ident.cli.terminal import say, say_json
from ident.render.store.manifest import MANIFEST, Manifest
from ident.render.store.storage import Storage


def say_datasets(datasets: list[tuple[Storage, Manifest]], *, as_json: bool) -> None:
    """Print datasets that a command has brought somewhere: one JSON object, or a line each."""
    if as_json:
        described = [{"out": out.url, "images": manifest.n, "bytes": manifest.disk} for out, manifest in datasets]
        say_json({"datasets": described})
    else:
        for out, manifest in datasets:
            say(f"{out.path(MANIFEST)}: {manifest.n} images, {in_bytes(manifest.disk)}")


def say_file(folder: Path, file: str, described: str, *, as_json: bool) -> None:
    """Print where a published file is now, and what is in it."""
    if as_json:
        say_json({"file": str(folder / file), "holds": described})
    else:
        say(f"{folder / file}: {described}")
