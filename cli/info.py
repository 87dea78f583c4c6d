"""`ident info`: what is in a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ident.cli.progress import in_bytes
from ident.cli.terminal import say, say_json
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage

EPILOG = """\b
Examples:
  ident info data/3dident
  ident info https://example.org/3dident --json
"""


@click.command(epilog=EPILOG)
@click.argument("data")
@click.option("--json", "as_json", is_flag=True, help="Print dataset.json.")
def info(data: str, as_json: bool) -> None:
    """Say what is in a dataset. DATA is a folder or a URL."""
    manifest = Manifest.read(Storage(data))
    if as_json:
        say_json(manifest.describe())
        return
    state = "complete" if manifest.complete else f"incomplete: {manifest.done} are there, type its command again"
    lines = {
        "images": f"{manifest.n} of {manifest.size} x {manifest.size}, {state}",
        "shards": f"{len(manifest.shards)} of {manifest.count}, {in_bytes(manifest.disk)}, {manifest.codec}",
        "passes": ", ".join(manifest.passes) or "none",
        "source": ", ".join(f"{name} {value}" for name, value in manifest.source.items()),
        "positives": ", ".join(f"{name} {value}" for name, value in (manifest.positives or {}).items()),
        "rendered": how(manifest.render),
    }
    if manifest.complete:
        mean, sd = manifest.moments()
        lines |= {"mean": " ".join(f"{value:.4f}" for value in mean), "sd": " ".join(f"{value:.4f}" for value in sd)}
    for name, line in lines.items():
        if line:
            say(f"{name:<9} {line}")


def how(render: Mapping[str, Any] | None) -> str:
    """What rendered it, in a line."""
    if render is None:
        return "elsewhere, how is not known"
    return f"by bpy {render['bpy']} on the {render['device']}, ident {render['ident']}, scene {render['scene'][:12]}"
