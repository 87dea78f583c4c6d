"""`ident pull`, `push`, `import` and `export`: datasets here and elsewhere, from and to what others use."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ident.cli.progress import in_bytes, progress
from ident.render import archives, transfer
from ident.render.codecs import CODECS
from ident.render.dataset import Dataset
from ident.render.errors import Impossible
from ident.render.exporting import Export
from ident.render.layouts import LAYOUTS
from ident.render.manifest import MANIFEST, Manifest
from ident.render.storage import Storage

LISTED = "\b\nLayouts:\n" + "\n".join(f"  {name:<13}  {layout.meaning}" for name, layout in LAYOUTS.items())


def say(made: list[tuple[Storage, Manifest]], *, as_json: bool) -> None:
    """The results: one JSON object, or a line each."""
    if as_json:
        found = [{"out": out.url, "images": manifest.n, "bytes": manifest.disk} for out, manifest in made]
        click.echo(json.dumps({"datasets": found}))
    else:
        for out, manifest in made:
            click.echo(f"{out.path(MANIFEST)}: {manifest.n} images, {in_bytes(manifest.disk)}")


@click.command()
@click.argument("source", required=False)
@click.option("--list", "listing", is_flag=True, help="Print the names that SOURCE may be.")
@click.option("--out", help="The folder where it goes.  [default: data/ and the last part of SOURCE]")
@click.option("--mirror", multiple=True, metavar="URL", help="Another place that has the same; may be given again.")
@click.option(
    "--codec", type=click.Choice(list(CODECS)), default="compact", show_default=True, help="For what comes in archives."
)
@click.option("--zenodo", metavar="URL", help="Zenodo's API, or what answers like it.  [default: $IDENT_ZENODO]")
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def pull(
    source: str | None,
    listing: bool,
    out: str | None,
    mirror: tuple[str, ...],
    codec: str,
    zenodo: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Fetch a dataset.

    SOURCE is a name (--list), a Zenodo record, a tar archive in one of the layouts of `ident import`, which becomes
    shards as it streams by, or a folder with a dataset.json, at http(s)://, s3:// or on a disk. All is checked by the
    publisher's sums. Type the same command again to go on after an interruption.

    \b
    ident pull 3dident                        data/3dident and data/3dident-test
    ident pull zenodo:4784282
    ident pull https://example.org/3dident
    ident pull s3://bucket/3dident --out data/mine
    """
    if listing:
        for name, published in archives.NAMES.items():
            click.echo(f"{name}: zenodo:{published.record}, {', '.join(published.archives.values())}")
        return
    if source is None:
        raise Impossible(
            f"SOURCE is missing: give a name, a record or a URL; the names are {', '.join(archives.NAMES)}"
        )
    place = out if out is not None else f"data/{stem(source)}"
    if source in archives.NAMES or source.startswith("zenodo:") or source.endswith(archives.ENDINGS):
        made = []
        for suffix, archive in archives.find(source, zenodo).items():
            target = Storage(f"{place}{suffix}")
            with progress(f"fetching {archive.url.rpartition('/')[2]}"[:40], in_bytes) as done:
                manifest = archives.pull(archive, target, codec=codec, force=force, tell=done)
            made.append((target, manifest))
        say(made, as_json=as_json)
        return
    if not any(mark in source for mark in ("/", ".")) and not Path(source).exists():
        raise Impossible(f"{source}: {archives.nearest(source)} A URL or a folder will do, too")
    target = Storage(place)
    with progress("fetching", in_bytes) as done:
        manifest = transfer.pull([Storage(source), *map(Storage, mirror)], target, force=force, tell=done)
    say([(target, manifest)], as_json=as_json)


def stem(source: str) -> str:
    """The last part of a URL or a path, without what archives end with."""
    last = source.rstrip("/").rpartition("/")[2].removeprefix("zenodo:")
    return next((last.removesuffix(ending) for ending in archives.ENDINGS if last.endswith(ending)), last)


@click.command("import", epilog=LISTED)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--from", "layout", type=click.Choice(list(LAYOUTS)), required=True, help="The layout it is in.")
@click.option("--out", required=True, help="The folder where it goes.")
@click.option("--codec", type=click.Choice(list(CODECS)), default="compact", show_default=True, help="Both lossless.")
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def import_(path: Path, layout: str, out: str, codec: str, force: bool, as_json: bool) -> None:
    """Make shards of what others have made.

    PATH is a folder with images and latents, a tar archive of one, or a file of a set that has several. Type the same
    command again to go on after an interruption.
    """
    target = Storage(out)
    with progress("importing") as done:
        manifest = archives.bring_local(
            path, layout, target, codec=codec, force=force, tell=lambda count: done(count, count + 1)
        )
    say([(target, manifest)], as_json=as_json)


@click.command()
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
    target = Storage(dest)
    with progress("bringing", in_bytes) as done:
        manifest = transfer.push(Storage(data), target, force=force, tell=done)
    say([(target, manifest)], as_json=as_json)


@click.command(epilog=LISTED)
@click.argument("data")
@click.option("--to", "layout", type=click.Choice(list(LAYOUTS)), required=True, help="The layout that it shall be in.")
@click.option("--out", required=True, help="The folder where it goes, like published/train.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def export(data: str, layout: str, out: str, force: bool, as_json: bool) -> None:
    """Write a dataset as others' readers expect it.

    DATA is a folder or a URL. Every image is written as PNG, read again and compared; what says which files there
    are comes last, so that no reader finds half of a dataset. Type the same command again to go on after an
    interruption.
    """
    dataset = Dataset(data)
    with progress("exporting") as done:
        Export(dataset, LAYOUTS[layout], Path(out)).run(force=force, tell=done)
    click.echo(json.dumps({"out": out, "images": len(dataset)}) if as_json else f"{out}: {len(dataset)} images")
