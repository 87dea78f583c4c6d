"""`ident export`: a dataset as others' readers expect it."""

from __future__ import annotations

import click

from ident.cli.progress import progress
from ident.cli.terminal import say, say_json
from ident.render.exchange.export import Export
from ident.render.exchange.layouts import LAYOUTS
from ident.render.store.dataset import Dataset
from ident.render.store.storage import Storage

LISTED = "\b\nLayouts:\n" + "\n".join(f"  {name:<13}  {layout.meaning}" for name, layout in LAYOUTS.items())

EPILOG = """\b
Examples:
  ident export data/3dident --to 3dident --out published/train
  ident export data/3dident --to webdataset --out tars
"""


@click.command(epilog=f"{LISTED}\n\n{EPILOG}")
@click.argument("data")
@click.option("--to", "layout", type=click.Choice(list(LAYOUTS)), required=True, help="The layout that it shall be in.")
@click.option("--out", required=True, help="The folder where it goes, like published/train.")
@click.option("--force", is_flag=True, help="Overwrite what is there, and remove an earlier export.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def export(data: str, layout: str, out: str, force: bool, as_json: bool) -> None:
    """Write a dataset as others' readers expect it.

    DATA is a folder or a URL. Every image is written as PNG, read again and compared. The files get their names when
    all of them are whole, so that no reader finds half of a dataset. Type the same command again to go on after an
    interruption.
    """
    dataset = Dataset(data)
    with progress("exporting") as done:
        Export(dataset, layout, Storage(out).here).run(force=force, tell=done)
    if as_json:
        say_json({"out": out, "images": len(dataset)})
    else:
        say(f"{out}: {len(dataset)} images")
