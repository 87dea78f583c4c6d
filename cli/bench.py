"""`ident bench`: train the rows of a table, and compare with the papers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ident.benchmark.suites import data as datasets
from ident.benchmark.suites import suite as suites
from ident.benchmark.suites.rows import KINDS
from ident.benchmark.suites.suite import Suite
from ident.cli.options import one_place, own
from ident.cli.progress import duration, plural, progress
from ident.cli.terminal import say, say_json, say_table, warn
from ident.render.errors import Impossible
from ident.render.store.files import LOCK, check_folder, lock, make_inside

if TYPE_CHECKING:
    from ident.benchmark.report.tables import Line
    from ident.benchmark.sources.data import Data
    from ident.benchmark.suites.results import Result
    from ident.benchmark.suites.runner import Tell
    from ident.benchmark.suites.runs import Run

    Train = Callable[..., Iterator[tuple[Run, Result | None]]]


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
    help="How large runs are: demo, laptop, paper, or a file of yours.",
)
@click.option("--data", metavar="PLACE", help="The same as DATA.")
@click.option("--test-data", metavar="PLACE", help="Images to test on.  [default: data/3dident-test]")
@click.option("--render", is_flag=True, help="Render the small datasets of the tier first, if they are not there.")
@click.option("--space", metavar="SPACE", help="Only rows whose model lives there, like box.")
@click.option("--latent-space", metavar="SPACE", help="Only rows whose latents live there.")
@click.option("--marginal", metavar="DISTRIBUTION", help="Only rows with this marginal.")
@click.option("--conditional", metavar="DISTRIBUTION", help="Only rows with this conditional, like laplace.")
@click.option("--model", metavar="MODEL", help="Only rows whose model has this conditional, like normal.")
@click.option("--row", "ids", multiple=True, metavar="ID", help="Only this row, like box-normal. May be given again.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind of score.")
@click.option("--loss", metavar="MODULE:NAME", callback=own, help="A loss of yours in place of the rows'.")
@click.option(
    "--encoder", metavar="NAME", callback=own, help="mlp, resnet18, resnet50, resnet101, or MODULE:NAME of yours."
)
@click.option("--trust", is_flag=True, help="Import the modules of yours that the files of --suite and --tier name.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each. The papers: 3 or 5."
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

    Tables 4 and 5 are of images, those of DATA, a folder or a URL [default: data/3dident]; the others of latents mixed
    by a network.
    """
    data = one_place(place, data)
    check_folder(out)
    suite = suites.load_suite(suite_name)
    suites.check_trusted(suite, trust=trust)
    if suite.stored and not render:
        datasets.check_all_there(datasets.places(data, test_data))

    # Here, as PyTorch takes seconds.
    from ident.benchmark import report
    from ident.benchmark.latents import distributions
    from ident.benchmark.report import tables
    from ident.benchmark.suites import runner as work
    from ident.benchmark.suites.rows import with_objective
    from ident.benchmark.suites.runs import of_tier, runs_of
    from ident.benchmark.suites.task import check
    from ident.benchmark.suites.tiers import load_tier
    from ident.benchmark.training import distributed
    from ident.render import plugins

    tier = load_tier(tier_name, stored=suite.stored, encoder=encoder, trust=trust)
    wanted = {name: text for name, text in filters.items() if text is not None}
    rows = suites.select(suite, wanted, ids)
    chosen = tuple(kind for kind in KINDS if not kinds or kind in kinds)
    if trust:
        plugins.look_here()
    if loss is not None:
        if set(kinds) - {"unsupervised"}:
            raise Impossible(f"--kind {', '.join(kinds)}: --loss is of unsupervised runs; leave out --kind")
        rows, chosen = with_objective(rows, loss), ("unsupervised",)
    if device not in ("auto", "cuda") and (gpus or ((parallel or ray_address) and device != "cpu")):
        raise Impossible(
            f"--device {device}: --gpus, --parallel and --ray-address choose GPUs themselves; leave it out"
        )
    if (gpus or distributed.launched()) and (parallel or ray_address):
        raise Impossible("--gpus shares each batch, --parallel has a run on each GPU: give one of them")
    runs = runs_of(suite, rows, chosen, seeds, tier)
    if gpus:
        work.check_gpus(gpus, suite, runs)
    device = work.device_of(device, ray_address)
    found: dict[str, Data] = {}
    if suite.stored:
        places = datasets.places(data, test_data, tier.name if render else "")
        if render and not distributed.launched():
            for split, place in places.items():
                with progress(f"rendering {split}") as done:
                    datasets.render(split, place, tier, ray_address, lambda far: done(far.done, far.total))
        found = datasets.find(places)
        if not distributed.rank() and (larger := datasets.larger(found["train"], tier)):
            say(larger, err=True)
        runs = [replace(run, data=found) for run in runs]
        meant = sorted({str(distributions.parse(text, tier.scale)) for text in work.without_scale(runs)})
        if meant and not distributed.rank():
            say(f"tier {tier.name}: its scale is {tier.scale:g}, rows have {', '.join(meant)}", err=True)
    elif data or test_data or render:
        raise Impossible(f"--suite {suite.name}: has no images; leave out --data, --test-data and --render")
    check(runs)
    folder = out / suite.folder / tier.name
    if gpus and not distributed.launched():
        if not force:
            work.left_of(suite, runs, folder, force=False)  # which says what is impossible in one line
        work.launch(gpus, ["-m", "ident.cli", *sys.argv[1:]])
    train = partial(work.by_ray, address=ray_address) if parallel or ray_address else work.here
    with distributed.joined(device) as device:
        first = distributed.rank() == 0
        make_inside(out, suite.folder, tier.name)
        with lock(folder / LOCK, f"{folder}: somebody works there") if first else nullcontext():
            left = work.left_of(suite, runs, folder, force=force)
            if first and len(left) < len(runs):
                say(f"{plural(len(runs) - len(left), 'run')} of {len(runs)} done before", err=True)
            train_left(suite, left, folder, partial(train, device=device))
            if not first:  # of those that share each batch, who alone writes
                return
            there = of_tier(suite, tier, folder, found, warn)
            lines = tables.lines_of(suite, there)
            into = make_inside(out, suite.name, tier.name)
            files = report.write(suite, lines, into)
    shown = [line for line in lines if line.row.id in {row.id for row in rows}]
    if as_json:
        said: dict[str, Any] = {"suite": suite.name, "tier": tier.name, "metrics": suite.metrics}
        say_json({**said, "rows": report.as_data(suite, shown), "files": list(map(str, files))})
        return
    say(f"{suite.title}\n{' and '.join(suite.metrics)} in percent, the papers' in brackets; tier {tier.name}\n")
    table = tables.distinct(suite, shown)
    say_table(*printed(suite, table))
    for remark in tables.remarks(suite, table):
        say(f"\n{remark}")
    say("\n" + click.wrap_text(f"{into}: {', '.join(path.name for path in files)}", 80))


def train_left(suite: Suite, left: Sequence[Run], folder: Path, train: Train) -> None:
    """Train what is left; of processes that share each batch the first tells how far it is."""
    from ident.benchmark.training import distributed

    first = distributed.rank() == 0
    with telling(suite.name, suite.metrics[0], left) if first else nullcontext(lambda *_: None) as tell:
        for run, result in train(left, folder, tell=tell):
            if result:  # of those that share each batch the first has it
                tell(run, steps_of(run), {})
                scores = result.scores[suite.split]
                texts = [f"{name} {100 * scores[name].value:.2f}" for name in suite.metrics]
                say(f"{labelled(suite, run)}: {', '.join(texts)}, {duration(result.seconds)}", err=True)


def labelled(suite: Suite, run: Run) -> str:
    """The name of a run, and how many rows share it."""
    sharing = len(suite.sharing(run.row, run.kind))
    return f"{run.name}, shared by {sharing} rows" if sharing > 1 else run.name


def steps_of(run: Run) -> int:
    """What there is to do for a run, as progress counts it."""
    return run.training.steps if run.kind != "identity" else 1


@contextmanager
def telling(suite: str, metric: str, left: Sequence[Run]) -> Iterator[Tell]:
    """Gives a function to tell how far a run is, which shows how far all are."""
    far, total = dict.fromkeys((run.name for run in left), 0), sum(map(steps_of, left))
    with progress(suite) as done:

        def tell(run: Run, step: int, last: dict[str, float]) -> None:
            far[run.name] = step
            score = f", {metric} {100 * last[metric]:.1f}" if metric in last else ""
            note = f"{run.name}: loss {last['loss']:.3f}{score}" if "loss" in last else run.name
            done(sum(far.values()), total, note)

        if left:
            done(0, total)
        yield tell


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
