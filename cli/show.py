"""`ident show`: look at the scene."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from ident.cli.options import QUALITY, parse_passes
from ident.cli.progress import progress
from ident.cli.terminal import say, say_json
from ident.render.blender.settings import PRESETS, Settings, plain, preset
from ident.render.errors import Impossible
from ident.render.stage import gallery
from ident.render.worlds import latents


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
@click.option(
    "--grid", metavar="CxR", callback=parse_grid, help="A contact sheet of random samples, C columns by R rows."
)
@click.option(
    "--raw-latents", type=click.Path(path_type=Path), help="One PNG a row of this .npy file, (N, 10) in [-1, 1]."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which random samples --grid shows.")
@click.option("--split", default="train", show_default=True, help="The split that the samples of --grid are from.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write: a .png file, or a folder for --raw-latents."
)
@click.option("--passes", default="", metavar="P,...", callback=parse_passes, help="Also mask, depth, normal.")
@click.option("--size", type=int, default=224, show_default=True, help="Pixels along each side of an image.")
@click.option("--quality", type=click.Choice(list(PRESETS)), default="balanced", show_default=True, help=QUALITY)
@click.option("--samples", type=int, help="This many samples a pixel without denoiser, instead of --quality.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, show_default=True, help="Render on this many GPUs.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def show(
    context: click.Context,
    grid: tuple[int, int] | None,
    raw_latents: Path | None,
    seed: int,
    split: str,
    out: Path | None,
    passes: tuple[str, ...],
    size: int,
    quality: str,
    samples: int | None,
    gpus: int,
    force: bool,
    as_json: bool,
) -> None:
    """Look at the scene.

    Without options: the paper's traversal figure, ten columns, one latent each from -1 to 1, the others at 0.
    """
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for option in ("seed", "split"):
        if option in given and not grid:
            raise Impossible(f"--{option} {context.params[option]}: only --grid has random samples; give both")
    for one, other in (("grid", "raw_latents"), ("samples", "quality")):
        if {one, other} <= given:
            raise Impossible(f"--{one} and --{other.replace('_', '-')}: give one of the two")
    settings = Settings(size, preset(quality, size) if samples is None else plain(samples), gpus)
    with progress("rendering") as done:
        if raw_latents:
            if out is None:
                raise Impossible("--raw-latents without --out: give a folder to write to, like --out images")
            raw = latents.read(raw_latents)
            gallery.save_all(out, raw, settings, passes, force=force, done=done)
            written = [out]
        else:
            if grid:
                raw = latents.sample(seed=seed, split=split, start=0, n=grid[0] * grid[1])
                layout, path = gallery.Layout(columns=grid[0]), Path("grid.png")
            else:
                raw = gallery.traversal()
                steps = tuple(f"{value:+.2f}" for value in raw[:: len(latents.NAMES), 0])
                layout, path = gallery.Layout(len(latents.NAMES), latents.NAMES, steps), Path("traversal.png")
            written = gallery.save_figure(out or path, raw, layout, settings, passes, force=force, done=done)
    if as_json:
        say_json({"written": list(map(str, written)), "images": len(raw)})
    else:
        say("\n".join(map(str, written)))
