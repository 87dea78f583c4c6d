"""`ident verify`: check a dataset."""

from __future__ import annotations

import click

from ident.cli.options import world_of
from ident.cli.progress import plural, progress
from ident.cli.terminal import say, say_json
from ident.render.errors import Impossible
from ident.render.stage.rerender import rendered_world, verify_and_rerender
from ident.render.store import verify as verifying
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from ident.render.worlds import World

EPILOG = """\b
Examples:
  ident verify data/3dident
  ident verify data/3dident --rerender 8
  ident verify data/discs --rerender 8 --world discs.py:world
"""


@click.command(epilog=EPILOG)
@click.argument("data")
@click.option(
    "--rerender", type=click.IntRange(min=0), default=0, metavar="K", help="Render K random images again, and compare."
)
@click.option(
    "--world", callback=world_of, metavar="WORLD", help="Where the dataset's world is defined, if it is your own."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which images these are.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def verify(context: click.Context, data: str, rerender: int, world: World | None, seed: int, as_json: bool) -> None:
    """Check a dataset.

    DATA is a folder or a URL: every checksum, the shape of everything, and that every image can be read. Exit code 1
    if something is wrong, with a line for each fault on stderr. A damaged or missing shard is rendered again by the
    command that made the dataset; delete it first, if it lies at a URL.
    """
    if rerender:
        manifest = Manifest.read(Storage(data))
        try:
            world = rendered_world(manifest, world)
        except Impossible as error:
            raise Impossible(
                f"--rerender {rerender}: {error}. --world names the definition of a world of your own; without "
                "--rerender nothing is rendered"
            ) from error
    with progress("checking") as done:
        if rerender and world is not None:
            verdict = verify_and_rerender(data, rerender, world, seed=seed, done=done)
        else:
            verdict = verifying.verify(data, world, done=done)
    if as_json:
        say_json(verdict.describe())
    else:
        for line in verdict.wrong:
            say(line, err=True)
        state = plural(len(verdict.wrong), "fault") if verdict.wrong else "clean"
        again = (
            f", {verdict.identical} of {verdict.rerendered} identical when rendered again" if verdict.rerendered else ""
        )
        worst = f", {verdict.psnr:.1f} dB for the worst of the others" if verdict.psnr is not None else ""
        say(f"{data}: {state}; {verdict.images} images in {verdict.shards} shards{again}{worst}")
    context.exit(1 if verdict.wrong else 0)
