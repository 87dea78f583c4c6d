"""`ident show`: look at a world."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from ident.cli.options import QUALITY, SIZE, parse_passes, world
from ident.cli.progress import progress
from ident.cli.terminal import say, say_json
from ident.render.blender.settings import PRESETS
from ident.render.errors import Impossible
from ident.render.grid import Grid
from ident.render.stage import gallery
from ident.render.worlds import World


def parse_grid(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """COLUMNSxROWS as two numbers."""
    if value is None:
        return None
    columns, cross, rows = value.lower().partition("x")
    if cross and columns.isdecimal() and rows.isdecimal() and 0 < int(columns) <= 1000 and 0 < int(rows) <= 1000:
        return int(columns), int(rows)
    raise click.BadParameter(f"{value!r} is not COLUMNSxROWS with numbers from 1 to 1000, like 6x6")


EPILOG = """\b
Examples:
  ident show                                     traversal.png
  ident show --grid 6x6 --seed 0                 grid.png, 36 random samples
  ident show --raw-latents z.npy --out images    images/00.png, 01.png, ...

See also: docs/quality.md, the measurements behind --quality.
"""


@click.command(epilog=EPILOG)
@world
@click.option(
    "--grid", metavar="CxR", callback=parse_grid, help="A contact sheet of random samples, C columns by R rows."
)
@click.option(
    "--raw-latents",
    type=click.Path(path_type=Path),
    help="One PNG a row of this .npy file: raw latents, a column a factor.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which random samples --grid shows.")
@click.option("--split", default="train", show_default=True, help="The split that the samples of --grid are from.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write: a .png file, or a folder for --raw-latents."
)
@click.option("--passes", default="", metavar="P,...", callback=parse_passes, help="Also mask, depth, normal.")
@click.option("--size", type=int, help=SIZE)
@click.option("--quality", type=click.Choice(list(PRESETS)), help=QUALITY)
@click.option("--samples", type=int, help="This many samples a pixel without denoiser, instead of --quality.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, show_default=True, help="Render on this many GPUs.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def show(
    context: click.Context,
    world: World,
    grid: tuple[int, int] | None,
    raw_latents: Path | None,
    seed: int,
    split: str,
    out: Path | None,
    passes: tuple[str, ...],
    size: int | None,
    quality: str | None,
    samples: int | None,
    gpus: int,
    force: bool,
    as_json: bool,
) -> None:
    """Look at a world.

    Without options: a traversal figure as in the paper, one column a factor, from end to end with the others in their
    middle.
    """
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for option in ("seed", "split"):
        if option in given and not grid:
            raise Impossible(f"--{option} {context.params[option]}: only --grid has random samples; give both")
    for one, other in (("grid", "raw_latents"), ("samples", "quality")):
        if {one, other} <= given:
            raise Impossible(f"--{one} and --{other.replace('_', '-')}: give one of the two")
    settings = world.settings(size=size, quality=quality, samples=samples, gpus=gpus)
    with progress("rendering") as done:
        if raw_latents:
            if out is None:
                raise Impossible("--raw-latents without --out: give a folder to write to, like --out images")
            shots = gallery.Shots(world, settings, gallery.read_raw(raw_latents, world), passes)
            gallery.save_all(out, shots, force=force, done=done)
            written = [out]
        else:
            if grid:
                raw = world.draw(seed=seed, split=split, start=0, n=grid[0] * grid[1])
                layout, path = Grid(columns=grid[0]), Path("grid.png")
            else:
                raw = gallery.traversal(world)
                layout, path = gallery.traversal_grid(world, raw), Path("traversal.png")
            shots = gallery.Shots(world, settings, raw, passes)
            written = gallery.save_figure(out or path, shots, layout, force=force, done=done)
    if as_json:
        say_json({"written": list(map(str, written)), "images": len(shots.raw)})
    else:
        say("\n".join(map(str, written)))
