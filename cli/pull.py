"""`ident pull`: a dataset from elsewhere."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from ident.cli.output import say_datasets, say_file
from ident.cli.progress import in_bytes, progress
from ident.cli.terminal import say, say_json, warn
from ident.render.errors import Impossible
from ident.render.exchange import cifar10, digits, published, single
from ident.render.exchange import pull as pulling
from ident.render.exchange.import_ import import_archive
from ident.render.store.codecs import CODECS
from ident.render.store.files import check_folder
from ident.render.store.storage import Storage

MIRRORED = {"mnist": (digits.fetch, "{:.0f}".format), "cifar10": (cifar10.fetch, in_bytes)}
"""What brings the files of a published dataset that mirrors have, and how it counts."""

EPILOG = """\b
Examples:
  ident pull 3dident                        data/3dident and data/3dident-test
  ident pull mnist                          data/mnist, four files
  ident pull https://example.org/3dident
  ident pull s3://bucket/3dident --out data/mine
"""


@click.command(epilog=EPILOG)
@click.argument("source", required=False)
@click.option("--list", "listing", is_flag=True, help="Print the names that SOURCE may be.")
@click.option("--out", help="The folder where it goes.  [default: data/ and the last part of SOURCE]")
@click.option(
    "--mirror",
    multiple=True,
    metavar="URL",
    help=f"Another place that has the same; may be given again. Of {' and '.join(MIRRORED)} it is asked first.",
)
@click.option(
    "--codec", type=click.Choice(list(CODECS)), default="compact", show_default=True, help="For what comes in archives."
)
@click.option(
    "--zenodo", metavar="URL", help="Zenodo's API, or what answers like it.  [default: $IDENT_ZENODO, or zenodo.org]"
)
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def pull(
    context: click.Context,
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

    SOURCE is a name (--list), a Zenodo record, a tar archive of a set in a layout of `ident import`, which becomes
    shards as it streams by, or a folder with a dataset.json, at http(s)://, s3:// or on a disk. All is checked by the
    sums that the publisher gives. Type the same command again to go on after an interruption.
    """
    if listing:
        names = {name: it.places for name, it in published.names().items()}
        if as_json:
            say_json(names)
        else:
            say("\n".join(f"{name}: {', '.join(places)}" for name, places in names.items()))
        return
    if source is None:
        raise Impossible(
            f"SOURCE is missing: give a name, a record or a URL; the names are {', '.join(published.names())}"
        )
    packed = published.is_archive(source)
    alone = source in single.SINGLES and source in published.names()
    known = published.names().get(source)
    for option, useful, why in (
        ("mirror", not packed, "only a folder with a dataset.json has mirrors, and " + " and ".join(MIRRORED)),
        ("codec", packed and not alone, "a folder with a dataset.json, and a single file, come as they are"),
        ("zenodo", published.is_published(source), "only for names and records Zenodo is asked"),
    ):
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE and not useful:
            raise Impossible(f"--{option} with {source}: {why}; leave it out")
    place = out if out is not None else f"data/{published.stem(source)}"
    check_folder(Storage(place).here)
    if alone:
        with progress(f"fetching {source}", in_bytes) as done:
            described = single.fetch(
                source, published.file_of(source, zenodo), Storage(place).here, force=force, tell=done
            )
        say_file(Path(place), single.SINGLES[source].file, described, as_json=as_json)
        return
    if known is not None and known.sums:
        fetch, words = MIRRORED[source]
        with progress(f"fetching {source}", words) as done:
            described = fetch(known, mirror, Storage(place).here, force=force, tell=done)
        say_file(Path(place), "", described, as_json=as_json)
        return
    if packed:
        datasets = []
        for suffix, archive in published.archives_of(source, zenodo, warn).items():
            target = Storage(f"{place}{suffix}")
            with progress(f"fetching {published.base(archive.url)}"[:40], in_bytes) as done:
                manifest = import_archive(archive, target, codec=codec, force=force, tell=done)
            datasets.append((target, manifest))
        say_datasets(datasets, as_json=as_json)
        return
    if not any(mark in source for mark in ("/", ".")) and not Path(source).exists():
        raise Impossible(f"{source}: {published.nearest(source)} A URL or a folder will do, too.")
    target = Storage(place)
    with progress("fetching", in_bytes) as done:
        manifest = pulling.pull([Storage(source), *map(Storage, mirror)], target, force=force, tell=done)
    say_datasets([(target, manifest)], as_json=as_json)
