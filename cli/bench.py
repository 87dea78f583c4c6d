"""`ident bench`: train the rows of a table, and compare with the papers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ident.cli.progress import duration, plural, progress
from ident.render.errors import Impossible
from ident.render.storage import LOCK, lock, make_folder

SUITES = ("table1", "table2", "marginals", "aninfonce")
KINDS = ("identity", "supervised", "unsupervised")


@click.command()
@click.option("--suite", type=click.Choice(SUITES), default="table2", show_default=True, help="Which table.")
@click.option(
    "--tier", default="laptop", show_default=True, help="How large runs are: laptop, paper, or a .toml file of yours."
)
@click.option("--space", "model_space", metavar="SPACE", help="Only rows whose model lives there, like box.")
@click.option("--latent-space", metavar="SPACE", help="Only rows whose latents live there.")
@click.option("--marginal", metavar="DISTRIBUTION", help="Only rows with this marginal.")
@click.option("--conditional", metavar="DISTRIBUTION", help="Only rows with this conditional, like laplace.")
@click.option("--model", metavar="MODEL", help="Only rows whose model has this conditional, like normal.")
@click.option("--row", "numbers", type=int, multiple=True, metavar="N", help="Only this row. May be given again.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind of score.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each. The paper: 5.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, ...; auto is a GPU, if any.")
@click.option("--parallel", is_flag=True, help="Run at once what cores, or GPUs, there are for: one each, by Ray.")
@click.option("--ray-address", metavar="HOST:PORT", help="The same on this Ray cluster; on one of its nodes: auto.")
@click.option("--out", type=click.Path(path_type=Path), default="results", show_default=True, help="Results go here.")
@click.option("--force", is_flag=True, help="Forget what was done, and run again.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def bench(
    suite: str,
    tier: str,
    numbers: tuple[int, ...],
    kinds: tuple[str, ...],
    seeds: int,
    device: str,
    parallel: bool,
    ray_address: str | None,
    out: Path,
    force: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Benchmark losses on a table of the papers.

    Each row is trained and scored, and ours stands beside the paper's. Type the same command again to go on after an
    interruption: what is done is not done again. Results are JSON, one file a run.

    \b
    ident bench --space box
    ident bench --suite table1 --seeds 5 --parallel
    ident bench --suite table1 --row 3 --tier paper --device cuda
    """
    from ident.benchmark import report  # here: it takes PyTorch, which takes seconds
    from ident.benchmark.suites import bench as work
    from ident.benchmark.suites import rows as suites

    table, scale = suites.load_suite(suite), suites.load_tier(tier)
    wanted = {name: text for name, text in filters.items() if text is not None}
    rows = suites.select(table, wanted, numbers)
    chosen = tuple(kind for kind in KINDS if not kinds or kind in kinds)
    runs = suites.runs_of(table, rows, chosen, seeds, scale)
    if not runs:
        raise Impossible(
            f"--kind {', '.join(chosen)}: these rows have {', '.join(sorted({k for row in rows for k in row.kinds}))}"
        )
    trained_on = work.device_of(device, ray_address)
    folder = out / suite / scale.name
    make_folder(folder)
    with lock(folder / LOCK, f"{folder}: somebody works there"):
        if force:
            work.forget(runs, folder)
        left = [run for run in runs if work.result_of(run, folder) is None]
        if len(left) < len(runs):
            click.echo(f"{plural(len(runs) - len(left), 'run')} of {len(runs)} done before", err=True)
        steps = {run.name: run.training.steps if run.kind != "identity" else 1 for run in left}
        far = dict.fromkeys(steps, 0)
        with progress(suite) as done:

            def tell(run: suites.Run, step: int, last: dict[str, float]) -> None:
                far[run.name] = step
                score = f", {table.metric} {100 * last[table.metric]:.1f}" if table.metric in last else ""
                note = f"{run.name}: loss {last['loss']:.3f}{score}" if "loss" in last else run.name
                done(sum(far.values()), sum(steps.values()), note)

            if left:
                done(0, sum(steps.values()))
            train = partial(work.by_ray, address=ray_address) if parallel or ray_address else work.here
            for run, result in train(left, folder, trained_on, tell):
                tell(run, steps[run.name], {})
                value = 100 * result["scores"][table.metric]["value"]
                click.echo(f"{run.name}: {table.metric} {value:.2f}, {duration(result['seconds'])}", err=True)
        by_row = work.results_of(table, scale, folder)
        files = report.write(table, by_row, folder)
    if as_json:
        said: dict[str, Any] = {"suite": suite, "tier": scale.name, "metric": table.metric}
        click.echo(json.dumps({**said, "rows": report.as_rows(table, rows, by_row), "files": list(map(str, files))}))
        return
    printed = Table("", "data", "model", box=None)
    shown = report.kinds_of(rows, by_row)
    for kind in shown:
        printed.add_column(kind, no_wrap=True)
    for row in rows:
        scores = [report.beside(report.cell(row, kind, table.metric, by_row)) for kind in shown]
        printed.add_row(str(row.number), *report.described(row), *scores)
    console = Console()
    console.print(f"{table.title}\n{table.metric} in percent, the papers' in brackets; tier {scale.name}\n")
    console.print(printed)
    click.echo(f"\n{', '.join(map(str, files))}")
