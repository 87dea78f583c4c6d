"""`ident pull` and `ident push`: bring a dataset here, or elsewhere."""

from __future__ import annotations

import json

import click

from ident.cli.progress import in_bytes, progress
from ident.render import transfer
from ident.render.manifest import MANIFEST, Manifest
from ident.render.storage import Storage


def say(out: Storage, manifest: Manifest, *, as_json: bool) -> None:
    """The result, in a line."""
    if as_json:
        click.echo(json.dumps({"out": out.url, "images": manifest.n, "bytes": manifest.disk}))
    else:
        click.echo(f"{out.path(MANIFEST)}: {manifest.n} images, {in_bytes(manifest.disk)}")


@click.command()
@click.argument("source")
@click.option("--out", help="The folder where it goes.  [default: data/ and the last part of SOURCE]")
@click.option("--mirror", multiple=True, metavar="URL", help="Another place that has the same; may be given again.")
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def pull(source: str, out: str | None, mirror: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Fetch a dataset: its shards, several at once, each checked by its sha256.

    SOURCE is the folder with the dataset.json, at http(s)://, s3:// or on a disk. Type the same command again to go on
    after an interruption, in the middle of a file too.

    \b
    ident pull https://example.org/3dident
    ident pull s3://bucket/3dident --out data/3dident
    """
    place = Storage(source)
    target = Storage(out if out is not None else f"data/{place.url.rpartition('/')[2]}")
    with progress("fetching", in_bytes) as done:
        manifest = transfer.pull([place, *map(Storage, mirror)], target, force=force, tell=done)
    say(target, manifest, as_json=as_json)


@click.command()
@click.argument("data")
@click.argument("dest")
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def push(data: str, dest: str, force: bool, as_json: bool) -> None:
    """Bring a dataset elsewhere: from the folder DATA to DEST, a folder or a URL like s3://bucket/folder.

    The shards go first and dataset.json last, so that no reader sees half a dataset. Any static web server can serve
    the folder, for `ident pull` and for the reader. Type the same command again to go on after an interruption.
    """
    target = Storage(dest)
    with progress("bringing", in_bytes) as done:
        manifest = transfer.push(Storage(data), target, force=force, tell=done)
    say(target, manifest, as_json=as_json)
