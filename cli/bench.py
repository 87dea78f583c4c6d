"""`ident bench`: train the rows of a table, and compare with the papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ident.benchmark.registry import ENCODERS
from ident.benchmark.suites import suite as suites
from ident.benchmark.suites.rows import KINDS
from ident.benchmark.suites.suite import Suite
from ident.cli.options import as_options, one_place, own
from ident.cli.progress import duration, plural, progress
from ident.cli.terminal import say, say_json, say_table, warn
from ident.render.errors import Impossible
from ident.render.store.files import check_folder, make_inside

if TYPE_CHECKING:
    from ident.benchmark.report.tables import Line
    from ident.benchmark.suites.results import Result
    from ident.benchmark.suites.runner import Watch
    from ident.benchmark.suites.runs import Run

EPILOG = """\b
Examples:
  ident bench --space box
  ident bench --render --row box-normal
  ident bench --loss my_losses:mine --row box-normal
  ident bench --suite table1 --seeds 5 --parallel
"""


@click.command(epilog=EPILOG)
@click.argument("place", metavar="[DATA]", required=False)
@click.option(
    "--suite",
    "suite_name",
    metavar="NAME",
    default="table4",
    show_default=True,
    shell_complete=lambda _, __, typed: [name for name in suites.names() if name.startswith(typed)],
    help=f"Which table: {', '.join(suites.names())}, or a file of yours.",
)
@click.option(
    "--tier",
    "tier_name",
    default="laptop",
    show_default=True,
    help="How large runs are: demo, laptop, afternoon, paper, or a file of yours.",
)
@click.option("--data", "--digits", metavar="PLACE", help="The same as DATA.")
@click.option("--test-data", metavar="PLACE", help="Images to test on.  [default: data/3dident-test]")
@click.option("--render", is_flag=True, help="Render the small datasets of the tier first, if they are not there.")
@click.option("--space", metavar="SPACE", help="Only rows whose model lives there, like box.")
@click.option("--source", metavar="SOURCE", help="Only rows of these observations, like walkers.")
@click.option("--latent-space", metavar="SPACE", help="Only rows whose latents live there.")
@click.option("--marginal", metavar="DISTRIBUTION", help="Only rows with this marginal.")
@click.option("--conditional", metavar="DISTRIBUTION", help="Only rows with this conditional, like laplace.")
@click.option("--model", metavar="MODEL", help="Only rows whose model has this conditional, like normal.")
@click.option("--figure", metavar="NAME", help="Only rows of this figure of the paper, like 4A.")
@click.option("--row", "ids", multiple=True, metavar="ID", help="Only this row, like box-normal. May be given again.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind of score.")
@click.option(
    "--pairs",
    "positives",
    type=click.Choice(["exact", "nearest"]),
    help="Positives that were rendered for their anchors, or the images nearest to draws.  [default: the tier's]",
)
@click.option("--loss", metavar="MODULE:NAME", callback=own, help="A loss of yours in place of the rows'.")
@click.option(
    "--encoder", metavar="NAME", callback=own, help=f"{', '.join(ENCODERS.entries)}, or MODULE:NAME of yours."
)
@click.option("--trust", is_flag=True, help="Import the modules of yours that the files of --suite and --tier name.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each. The papers: 1 to 10."
)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, ...; auto is a GPU, if any.")
@click.option("--gpus", type=click.IntRange(min=0), help="Share each batch among so many GPUs of this machine.")
@click.option("--parallel", is_flag=True, help="Run at once what cores, or GPUs, there are for: one each, by Ray.")
@click.option("--ray-address", metavar="HOST:PORT", help="The same on this Ray cluster; on one of its nodes: auto.")
@click.option("--out", type=click.Path(path_type=Path), default="results", show_default=True, help="Results go here.")
@click.option("--force", is_flag=True, help="Forget what was done, and run again.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def bench(
    place: str | None,
    suite_name: str,
    tier_name: str,
    data: str | None,
    test_data: str | None,
    render: bool,
    ids: tuple[str, ...],
    kinds: tuple[str, ...],
    positives: str | None,
    loss: str | None,
    encoder: str | None,
    trust: bool,
    seeds: int,
    device: str,
    gpus: int | None,
    parallel: bool,
    ray_address: str | None,
    out: Path,
    force: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Benchmark losses on a table of the papers.

    Each row is trained and scored, and ours stands beside the paper's. Type the same command again to go on after an
    interruption: what is done is not done again. Results are JSON, one file a run; `ident report` makes a page of them.

    Tables 4 and 5 are of images, those of DATA, a folder or a URL [default: data/3dident]; cifar10 and imagenet of the
    pictures in DATA [default: data/cifar10, data/imagenet]; dsprites, natural-sprites, kitti-masks and those of mnist
    of images that are drawn, or that `ident pull` has fetched, to data/mnist and so on, or to a folder DATA; the others
    of latents that a network mixes.
    """
    data = one_place(place, data)
    check_folder(out)
    suite = suites.load_suite(suite_name)
    suites.check_trusted(suite, trust=trust)
    from ident.benchmark.suites import datasets  # here, as it takes the stage

    if suite.stored and not render:
        datasets.check_all_there(datasets.places(data, test_data))

    # Here, as PyTorch takes seconds.
    from ident.benchmark import report
    from ident.benchmark.pairs.positives import DrawnPositives
    from ident.benchmark.report import tables
    from ident.benchmark.sources.data import FILES
    from ident.benchmark.suites import digits_vae
    from ident.benchmark.suites.bench import Where, prepare
    from ident.benchmark.suites.rows import with_objective
    from ident.benchmark.suites.runs import exact_conditional, runs_of
    from ident.benchmark.suites.tiers import load_tier
    from ident.benchmark.training import distributed
    from ident.render import plugins

    if trust:
        plugins.look_here()
    tier = load_tier(tier_name, suite.observations, encoder=encoder, trust=trust)
    if positives is not None:
        tier = replace(tier, pairs={**tier.pairs, "positives": positives})
    rows = suites.select(suite, {name: text for name, text in filters.items() if text is not None}, ids)
    chosen = tuple(kind for kind in KINDS if not kinds or kind in kinds)
    if loss is not None:
        if set(kinds) - {"unsupervised"}:
            raise Impossible(f"--kind {', '.join(kinds)}: --loss is of unsupervised runs; leave out --kind")
        rows, chosen = with_objective(rows, loss), ("unsupervised",)
    with as_options("device", "gpus", "kind"):
        where = Where(device, gpus or 0, parallel, ray_address)
        runs = runs_of(suite, rows, chosen, seeds, tier)
    exact = exact_conditional(runs) if render else None
    made = tier.name if render else ""
    places = datasets.places(data, test_data, made, exact=exact is not None) if suite.stored else {}
    if suite.files and data and not suite.stored:
        places = {FILES: data}
    if not suite.stored and (test_data or render or (data and not suite.files)):
        why = "its files lie in one folder; leave out" if suite.files else "has no images; leave out --data,"
        raise Impossible(f"--suite {suite.name}: {why} --test-data and --render")
    if render and not distributed.launched():
        drawn = DrawnPositives(exact, seed=0) if exact else None
        for split, place in places.items():
            with progress(f"rendering {split}") as done:
                datasets.render(split, place, tier, ray_address, lambda far: done(far.done, far.total), drawn)
    with as_options("device", "gpus"):
        bench = prepare(suite, tier, runs, where, out, places, warn)
    bench.launch(force=force)

    @contextmanager
    def telling(left: Sequence[Run]) -> Iterator[Watch]:
        if len(left) < len(runs):
            say(f"{plural(len(runs) - len(left), 'run')} of {len(runs)} done before", err=True)
        with progress("training decoders") as done:
            digits_vae.prepare(left, done)
        with watching(suite.name, suite.metrics[0], left) as watch:
            yield watch

    def tell_done(run: Run, result: Result) -> None:
        scores = result.scores[suite.split]
        texts = [f"{name} {100 * scores[name].value:.2f}" for name in suite.metrics]
        say(f"{labelled(suite, run)}: {', '.join(texts)}, {duration(result.seconds)}", err=True)

    results = bench.results(telling, tell_done, warn, force=force)
    if results is None:  # of processes that share each batch the first writes
        return
    lines = tables.lines_of(suite, results)
    into = make_inside(out, suite.name, tier.name)
    files = report.write(suite, lines, into)
    shown = [line for line in lines if line.row.id in {row.id for row in rows}]
    if as_json:
        said: dict[str, Any] = {"suite": suite.name, "tier": tier.name, "metrics": suite.metrics}
        say_json({**said, "rows": report.as_data(suite, shown), "files": list(map(str, files))})
        return
    say(f"{suite.title}\n{suite.listed} in percent, the papers' in brackets; tier {tier.name}\n")
    table = tables.distinct(suite, shown)
    say_table(*printed(suite, table))
    for remark in tables.remarks(suite, table):
        say(f"\n{remark}")
    for title, (heads, *rows_of_table) in tables.more(suite, table).items():
        say(f"\n{title}\n")
        say_table(heads, rows_of_table)
    say("\n" + click.wrap_text(f"{into}: {', '.join(path.name for path in files)}", 80))


def labelled(suite: Suite, run: Run) -> str:
    """The name of a run, and how many rows share it."""
    sharing = len(suite.sharing(run.row, run.kind))
    return f"{run.name}, shared by {sharing} rows" if sharing > 1 else run.name


@contextmanager
def watching(suite: str, metric: str, left: Sequence[Run]) -> Iterator[Watch]:
    """Gives a function that is told how far a run is, and shows how far all are."""
    from ident.benchmark.suites.runner import steps_of

    far, total = dict.fromkeys((run.name for run in left), 0), sum(map(steps_of, left))
    with progress(suite) as done:

        def watch(run: Run, step: int, last: dict[str, float]) -> None:
            far[run.name] = step
            score = f", {metric} {100 * last[metric]:.1f}" if metric in last else ""
            note = f"{run.name}: loss {last['loss']:.3f}{score}" if "loss" in last else run.name
            done(sum(far.values()), total, note)

        if left:
            done(0, total)
        yield watch


def printed(suite: Suite, lines: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """The heads and the rows of the table, ours and in brackets the paper's."""
    from ident.benchmark.report import tables

    columns, rows = tables.columns_of(suite, lines), list[list[str]]()
    last = dict[str, str]()  # what a column has shown last, of which row
    for line in lines:
        texts = tables.texts(line)
        for name, column in columns.items():
            score, above = column.cell(suite, line), column.above(line)
            text = score.text + (f" ({score.paper[0]:.2f})" if score.paper else "") if score else ""
            if text and not above:
                last[name] = f"as {line.label}"
            texts.append("as above" if above and above == last.get(name) else above or text)
        rows.append(texts)
    return [*tables.COLUMNS, *columns], rows
