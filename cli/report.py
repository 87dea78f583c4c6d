"""`ident report`: a page of what `ident bench` has made."""

from __future__ import annotations

from pathlib import Path

import click

from ident.cli.terminal import say, say_json, warn
from ident.render.store.files import check_folder

EPILOG = """\b
Examples:
  ident report
  ident report results/table2 --out page
  ident report mine theirs
  ident report --suite mine.toml
"""


@click.command(epilog=EPILOG)
@click.argument("results", nargs=-1, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default="report", show_default=True, help="The page goes here.")
@click.option("--suite", "suites", multiple=True, metavar="FILE", help="A suite of yours, if results are of one.")
@click.option("--force", is_flag=True, help="Overwrite an index.html that is no report.")
@click.option("--json", "as_json", is_flag=True, help="Print page, files and results as one JSON object.")
def report(results: tuple[Path, ...], out: Path, suites: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Make a page of results.

    RESULTS is a folder that `ident bench` wrote to, or that of a suite or a tier in it.  [default: results] Of several,
    each is compared with the first. The page is one file that needs no network; its pictures,
    the tables as LaTeX and CSV, and results.jsonl, one line a run, lie beside it.
    """
    check_folder(out)
    from ident.benchmark.report import page, reading  # here: they take Matplotlib, which takes a second
    from ident.benchmark.suites.suite import load_suite

    own = [load_suite(suite) for suite in suites]
    folders = [reading.read(place, warn, own) for place in results or (Path("results"),)]
    written = page.write(folders, out, warn, force=force)
    if as_json:
        say_json(written)
    else:
        say(written["page"])
