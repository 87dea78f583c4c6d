"""`ident push`: a dataset to another place."""

from __future__ import annotations

import click

from ident.cli.output import say_datasets
from ident.cli.progress import in_bytes, progress
from ident.render.exchange import push as pushing
from ident.render.store.storage import Storage

EPILOG = """\b
Examples:
  ident push data/3dident shared/3dident
  ident push data/3dident s3://bucket/3dident
"""


@click.command(epilog=EPILOG)
@click.argument("data")
@click.argument("dest")
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def push(data: str, dest: str, force: bool, as_json: bool) -> None:
    """Bring a dataset elsewhere.

    DATA is a folder, DEST a folder or a URL like s3://bucket/folder. The shards go first and dataset.json last, so
    that no reader sees half a dataset. Any static web server can serve the folder, for `ident pull` and for the
    reader. Type the same command again to go on after an interruption.
    """
    target = Storage(dest, "DEST")
    with progress("bringing", in_bytes) as done:
        manifest = pushing.push(Storage(data), target, force=force, tell=done)
    say_datasets([(target, manifest)], as_json=as_json)
