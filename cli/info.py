"""`ident info`: what is in a dataset."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from ident.render.dataset import Manifest
from ident.render.storage import Storage


@click.command()
@click.argument("data")
@click.option("--json", "as_json", is_flag=True, help="Print dataset.json.")
def info(data: str, as_json: bool) -> None:
    """Say what is in a dataset. DATA is a folder or a URL."""
    manifest = Manifest.read(Storage(data))
    made = json.loads(manifest.to_json())
    if as_json:
        click.echo(json.dumps(made))
        return
    state = "complete" if manifest.complete else f"incomplete: {manifest.done} are there, type its command again"
    lines = {
        "images": f"{manifest.n} of {manifest.size} x {manifest.size}, {state}",
        "shards": f"{len(manifest.shards)} of {manifest.count}, {manifest.disk / 1e6:.1f} MB, {manifest.codec}",
        "passes": ", ".join(manifest.passes) or "none",
        "latents": ", ".join(latent["name"] for latent in manifest.latents),
        "source": ", ".join(f"{name} {value}" for name, value in manifest.source.items()),
        "rendered": how(made["render"]),
    }
    if manifest.complete:
        lines["mean"], lines["sd"] = (" ".join(f"{value:.4f}" for value in made[name]) for name in ("mean", "sd"))
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, line in lines.items():
        table.add_row(name, line)
    Console().print(table)


def how(render: dict[str, object] | None) -> str:
    """What rendered it, in a line."""
    if render is None:
        return "elsewhere, how is not known"
    return (
        f"by bpy {render['bpy']} on the {render['device']}, ident {render['ident']}, scene {str(render['scene'])[:12]}"
    )
