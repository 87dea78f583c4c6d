"""`ident import`: others' images and latents as a dataset."""

from __future__ import annotations

from pathlib import Path

import click

from ident.cli.export import LISTED
from ident.cli.output import say_datasets, say_file
from ident.cli.progress import in_bytes, progress
from ident.render.exchange import single
from ident.render.exchange.import_ import import_path
from ident.render.exchange.layouts import LAYOUTS
from ident.render.store.codecs import CODECS
from ident.render.store.storage import Storage

EPILOG = """\b
Examples:
  ident import published/train --from 3dident --out data/mine
  ident import mine.tar --from causal3dident --out data/mine
  ident import kitti_peds_v2.pickle --from kitti-masks --out data/kitti-masks
"""


@click.command("import", epilog=f"{LISTED}\n\n{EPILOG}")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "layout",
    type=click.Choice([*LAYOUTS, *single.SINGLES]),
    required=True,
    metavar="LAYOUT",
    help=f"The layout it is in, or of single files which: {', '.join(single.SINGLES)}.",
)
@click.option("--out", required=True, help="The folder where it goes.")
@click.option("--codec", type=click.Choice(list(CODECS)), default="compact", show_default=True, help="Both lossless.")
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def import_(path: Path, layout: str, out: str, codec: str, force: bool, as_json: bool) -> None:
    """Make shards of what others have made.

    PATH is a folder with images and latents, a tar archive of one, or a single file of a sharded layout. Type the same
    command again to go on after an interruption.

    The published files of kitti-masks, natural-sprites and dsprites are checked and kept as they are; the images of
    dsprites are compared with the drawn ones.
    """
    target = Storage(out)
    if layout in single.SINGLES:
        with progress("reading") as done:
            described = single.copy(layout, path, target.here, force=force, tell=done)
        say_file(target.here, single.SINGLES[layout].file, described, as_json=as_json)
        return
    with progress("importing", in_bytes) as done:
        manifest = import_path(path, layout, target, codec=codec, force=force, tell=done)
    say_datasets([(target, manifest)], as_json=as_json)
