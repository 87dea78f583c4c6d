"""Results as one page: tables, plots and settings, in a file that needs nothing else; and its pictures beside it."""

from __future__ import annotations

import base64
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib import resources
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy.typing as npt
from matplotlib.figure import Figure
from PIL import Image

from ident.benchmark.metrics.scores import checked
from ident.benchmark.report import formats, plots, records
from ident.benchmark.report.reading import Part, Source
from ident.benchmark.report.tables import Cell, Column, Line, columns_of, described, distinct, remarks
from ident.benchmark.suites.results import FOLDER, NEIGHBOURS, RECOVERED, RESULT, Result, Warn
from ident.benchmark.suites.rows import KINDS, Suite, shortened
from ident.render.aliases import Float64s
from ident.render.errors import Impossible
from ident.render.store import files
from ident.render.worlds.threedident import WORLD

PAGE, RECORDS = "index.html", "results.jsonl"
MARK = '<meta name="generator" content="ident report">'
"""By which a page is known as one that may be overwritten."""
DPI = 100
WIDEST = 480
"""Pixels of a picture of neighbours."""
LARGEST_PICTURE, LARGEST_RECOVERED = 2**26, 2**26
"""Pixels of one that is read, and bytes of latents: of more than a million images."""
COLOURS = 64, 256
"""Of plots and of photographs: pages stay small."""


def write(sources: Sequence[Source], folder: Path, warn: Warn, *, force: bool = False) -> dict[str, Any]:
    """Write the page, its pictures and the records to a folder; says where they are."""
    page = folder / PAGE
    files.make_folder(folder)
    if page.exists() and not force and not is_ours(page):
        raise Impossible(f"{page}: is no report of ident; give another --out, or --force")
    made = _records(sources)
    maker = Maker(warn)
    text = maker.page(sources)
    contents = {**maker.files, RECORDS: records.as_lines(made), PAGE: text.encode("utf-8", "backslashreplace")}
    for name, content in contents.items():
        files.write(folder / name, content)
    return {"page": str(page), "files": [str(folder / name) for name in contents], "results": made}


def is_ours(page: Path) -> bool:
    """Whether a page is one that may be overwritten: its head says so."""
    with os.fdopen(files.open_plain(page), "rb") as file:
        return MARK.encode() in file.read(2**12)


def _records(sources: Sequence[Source]) -> list[dict[str, Any]]:
    return [
        {"results": str(source.place), **made}
        for source in sources
        for part in source.parts
        for made in records.records(part.suite, part.lines)
    ]


class Maker:
    """Makes a page, and keeps what goes beside it by name. Every text of results is escaped where it is put in."""

    def __init__(self, warn: Warn) -> None:
        self.warn, self.files = warn, dict[str, bytes]()

    def page(self, sources: Sequence[Source]) -> str:
        """The page of one source, or of several that are compared with the first."""
        letters = [chr(ord("A") + number) for number in range(len(sources))] if len(sources) > 1 else [""]
        links, sections = list[str](), list[str]()
        if len(sources) > 1:
            for title, section in compared(sources, letters):
                links.append(f'<li><a href="#c{len(links)}">{title}</a></li>')
                sections.append(f'<section id="c{len(links) - 1}"><h2>{title}</h2>{section}</section>')
        for letter, source in zip(letters, sources, strict=True):
            for number, part in enumerate(source.parts):
                name = f"{letter.lower()}{number}" if letter else f"t{number}"
                title = f"{f'{letter}: ' if letter else ''}{escape(part.suite.title)}, tier {escape(part.tier)}"
                links.append(f'<li><a href="#{name}">{title}</a></li>')
                prefix = "-".join(filter(None, [letter, part.suite.name, part.tier]))
                sections.append(f'<section id="{name}"><h2>{title}</h2>{self.part(part, prefix)}</section>')
        places = [
            f"<li>{letter} <code>{escape(str(source.place))}</code></li>"
            for letter, source in zip(letters, sources, strict=True)
        ]
        text = resources.files("ident.benchmark.report").joinpath("page.html").read_text()
        script = text.partition("<script>")[2].partition("</script>")[0]
        return Template(text).substitute(
            mark=MARK,
            script=base64.b64encode(sha256(script.encode()).digest()).decode(),
            records=RECORDS,
            places="".join(places),
            links="".join(links),
            sections="\n".join(sections),
        )

    def part(self, part: Part, prefix: str) -> str:
        """A suite in a tier: the table, the plots of all rows, then each row and the settings."""
        suite, lines = part.suite, distinct(part.suite, part.lines)
        done = len({line.row.id for line in lines if line.whole})
        shown = f"{' and '.join(suite.metrics)} in percent, {done} of {len(suite.rows)} rows"
        parts = [f"<p>{shown}. {INTERVALS}</p>", scores(suite, lines)]
        parts += [f"<p>{escape(remark)}</p>" for remark in remarks(suite, lines)]
        parts.append(self.copies(suite, lines, prefix))
        if suite.runs:
            parts.append(f"<p>These are the runs of {suite.runs}, which has their curves, pictures and settings.</p>")
        else:
            drawn = plots.figures(suite, lines).items()
            parts.append(figures(self.plot(f"{prefix}-{name}", figure, TITLES[name[0]]) for name, figure in drawn))
        parts.append("<h3>Rows</h3>")
        newest = max(lines, key=ended)
        parts += [self.row(suite, line, f"{prefix}-{number}", line is newest) for number, line in enumerate(lines)]
        if not suite.runs:
            parts += ["<h3>Settings and machines</h3>", *settings(lines)]
        return "\n".join(parts)

    def copies(self, suite: Suite, lines: Sequence[Line], prefix: str) -> str:
        """The table as LaTeX and as CSV, to be copied, and as files beside the page."""
        shown = list[str]()
        for ending, name, write in (("tex", "LaTeX", formats.latex), ("csv", "CSV", formats.sheet)):
            file, text = f"{prefix}.{ending}", write(suite, lines)
            self.files[file] = text.encode()
            button = f'<button type="button" data-copy="{escape(file)}" hidden>Copy {name}</button>'
            shown.append(
                f'<p>{button} {name}, <a href="{escape(file)}">{escape(file)}</a></p>'
                f'<pre id="{escape(file)}" tabindex="0">{escape(text)}</pre>'
            )
        return f"<details><summary>The table as LaTeX and CSV</summary>{''.join(shown)}</details>"

    def row(self, suite: Suite, line: Line, prefix: str, is_open: bool) -> str:
        """The pictures of a row: of the kind that it is there for, the images and dots of its first seed."""
        kind = main_kind(line)
        results = line.results[kind]
        names = WORLD.names if suite.images else tuple(f"latent {number}" for number in range(line.row.dim))
        drawn = [self.plot(f"{prefix}-latents.png", plots.bars(results, suite.split, names), "R2 and MCC by latent")]
        if not suite.runs:
            drawn += self.of_first(results[0], names, prefix)
        title = ", ".join(filter(None, [line.label, *described(suite, line), kind]))
        opened = " open" if is_open else ""
        return f"<details{opened}><summary>{escape(title)}</summary>{figures(drawn)}</details>"

    def of_first(self, result: Result, names: Sequence[str], prefix: str) -> list[str]:
        """What was recovered by a run, and the nearest images, as far as they are there."""
        folder: Path = result[FOLDER]
        seed = f"seed {result['seed']}"

        def scatter(path: Path) -> str:
            title = f"Latents against recovered ones, and their correlation in percent, {seed}"
            return self.plot(f"{prefix}-recovered.png", plots.scatter(*pair(path, len(names)), names), title)

        def nearest(path: Path) -> str:
            title = f"Images, and those nearest to them in what was recovered, {seed}"
            return self.picture(f"{prefix}-{NEIGHBOURS}", photograph(path), title)

        drawn = (self.tried(folder / RECOVERED, scatter), self.tried(folder / NEIGHBOURS, nearest))
        return [figure for figure in drawn if figure]

    def tried(self, path: Path, draw: Callable[[Path], str]) -> str:
        """A file's content as a figure, if it is there and is what it should be."""
        if not path.exists():
            return ""
        try:
            if not path.is_file():  # a pipe would be waited for
                raise ValueError("it is no file")
            with warnings.catch_warnings(action="error"):
                return draw(path)
        except Exception as error:  # anything may lie there
            self.warn(f"{path}: is damaged ({error}); left out")
            return ""

    def plot(self, name: str, figure: Figure, title: str) -> str:
        """A plot in the page."""
        file = BytesIO()
        figure.savefig(file, format="png", dpi=DPI)
        with Image.open(file, formats=("PNG",)) as image:
            return self.picture(name, png(image.convert("RGB"), COLOURS[0]), title)

    def picture(self, name: str, content: bytes, title: str) -> str:
        """A picture in the page; its bytes are kept for a file, too."""
        self.files[name] = content
        data = base64.b64encode(content).decode()
        with Image.open(BytesIO(content), formats=("PNG",)) as image:
            size = f'width="{image.width}" height="{image.height}"'
        caption = f"<figcaption>{escape(title)}</figcaption>"
        return f'<figure><img src="data:image/png;base64,{data}" {size} alt="{escape(title)}">{caption}</figure>'


INTERVALS = "± is the sd over seeds; one seed has the interval that holds 95 % of the scores of samples drawn anew."
TITLES = {"c": "Score and loss", "f": "As the paper's figure", "l": "Lambda as it is learned; dashed: the truth"}
"""Of plots of all rows, by the first letter of their names: curves, figure-*, lambda-*."""


def figures(drawn: Iterable[str]) -> str:
    """Pictures beside each other where there is room."""
    return f'<div class="figures">{"".join(drawn)}</div>'


def main_kind(line: Line) -> str:
    """The kind that a row is there for: unsupervised, where it was done."""
    return next(kind for kind in reversed(KINDS) if line.results.get(kind))


def ended(line: Line) -> float:
    """When the last run of those that a row is there for ended: the last that was asked for."""
    return max(float(Path(result[FOLDER], RESULT).stat().st_mtime) for result in line.results[main_kind(line)])


def pair(path: Path, dim: int) -> tuple[Float64s, Float64s]:
    """Latents (n, dim) and the recovered ones (n, k)."""
    both = checked(*arrays(path, "latents", "recovered"))
    if both[0].shape[1] != dim or both[1].shape[1] < dim:
        raise ValueError(f"latents {both[0].shape} and recovered ones {both[1].shape}, of {dim}")
    return both


def arrays(path: Path, *names: str) -> Iterator[npt.NDArray[Any]]:
    """The arrays in a .npz file, which are not packed: nothing is larger than the file."""
    with os.fdopen(files.open_plain(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size > len(names) * LARGEST_RECOVERED:
            raise ValueError(f"{size} bytes, more than {len(names) * LARGEST_RECOVERED}")
        file.seek(-min(size, 42), os.SEEK_END)
        end = file.read()  # the list of what is in it: another one's may be as long as the file
        if end[-22:-18] != b"PK\5\6" or end[-2:] != b"\0\0" or end[:4] == b"PK\6\7" or end[-9:-6] != b"\0\0\0":
            raise ValueError("no archive of two arrays")
        with ZipFile(file) as archive:
            for name in names:
                if archive.getinfo(f"{name}.npy").compress_type != ZIP_STORED:
                    raise ValueError(f"{name} is packed, which ident bench does not do")
                with archive.open(f"{name}.npy") as array:
                    yield files.read_npy(array, LARGEST_RECOVERED)


def photograph(path: Path) -> bytes:
    """A picture made small."""
    with os.fdopen(files.open_plain(path), "rb") as file, Image.open(file, formats=("PNG",)) as image:
        if image.width * image.height > LARGEST_PICTURE:
            raise ValueError(f"{image.width} x {image.height} pixels, more than {LARGEST_PICTURE} in all")
        small = image.convert("RGB")
    small.thumbnail((WIDEST, WIDEST))
    return png(small, COLOURS[1])


def png(image: Image.Image, colours: int) -> bytes:
    """A picture of few colours as a file."""
    file = BytesIO()
    image.quantize(colours, dither=Image.Dither.NONE).save(file, "png", optimize=True)
    return file.getvalue()


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, above: str = "") -> str:
    """A table in a box of its own that scrolls. Heads and cells are HTML."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>\n" for row in rows)
    return f'<div class="table"><table><thead>{above}<tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def spanning(names: Sequence[str], before: int, widths: Sequence[int]) -> str:
    """A row of heads above others."""
    cells = [f'<th colspan="{width}">{escape(name)}</th>' for name, width in zip(names, widths, strict=True)]
    return f'<tr class="above"><th colspan="{before}"></th>{"".join(cells)}</tr>'


def scores(suite: Suite, lines: Sequence[Line]) -> str:
    """The table: of each score ours, the paper's, and how far ours is from it."""
    columns = main_first(columns_of(suite, lines))
    cells = [[column.cell(suite, line) for column in columns.values()] for line in lines]
    with_paper = [any(found and found.paper for found in column) for column in zip(*cells, strict=True)]
    heads, widths = ["row", "data", "model"], [3 if paper else 1 for paper in with_paper]
    for paper in with_paper:
        heads += ["ours", "paper", "difference"] if paper else ["ours"]
    rows = list[list[str]]()
    for line, of_line in zip(lines, cells, strict=True):
        texts = named(suite, line)
        for column, found, paper in zip(columns.values(), of_line, with_paper, strict=True):
            above = column.above(line)
            texts.append(f"<small>{escape(above)}</small>" if above else ours(found))
            if paper:
                texts += (
                    ["", ""] if above else [found.papers if found else "", signed(found.difference if found else None)]
                )
        rows.append(texts)
    return table(heads, rows, above=spanning(list(columns), 3, widths))


def main_first(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Columns of what rows are there for before those that it is compared with."""
    return dict(sorted(columns.items(), key=lambda item: -KINDS.index(item[1].kind) if item[1].kind else 0))


def named(suite: Suite, line: Line) -> list[str]:
    """Which row it is, of what data and what model."""
    return [escape(line.label), *(f'<span class="words">{escape(text)}</span>' for text in described(suite, line))]


def ours(found: Cell | None) -> str:
    """A score with its sd over seeds, or of one seed with its interval."""
    if found is None:
        return ""
    small = f"± {found.sd:.2f}" if found.seeds > 1 else f"{found.low:.2f} to {found.high:.2f}"
    return f"<b>{found.ours:.2f}</b> <small>{small}</small>"


def signed(difference: float | None) -> str:
    """A difference, if there is one."""
    return "" if difference is None else f"{difference:+.2f}"


def compared(sources: Sequence[Source], letters: Sequence[str]) -> list[tuple[str, str]]:
    """Titles and tables of what several sources have, against the first.

    It is the same tier that is compared; where each source has a suite in one tier alone, these.
    """
    made = list[tuple[str, str]]()
    for first in sources[0].parts:
        parts = [first, *filter(None, (counterpart(first, sources[0], other) for other in sources[1:]))]
        if len(parts) == len(sources):
            title = f"{' against '.join(letters)}: {escape(first.suite.title)}"
            tiers = ", ".join(f"{letter} tier {part.tier}" for letter, part in zip(letters, parts, strict=True))
            shown = f"<p>{' and '.join(first.suite.metrics)} in percent; {escape(tiers)}.</p>"
            made.append((title, shown + differences(first.suite, [part.lines for part in parts], letters)))
    return made


def counterpart(part: Part, source: Source, other: Source) -> Part | None:
    """The part of another source that a part is compared with."""
    mine, others = ([one for one in of.parts if one.suite.name == part.suite.name] for of in (source, other))
    same = [one for one in others if one.tier == part.tier]
    if not same and len(mine) == len(others) == 1:
        same = others
    return same[0] if same else None


def differences(suite: Suite, sources: Sequence[Sequence[Line]], letters: Sequence[str]) -> str:
    """Each score of each source, how far it is from the first's, and the paper's."""
    by_key = [{(line.row.id, line.own): line for line in lines} for lines in sources]
    tables = [{(line.row.id, line.own): line for line in distinct(suite, lines)} for lines in sources]
    places = [row.id for row in suite.rows]
    keys = sorted({key for lines in tables for key in lines}, key=lambda key: (places.index(key[0]), key[1]))
    some = [line for lines in sources for line in lines]
    columns = main_first(columns_of(suite, some))
    each = [name for letter in letters[1:] for name in (letter, f"{letter} - {letters[0]}")]
    heads = ["row", "data", "model", *[letters[0], *each, "paper"] * len(columns)]
    rows = list[list[str]]()
    for key in keys:
        there = [lines.get(key) for lines in by_key]
        told = [lines[key] for lines in tables if key in lines]
        texts = named(suite, told[0])
        for column in columns.values():
            if above := next(filter(None, map(column.above, told)), ""):
                texts += [f"<small>{escape(above)}</small>", *[""] * (2 * len(letters) - 1)]
                continue
            first, *others = (column.cell(suite, line) if line else None for line in there)
            texts.append(ours(first))
            for other in others:
                texts += [ours(other), signed(other.ours - first.ours if first and other else None)]
            texts.append(next((found.papers for found in (first, *others) if found), ""))
        rows.append(texts)
    widths = [2 * len(letters)] * len(columns)
    return table(heads, rows, above=spanning(list(columns), 3, widths))


def settings(lines: Sequence[Line]) -> list[str]:
    """Of each kind: what all its runs share, and a table of the runs with what differs."""
    made = list[str]()
    for kind in KINDS:
        runs = {str(one[FOLDER]): one for line in lines for one in line.results.get(kind, ())}
        if not runs:
            continue
        known = [described_run(result) for result in runs.values()]
        names = list(dict.fromkeys(name for of_run in known for name in of_run))
        shared = {name: known[0].get(name) for name in names if len({of_run.get(name) for of_run in known}) == 1}
        differing = [name for name in names if name in ALWAYS or name not in shared]
        listed = "".join(
            f"<li>{escape(name)} <code>{escape(text)}</code></li>"
            for name, text in shared.items()
            if text and name not in ALWAYS
        )
        rows = ([escape(of_run.get(name, "")) for name in differing] for of_run in known)
        count = f"{len(known)} run{'' if len(known) == 1 else 's'}"
        made.append(
            f"<details><summary>{kind}, {count}</summary>"
            f'<ul class="settings">{listed}</ul>{table(list(map(escape, differing)), rows)}</details>'
        )
    return made


ALWAYS = ("row", "seed", "seconds")
"""What the table of runs shows even if it is the same in all."""


def described_run(result: Result) -> dict[str, str]:
    """All that decided a run, and what ran it, in words."""
    recipe: Mapping[str, Any] = json.loads(result["recipe"])
    known: dict[str, Any] = {"row": result["row"], "own": result["own"], "seed": result["seed"]}
    known["seconds"] = f"{result['seconds']:.0f}"
    known |= {name: value for name, value in recipe.items() if name not in ("kind", "data", "seed")}
    known |= {f"data to {split}": place for split, place in result["data"].items()}
    known |= {"machine" if name == "name" else name: value for name, value in result["machine"].items()}
    return {name: shortened(text) if isinstance(text, str) else json.dumps(text) for name, text in known.items()}
