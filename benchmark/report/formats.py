"""Tables as texts for others' documents and sheets: Markdown, LaTeX, CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from io import StringIO

from ident.benchmark.report.tables import COLUMNS, Line, columns_of, more, texts
from ident.benchmark.suites.suite import Suite

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{one: rf"\{one}" for one in "&%$#_{}"},
}
"""What LaTeX does not take as it stands."""


def cells(suite: Suite, lines: Sequence[Line]) -> list[list[str]]:
    """The heads, then of each line the scores, the papers', and how far the last one is from the paper's."""
    columns, with_paper = columns_of(suite, lines), any(row.paper for row in suite.rows)
    heads = list(COLUMNS)
    for name in columns:
        heads += [name, "paper"] if with_paper else [name]
    table = [heads + (["difference"] if with_paper else [])]
    for line in lines:
        difference, row = None, texts(line)
        for column in columns.values():
            score, above = column.cell(suite, line), column.above(line)
            row.append(above or (score.text if score else ""))
            difference = score.difference if score and not above else None
            if with_paper:
                row.append(score.papers if score and not above else "")
        if with_paper:
            row.append("" if difference is None else f"{difference:+.2f}")
        table.append(row)
    return table


def markdown(suite: Suite, lines: Sequence[Line]) -> str:
    """The table for a document."""
    parts = [f"# {suite.title}\n\nScores: {suite.listed} in percent.\n\n{table(cells(suite, lines))}"]
    parts += [f"{title}:\n\n{table(rows)}" for title, rows in more(suite, lines).items()]
    return "\n".join(parts)


def table(texts: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, whose first row has the heads."""
    heads, *rows = [[re.sub(r"([\\|`*_<\[])", r"\\\1", text) for text in row] for row in texts]
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def latex(suite: Suite, lines: Sequence[Line]) -> str:
    """The table for a paper, with the rules of booktabs."""
    table = cells(suite, lines)
    heads, *rows = (" & ".join(map(escaped, row)) + r" \\" for row in table)
    aligned = "l" * len(COLUMNS) + "r" * (len(table[0]) - len(COLUMNS))
    parts = [
        rf"\begin{{tabular}}{{{aligned}}}",
        r"\toprule",
        heads,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([f"% {suite.title}, {suite.listed} in percent; needs booktabs", *parts, ""])


def escaped(text: str) -> str:
    """A text as LaTeX prints it."""
    return re.sub(r"^-(?=\d)", "$-$", "".join(LATEX.get(one, one) for one in text))


def sheet(suite: Suite, lines: Sequence[Line]) -> str:
    """The table as CSV, every number in a column of its own."""
    columns, file = columns_of(suite, lines), StringIO()
    writer = csv.writer(file, lineterminator="\n")
    numbers = ("", " sd", " low", " high", " seeds", " paper", " paper sd")
    writer.writerow([*COLUMNS, *(f"{name}{number}" for name in columns for number in numbers)])
    for line in lines:
        row = texts(line)
        for column in columns.values():
            if score := column.cell(suite, line):
                sd = f"{score.sd:.2f}" if score.seeds > 1 else ""
                row += [f"{score.ours:.2f}", sd, f"{score.low:.2f}", f"{score.high:.2f}", str(score.seeds)]
                row += map(str, [*(score.paper or ()), "", ""][:2])
            else:
                row += [""] * len(numbers)
        writer.writerow(row)
    return file.getvalue()
