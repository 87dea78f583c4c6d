"""`ident info`: what is in a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ident.cli.progress import in_bytes
from ident.cli.terminal import say, say_json
from ident.render.store.columns import Column
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from ident.render.worlds import Category, Circle, Factor

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
    height, width, _ = manifest.shape
    state = "complete" if manifest.complete else f"incomplete: {manifest.done} are there, type its command again"
    lines = {
        "world": f"{manifest.world.name}, {len(manifest.factors)} factors, definition {manifest.world.digest[:12]}",
        "images": f"{manifest.n} of {width} x {height}, {state}",
        "shards": f"{len(manifest.shards)} of {manifest.count}, {in_bytes(manifest.disk)}",
        "columns": "; ".join(kept(name, column) for name, column in manifest.columns.items()),
        "source": named(manifest.source),
        "positives": named(manifest.positives or {}),
        "rendered": how(manifest.render),
    }
    if manifest.complete:
        mean, sd = manifest.moments()
        lines |= {"mean": " ".join(f"{value:.4f}" for value in mean), "sd": " ".join(f"{value:.4f}" for value in sd)}
    for name, line in lines.items():
        if line:
            say(f"{name:<9} {line}")
    for factor in manifest.factors:
        say(f"  {factor.name}: {varies(factor)}")


def named(values: Mapping[str, Any]) -> str:
    """Values with their names."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def kept(name: str, column: Column) -> str:
    """A column, in a few words."""
    shape = " x ".join(map(str, column.shape)) or "one"
    return f"{name} {shape} {column.dtype.name}, {column.codec}"


def varies(factor: Factor) -> str:
    """How a factor varies, in a line: its scene values, and what it means."""
    kind = factor.kind
    if isinstance(kind, Category):
        names = ", ".join(kind.names[:8]) + (f" and {len(kind.names) - 8} more" if len(kind.names) > 8 else "")
        values = f"one of {names}"
    else:
        low, high = (bound * factor.scale for bound in (kind.low, kind.high))
        around = "around a circle " * isinstance(kind, Circle)
        values = f"{around}from {low:.4g} to {high:.4g} {factor.unit}".rstrip()
    return f"{values}; {factor.meaning}" if factor.meaning else values


def how(render: Mapping[str, Any] | None) -> str:
    """What rendered it, in a line."""
    if render is None:
        return "elsewhere, how is not known"
    versions = [f"{name} {value[:12]}" for name, value in render.items() if isinstance(value, str) and name != "device"]
    return f"on the {render.get('device', 'unknown device')}, by {', '.join(versions)}"
