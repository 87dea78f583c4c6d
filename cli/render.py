"""`ident render`: render a dataset."""

from __future__ import annotations

import click

from ident.cli.options import QUALITY, SIZE, own, parse_passes, world
from ident.cli.progress import duration, in_bytes, plural, progress
from ident.cli.terminal import say, say_json
from ident.render.blender.settings import PRESETS
from ident.render.errors import Impossible
from ident.render.stage import cluster, stage
from ident.render.stage import plan as planning
from ident.render.store.codecs import CODECS
from ident.render.store.manifest import MANIFEST
from ident.render.store.recipe import Recipe, Uniform
from ident.render.store.storage import Storage
from ident.render.worlds import World

EPILOG = """\b
Examples:
  ident render --n 250000 --gpus 4
  ident render --n 250000 --positives "laplace(0.1)"
  ident render --world discs.py:world --n 10000
  ident render --n 250000 --out s3://bucket/3dident --ray-address auto

See also: docs/formats.md, what lies in a dataset; docs/quality.md, what --quality costs.
"""


@click.command(epilog=EPILOG)
@world
@click.option("--n", type=int, default=1000, show_default=True, help="How many images. The paper: 250000.")
@click.option("--out", help="A folder, or a URL like s3://bucket/folder.  [default: data/WORLD, or -SPLIT behind it]")
@click.option("--split", default="train", show_default=True, help="Each split has latents of its own.")
@click.option("--seed", type=int, default=0, show_default=True, help="Image i depends on seed, split and i alone.")
@click.option("--size", type=int, help=SIZE)
@click.option("--quality", type=click.Choice(list(PRESETS)), help=QUALITY)
@click.option("--passes", default="", metavar="P,...", callback=parse_passes, help="Also mask, depth, normal.")
@click.option(
    "--positives", metavar="CONDITIONAL", callback=own, help="Render a positive for each image, like laplace(0.1)."
)
@click.option(
    "--codec",
    type=click.Choice(list(CODECS)),
    help="Both lossless. fast is read 4 times as fast and takes 1.7 times the disk.  [default: compact, if RGB]",
)
@click.option("--shard-size", type=int, help="Images in a file.  [default: 16 to 1000, by --n]")
@click.option(
    "--gpus", type=click.IntRange(min=0), help="Render on this many GPUs, one a worker.  [default: all that there are]"
)
@click.option("--workers", type=int, help="How many render at once.  [default: one a GPU, or one a core]")
@click.option("--ray-address", metavar="HOST:PORT", help="Render on this Ray cluster; on one of its nodes: auto.")
@click.option("--max-failures", type=int, default=10, show_default=True, help="Stop after more lost workers in a row.")
@click.option("--recycle", type=int, metavar="N", help="Replace a worker after N images.")
@click.option("--dry-run", is_flag=True, help="Say what it would take, by a few images rendered now.")
@click.option("--force", is_flag=True, help="Overwrite another dataset.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def render(
    world: World,
    n: int,
    out: str | None,
    split: str,
    seed: int,
    size: int | None,
    quality: str | None,
    passes: tuple[str, ...],
    positives: str | None,
    codec: str | None,
    shard_size: int | None,
    gpus: int | None,
    workers: int | None,
    ray_address: str | None,
    max_failures: int,
    recycle: int | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Render a dataset.

    It holds images of random scenes, and their latents. Type the same command again to go on after whatever stopped
    it: Ctrl-C, a crash, a lost machine. The images are the same, byte for byte. With a larger --n it adds to what is
    there, which is incomplete until it is through.
    """
    if lacking := world.engine_settings.absent():
        raise Impossible(lacking)
    storage = Storage(out if out is not None else f"data/{world.name}" + (f"-{split}" if split != "train" else ""))
    gpus = planning.gpus_for(world, gpus, ray_address)
    settings = world.settings(size=size, quality=quality, gpus=gpus)
    drawn = None
    if positives is not None:
        from ident.benchmark.latents.distributions import scale_taken  # here: they take PyTorch, which takes seconds
        from ident.benchmark.pairs.positives import DrawnPositives

        if taken := scale_taken(positives):
            say(taken, err=True)
        drawn = DrawnPositives(positives, seed)
    recipe = Recipe(Uniform(seed, split, world), settings, passes, codec or "", positives=drawn)
    recipe = planning.going_on(storage, recipe, n, shard_size=shard_size, force=force)
    plan = planning.Plan(storage, recipe, n, gpus, workers, recycle, max_failures)
    if dry_run:
        estimate = planning.estimate(plan, cluster.cores_there(ray_address), force=force)
        disk = f", {in_bytes(estimate.free)} are free" if estimate.free is not None else ""
        text = (
            f"{storage}: {estimate.missing} of {estimate.images} images to render, "
            f"by {plural(estimate.workers, 'worker')}\n"
            f"time: about {duration(estimate.seconds)}\n"
            f"disk: about {in_bytes(estimate.bytes)} in {plural(estimate.shards, 'shard')}{disk}"
        )
        if as_json:
            say_json(estimate.describe())
        else:
            say(text)
        return
    with progress("rendering") as done:
        told = 0

        def tell(far: stage.Status) -> None:
            nonlocal told
            for trouble in far.troubles[told:]:
                say(f"a worker is replaced: {trouble}", err=True)
            told = len(far.troubles)
            done(
                far.done,
                far.total,
                plural(far.workers, "worker") if far.workers else "starting" if far.done < far.total else "",
            )

        manifest = stage.render(plan, address=ray_address, force=force, tell=tell)
    if as_json:
        say_json({"out": storage.url, "images": manifest.n, "shards": manifest.count, "bytes": manifest.disk})
    else:
        say(f"{storage.path(MANIFEST)}: {manifest.n} images, {in_bytes(manifest.disk)}")
