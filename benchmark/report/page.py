"""Results as one page: tables, plots and settings, in a file that needs nothing else; and its pictures beside it.

page.html says what it looks like: Jinja escapes there whatever is put in. Here is what it shows.
"""

from __future__ import annotations

import base64
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure
from PIL import Image

from ident.benchmark.report import attachments, formats, plots, records
from ident.benchmark.report.reading import Part, ResultsFolder
from ident.benchmark.report.tables import COLUMNS, Cell, Line, ScoreColumn, columns_of, distinct, more, remarks, texts
from ident.benchmark.suites.results import DECODED, NEIGHBOURS, RECORDS, RECOVERED, RESULT, Result, Warn
from ident.benchmark.suites.rows import KINDS, shortened
from ident.benchmark.suites.suite import AVERAGES, Suite
from ident.render.errors import Impossible
from ident.render.store import files

PAGE = "index.html"
MARK = '<meta name="generator" content="ident report">'
"""By which a page is known as one that may be overwritten."""
DPI = 100
TITLES = {
    "curves": "Score and loss",
    "figure": "As the paper's figure",
    "lambda": "Lambda as it is learned; dashed: the truth",
    "steps": "Steps to a score",
    "groups": "Scores of groups of latents, and the loss beside that of the truth, while it is learned",
}
"""Titles of plots of all rows, by the first word of their names."""
ALWAYS = ("row", "seed", "seconds")
"""What the table of runs shows even if it is the same in all."""


@dataclass(frozen=True)
class Shown:
    """A cell of a table: words that may be broken, a number, and what is small behind it."""

    words: str = ""
    number: str = ""
    small: str = ""


@dataclass(frozen=True)
class Table:
    """A table: its heads, those above them with their widths, and its rows of texts and cells."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str | Shown]]
    above: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class Picture:
    """A picture in the page."""

    title: str
    data: str
    width: int
    height: int


def write(folders: Sequence[ResultsFolder], out: Path, warn: Warn, *, force: bool = False) -> dict[str, Any]:
    """Write the page, its pictures and the records to a folder; says where they are."""
    page = out / PAGE
    files.make_folder(out)
    if page.exists() and not force and not is_ours(page):
        raise Impossible(f"{page}: is no report of ident; give another --out, or --force")
    every = [
        {"results": str(folder.place), **record}
        for folder in folders
        for part in folder.parts
        for record in records.records(part.suite, part.lines)
    ]
    maker = Maker(warn)
    text = maker.page(folders)
    contents = {**maker.files, RECORDS: records.as_lines(every), PAGE: text.encode("utf-8", "backslashreplace")}
    for name, content in contents.items():
        files.write(out / name, content)
    return {"page": str(page), "files": [str(out / name) for name in contents], "results": every}


def is_ours(page: Path) -> bool:
    """Whether a page is one that may be overwritten: its head says so."""
    with os.fdopen(files.open_plain(page), "rb") as file:
        return MARK.encode() in file.read(2**12)


class Maker:
    """Makes a page, and keeps what goes beside it by name."""

    def __init__(self, warn: Warn) -> None:
        self.warn, self.files = warn, dict[str, bytes]()

    def page(self, folders: Sequence[ResultsFolder]) -> str:
        """The page of one folder, or of several that are compared with the first."""
        letters = [chr(ord("A") + number) for number in range(len(folders))] if len(folders) > 1 else [""]
        text = resources.files("ident.benchmark.report").joinpath("page.html").read_text()
        script = text.partition("<script>")[2].partition("</script>")[0]
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(text).render(
            script=base64.b64encode(sha256(script.encode()).digest()).decode(),
            records=RECORDS,
            places=[(letter, str(folder.place)) for letter, folder in zip(letters, folders, strict=True)],
            comparisons=compared(folders, letters) if len(folders) > 1 else [],
            parts=[
                self.part(part, letter, number)
                for letter, folder in zip(letters, folders, strict=True)
                for number, part in enumerate(folder.parts)
            ],
        )

    def part(self, part: Part, letter: str, number: int) -> dict[str, Any]:
        """A suite in a tier: the table, the plots of all rows, then each row and the settings."""
        suite, lines = part.suite, distinct(part.suite, part.lines)
        prefix = "-".join(filter(None, [letter, suite.name, part.tier]))
        newest = max(lines, key=ended)
        return {
            "id": f"{letter.lower()}{number}" if letter else f"t{number}",
            "title": f"{letter + ': ' if letter else ''}{suite.title}, tier {part.tier}",
            "metrics": suite.listed,
            "spread": AVERAGES[suite.average],
            "done": len({line.row.id for line in lines if line.whole}),
            "rows": len(suite.rows),
            "scores": scores(suite, lines),
            "remarks": remarks(suite, lines),
            "more": [(title, Table(heads, rows)) for title, (heads, *rows) in more(suite, lines).items()],
            "copies": self.copies(suite, lines, prefix),
            "runs": suite.runs,
            "plots": [] if suite.runs else self.plots(suite, lines, prefix),
            "lines": [
                {
                    "title": ", ".join(filter(None, [*texts(line), main_kind(line)])),
                    "open": line is newest,
                    "pictures": self.line(suite, line, f"{prefix}-{place}"),
                }
                for place, line in enumerate(lines)
            ],
            "settings": [] if suite.runs else settings(lines),
        }

    def copies(self, suite: Suite, lines: Sequence[Line], prefix: str) -> list[tuple[str, str, str]]:
        """The table as LaTeX and as CSV, to be copied, and as files beside the page: kind, name and text of each."""
        copies = [
            ("LaTeX", f"{prefix}.tex", formats.latex(suite, lines)),
            ("CSV", f"{prefix}.csv", formats.sheet(suite, lines)),
        ]
        self.files |= {name: text.encode() for _, name, text in copies}
        return copies

    def plots(self, suite: Suite, lines: Sequence[Line], prefix: str) -> list[Picture]:
        """The plots of all rows."""
        every = plots.figures(suite, lines).items()
        return [self.plot(f"{prefix}-{name}", figure, TITLES[re.split("[-.]", name)[0]]) for name, figure in every]

    def line(self, suite: Suite, line: Line, prefix: str) -> list[Picture]:
        """The pictures of a row: of the kind that it is there for, the images and dots of its first seed."""
        results = line.results[main_kind(line)]
        bars = list[Picture]()
        if not suite.pictures:  # whose factors nobody knows
            bars.append(self.plot(f"{prefix}-latents.png", plots.bars(suite, results), "Scores by latent"))
        if suite.runs:
            return bars
        return [*bars, *self.of_first(results[0], prefix, drawn=suite.drawn, factors=not suite.pictures)]

    def of_first(self, result: Result, prefix: str, *, drawn: bool = False, factors: bool = True) -> list[Picture]:
        """What was recovered by a run, and the pictures that it has made, as far as they are there.

        Of drawn images also how important each output is for each factor; where outputs stand for no known factors,
        the pictures alone.
        """
        assert result.folder is not None
        names, seed = result.factors, f"seed {result.seed}"

        def scatter(path: Path) -> Picture:
            title = f"Latents against recovered ones, and their correlation in percent, {seed}"
            figure = plots.scatter(*attachments.pair(path, len(names)), names)
            return self.plot(f"{prefix}-recovered.png", figure, title)

        def importance(path: Path) -> Picture:
            title = f"Importance of each output for each factor, by the trees of DCI, {seed}"
            figure = plots.importance(*attachments.pair(path, len(names)), names)
            return self.plot(f"{prefix}-importance.png", figure, title)

        def nearest(path: Path) -> Picture:
            title = f"Images, and those nearest to them in what was recovered, {seed}"
            return self.picture(f"{prefix}-{NEIGHBOURS}", attachments.photograph(path), title)

        def decoded(path: Path) -> Picture:
            title = f"{DECODED[path.name]}, {seed}"
            return self.picture(f"{prefix}-{path.name}", attachments.photograph(path), title)

        ways = [(RECOVERED, scatter)] if factors else []
        ways += [(RECOVERED, importance)] if drawn else []
        ways += [(NEIGHBOURS, nearest), *((name, decoded) for name in DECODED)]
        every = [self.tried(result.folder / name, draw) for name, draw in ways]
        return [picture for picture in every if picture]

    def tried(self, path: Path, draw: Callable[[Path], Picture]) -> Picture | None:
        """A file's content as a picture, if it is there and is what it should be."""
        if not path.exists():
            return None
        try:
            if not path.is_file():  # a pipe would be waited for
                raise ValueError("it is no file")
            with warnings.catch_warnings(action="error"):
                return draw(path)
        except Exception as error:  # anything may lie there
            self.warn(f"{path}: is damaged ({error}); left out")
            return None

    def plot(self, name: str, figure: Figure, title: str) -> Picture:
        """A plot in the page."""
        file = BytesIO()
        figure.savefig(file, format="png", dpi=DPI)
        with Image.open(file, formats=("PNG",)) as image:
            return self.picture(name, attachments.png(image.convert("RGB")), title)

    def picture(self, name: str, content: bytes, title: str) -> Picture:
        """A picture in the page; its bytes are kept for a file, too."""
        self.files[name] = content
        with Image.open(BytesIO(content), formats=("PNG",)) as image:
            return Picture(title, base64.b64encode(content).decode(), image.width, image.height)


def main_kind(line: Line) -> str:
    """The kind that a row is there for: unsupervised, where it was done."""
    return next(kind for kind in reversed(KINDS) if line.results.get(kind))


def ended(line: Line) -> float:
    """When the last run of those that a row is there for ended, which was asked for last; records do not tell."""
    paths = [result.folder / RESULT for result in line.results[main_kind(line)] if result.folder]
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)


def scores(suite: Suite, lines: Sequence[Line]) -> Table:
    """The table: of each score ours, the paper's, and how far ours is from it."""
    columns = main_first(columns_of(suite, lines))
    cells = [[column.cell(suite, line) for column in columns.values()] for line in lines]
    with_paper = [any(cell and cell.paper for cell in column) for column in zip(*cells, strict=True)]
    heads, widths = list(COLUMNS), [3 if paper else 1 for paper in with_paper]
    for paper in with_paper:
        heads += ["ours", "paper", "difference"] if paper else ["ours"]
    rows = list[list[str | Shown]]()
    for line, of_line in zip(lines, cells, strict=True):
        row = named(line)
        for column, cell, paper in zip(columns.values(), of_line, with_paper, strict=True):
            above = column.above(line)
            row.append(Shown(small=above) if above else ours(cell))
            if paper:
                row += ["", ""] if above or not cell else [cell.papers, signed(cell.difference)]
        rows.append(row)
    return Table(heads, rows, list(zip(columns, widths, strict=True)))


def main_first(columns: Mapping[str, ScoreColumn]) -> dict[str, ScoreColumn]:
    """Columns of what rows are there for before those that it is compared with."""
    return dict(sorted(columns.items(), key=lambda item: -KINDS.index(item[1].kind) if item[1].kind else 0))


def named(line: Line) -> list[str | Shown]:
    """Which row it is, of what data and what model."""
    label, *rest = texts(line)
    return [label, *(Shown(words=text) for text in rest)]


def ours(cell: Cell | None) -> Shown:
    """A score with its sd over seeds, or of one seed with its interval."""
    if cell is None:
        return Shown()
    small = f"± {cell.sd:.2f}" if cell.seeds > 1 else f"{cell.low:.2f} to {cell.high:.2f}"
    return Shown(number=f"{cell.ours:.2f}", small=small)


def signed(difference: float | None) -> str:
    """A difference, if there is one."""
    return "" if difference is None else f"{difference:+.2f}"


def compared(folders: Sequence[ResultsFolder], letters: Sequence[str]) -> list[dict[str, Any]]:
    """What several folders have, against the first.

    It is the same tier that is compared; where each folder has a suite in one tier alone, these.
    """
    comparisons = list[dict[str, Any]]()
    for first in folders[0].parts:
        parts = [first, *filter(None, (counterpart(first, folders[0], other) for other in folders[1:]))]
        if len(parts) == len(folders):
            comparisons.append(
                {
                    "title": f"{' against '.join(letters)}: {first.suite.title}",
                    "metrics": first.suite.listed,
                    "tiers": ", ".join(
                        f"{letter} tier {part.tier}" for letter, part in zip(letters, parts, strict=True)
                    ),
                    "table": differences(first.suite, [part.lines for part in parts], letters),
                }
            )
    return comparisons


def counterpart(part: Part, folder: ResultsFolder, other: ResultsFolder) -> Part | None:
    """The part of another folder that a part is compared with."""
    mine, others = ([one for one in of.parts if one.suite.name == part.suite.name] for of in (folder, other))
    same = [one for one in others if one.tier == part.tier]
    if not same and len(mine) == len(others) == 1:
        same = others
    return same[0] if same else None


def differences(suite: Suite, folders: Sequence[Sequence[Line]], letters: Sequence[str]) -> Table:
    """Each score of each folder, how far it is from the first's, and the paper's."""
    by_key = [{(line.row.id, line.own): line for line in lines} for lines in folders]
    tables = [{(line.row.id, line.own): line for line in distinct(suite, lines)} for lines in folders]
    places = [row.id for row in suite.rows]
    keys = sorted({key for lines in tables for key in lines}, key=lambda key: (places.index(key[0]), key[1]))
    columns = main_first(columns_of(suite, [line for lines in folders for line in lines]))
    each = [name for letter in letters[1:] for name in (letter, f"{letter} - {letters[0]}")]
    heads = [*COLUMNS, *[letters[0], *each, "paper"] * len(columns)]
    rows = list[list[str | Shown]]()
    for key in keys:
        listed = [lines[key] for lines in tables if key in lines]
        row = named(listed[0])
        for column in columns.values():
            if above := next(filter(None, map(column.above, listed)), ""):
                row += [Shown(small=above), *[""] * (2 * len(letters) - 1)]
                continue
            first, *others = (column.cell(suite, lines[key]) if key in lines else None for lines in by_key)
            row.append(ours(first))
            for other in others:
                row += [ours(other), signed(other.ours - first.ours if first and other else None)]
            row.append(next((cell.papers for cell in (first, *others) if cell), ""))
        rows.append(row)
    return Table(heads, rows, [(name, 2 * len(letters)) for name in columns])


def settings(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """What all runs of each kind share, and a table of these with what differs."""
    kinds = list[dict[str, Any]]()
    for kind in KINDS:
        runs = {str(result.folder): result for line in lines for result in line.results.get(kind, ())}
        if not runs:
            continue
        known = [described(result) for result in runs.values()]
        names = list(dict.fromkeys(name for of_run in known for name in of_run))
        shared = {name: known[0].get(name) for name in names if len({of_run.get(name) for of_run in known}) == 1}
        differing = [name for name in names if name in ALWAYS or name not in shared]
        listed = {name: text for name, text in shared.items() if text and name not in ALWAYS}
        rows = [[of_run.get(name, "") for name in differing] for of_run in known]
        count = f"{len(known)} run{'' if len(known) == 1 else 's'}"
        kinds.append({"title": f"{kind}, {count}", "shared": listed, "table": Table(differing, rows)})
    return kinds


def described(result: Result) -> dict[str, str]:
    """All that decided a run, and what ran it, in words."""
    known: dict[str, Any] = {"row": result.row, "own": result.own, "seed": result.seed}
    known["seconds"] = f"{result.seconds:.0f}"
    known |= {name: value for name, value in result.settings.items() if name not in ("kind", "data", "seed")}
    known |= {f"data to {split}": place for split, place in result.data.items()}
    known |= {"machine" if name == "name" else name: value for name, value in result.machine.items()}
    return {name: shortened(text) if isinstance(text, str) else json.dumps(text) for name, text in known.items()}
