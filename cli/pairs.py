"""`ident pairs`: positive pairs of a dataset's images, and how far they are from what was wished for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ident.cli.options import one_place, own
from ident.cli.progress import Done, duration, in_bytes, progress
from ident.cli.terminal import say, say_json, say_table
from ident.render.store.dataset import DEFAULT, Dataset, check_there
from ident.render.store.files import check_folder, check_room

if TYPE_CHECKING:
    from ident.benchmark.pairs.samplers import DrawnPairs

KINDS = ("auto", "flat", "ivf", "hnsw")

EPILOG = """\b
Examples:
  ident pairs --conditional laplace
  ident pairs data/small --conditional "gennorm(3, 0.2)" --plot --show 8
"""


@click.command(epilog=EPILOG)
@click.argument("place", metavar="[DATA]", required=False)
@click.option("--data", metavar="PLACE", help="The same as DATA.")
@click.option("--conditional", callback=own, help="How positives lie around anchors, like laplace or normal(0.1).")
@click.option(
    "--pairs",
    "kind",
    type=click.Choice(["auto", "rendered", "nearest"]),
    default="auto",
    show_default=True,
    help="rendered: the positives of `ident render --positives`; auto takes them where there are such.",
)
@click.option("--space", default="box", show_default=True, help="Where latents live, like box or box(3) * sphere(8).")
@click.option("--latents", "subset", metavar="NAME,...", help="Match by these latents alone.  [default: all]")
@click.option("--n", type=click.IntRange(min=1), default=100_000, show_default=True, help="Pairs.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Which pairs.")
@click.option("--index", type=click.Choice(KINDS), default="auto", show_default=True, help="How neighbours are found.")
@click.option(
    "--recall",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.999,
    show_default=True,
    help="Look so far that this share of the positives are the nearest there are.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), default="pairs.h5", show_default=True, help="Where the pairs go."
)
@click.option("--plot", is_flag=True, help="Draw wished-for against realised, beside --out as .png.")
@click.option("--show", type=click.IntRange(1, 100), metavar="N", help="Show N pairs, beside --out as -images.png.")
@click.option("--force", is_flag=True, help="Overwrite other pairs.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def pairs(
    place: str | None,
    data: str | None,
    conditional: str | None,
    kind: str,
    space: str,
    subset: str | None,
    n: int,
    seed: int,
    index: str,
    recall: float,
    out: Path,
    plot: bool,
    show: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Draw positive pairs.

    An anchor is an image of DATA [default: data/3dident], its positive the image whose latents are nearest to a draw
    of the conditional around it. The report says what that costs: how far the realised conditional is from the
    wished-for one. The index is kept in the user's cache and used again. A scale that is not given is 0.05.
    """
    data = one_place(place, data) or DEFAULT
    check_there(data)
    dataset = Dataset(data)
    check_folder(out.absolute().parent)

    # Here, as PyTorch takes seconds.
    from ident.benchmark.latents.distributions import scale_taken
    from ident.benchmark.pairs import matching
    from ident.benchmark.pairs.file import check_target, save
    from ident.benchmark.pairs.samplers import BATCH, SAMPLE_BATCH, NearestSampler, batches, open_sampler

    remark = partial(say, err=True)
    if conditional is not None and (taken := scale_taken(conditional)):
        remark(taken)
    names = None if subset is None else tuple(name.strip() for name in subset.split(","))
    sampler = open_sampler(
        dataset,
        conditional,
        space=space,
        subset=names,
        kind=index,
        pairs=kind,
        seed=seed,
        say=remark,
    )
    files = {"pairs": out}
    if plot:
        files["plot"] = out.with_suffix(".png")
    if show:
        files["images"] = out.with_name(f"{out.stem}-images.png")
    recipe = json.dumps({**sampler.recipe, "n": n, "index": index, "recall": recall})
    check_target(list(files.values()), recipe, dataset.storage, force=force)
    reached = sampler.tune(recall, remark)
    start = time.perf_counter()
    trial = sampler.draw(SAMPLE_BATCH, min(BATCH, n))
    seconds, size = (time.perf_counter() - start) * n / len(trial), trial.nbytes * n // len(trial)
    takes = f"{n} pairs take {in_bytes(size)}"
    check_room(out.absolute().parent, size, f"{takes},", "give another --out or a smaller --n")
    remark(f"{out}: {takes} and about {duration(seconds)}")
    tally, start = matching.Tally(), time.perf_counter()

    def compared(done: Done) -> Iterator[DrawnPairs]:
        done(0, n)
        for batch in batches(sampler, n):
            tally.add(batch)
            yield batch
            done(tally.n, n)

    with progress("drawing pairs") as done:
        save(compared(done), n, recipe, out)
    rate = n / (time.perf_counter() - start)
    match = tally.matching(sampler.names)
    said = matching.words(match, str(sampler.conditional), len(dataset))
    if plot:
        matching.plot(tally.sample, sampler.names, files["plot"])
    if show:
        matching.picture(dataset, tally.sample, show, files["images"])
    if as_json:
        places = {name: str(path) for name, path in files.items()}
        say_json({**places, "n": n, "recall": reached, "pairs_a_second": rate, **asdict(match)})
        return
    rows = ((row.latent, f"{row.wished_sd:.4f}", f"{row.realised_sd:.4f}", f"{row.distance:.3f}") for row in match.rows)
    say_table(("latent", "wished-for sd", "realised sd", "distance"), rows)
    say(f"\n{said}\n")
    if isinstance(sampler, NearestSampler):
        how = sampler.neighbours.described
        say(f"recall {reached:.4f} against exact search, {how}, {rate:.0f} pairs a second")
    say(f"{n} pairs of {sampler.conditional}: {', '.join(map(str, files.values()))}")
