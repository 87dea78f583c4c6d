"""The page of results: whole in itself, and true to what lies there."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import markupsafe
import numpy as np
import pytest
from PIL import Image

from ident.benchmark import report
from ident.benchmark.report import formats, plots, reading, tables
from ident.benchmark.suites.suite import load_suite
from ident.render.errors import Impossible
from tests.benchmark.report.conftest import RUNS, changed, warned, written
from tests.browser import browsing

SCRIPT = "<script>alert('x')</script>, $\\frac$"


class Tags(HTMLParser):
    """The tags of a page, and what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.targets = set[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.targets += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "style")]


def test_the_page_has_all_in_itself(results: Path) -> None:
    text, said = written(results)
    tags = Tags(text)
    pictures = [target for target in tags.targets if target.startswith("data:image/png;base64,")]
    assert len(pictures) == len([name for name in said["files"] if name.endswith(".png")]) >= 15
    for picture in pictures:
        content = base64.b64decode(picture.partition(",")[2], validate=True)
        with Image.open(BytesIO(content)) as image:
            assert min(image.size) > 50
    others = [target for target in tags.targets if not target.startswith(("data:", "#"))]
    assert others[0] == "results.jsonl"
    assert {"table1-quick.tex", "table4-quick.csv"} < set(others)
    assert {str(results.parent / "report" / name) for name in others} < set(said["files"])
    assert not re.search(r"https?:|url\(|@import", text)
    assert not tags.tags & {"link", "iframe", "object"}
    script = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    assert len(script) == text.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert {"details", "table", "img"} <= tags.tags
    names = {Path(name).name for name in said["files"]}
    assert {
        "table4-quick-0-neighbours.png", "table4-quick-0-recovered.png", "table4-quick-0-latents.png",
        "table4-quick-curves.png", "aninfonce-quick-figure-2.png", "aninfonce-quick-lambda-2.png", "index.html",
    } <= names  # fmt: skip
    assert all(Path(name).stat().st_size for name in said["files"])
    assert len(text) < 2e6
    assert written(results)[0] == text


def test_the_table_has_ours_the_papers_and_the_difference(results: Path) -> None:
    values = [
        100 * json.loads(path.read_text())["scores"]["test"]["r2"]["value"]
        for path in sorted(results.glob("table1/quick/sphere-laplace-vmf-*/result.json"))
    ]
    ours, sd = np.mean(values), np.std(values, ddof=1)
    text, _ = written(results / "table1")
    assert f"<b>{ours:.2f}</b> <small>± {sd:.2f}</small></td><td>99.91 ± 0.01</td><td>{ours - 99.91:+.2f}</td>" in text
    identity = results / "table1/quick/sphere-vmf1-vmf-identity-seed0/result.json"
    score = json.loads(identity.read_text())["scores"]["test"]["r2"]
    interval = f"<b>{100 * score['value']:.2f}</b> <small>{100 * score['low']:.2f} to {100 * score['high']:.2f}"
    assert text.count(interval) == 1  # four rows share the run
    for setting in ("learning_rate <code>0.001", "machine", "ident <code>", "<th>seconds</th>"):
        assert setting in text


def test_table_5_is_beside_table_4(results: Path) -> None:
    for place in (results, results / "table4", results / "table4" / "quick"):
        assert [part.suite.name for part in reading.read(place, warned).parts][-2:] == ["table4", "table5"]
    text, said = written(results / "table4")
    assert "Table 5: 3DIdent" in text
    result = json.loads((results / "table4/quick/box-normal-unsupervised-seed0/result.json").read_text())
    assert f"<b>{100 * result['scores']['train']['mcc']['value']:.2f}</b>" in text
    papers = {(one["suite"], one["row"]): (one["split"], one["paper_r2"]) for one in said["results"]}
    assert papers[("table4", "box-normal")] == ("test", 96.73)
    assert papers[("table5", "box-normal")] == ("train", 97.83)


KEYS = {
    "results", "suite", "tier", "row", "own", "kind", "seed", "source", "pairs", "objective", "space", "matches",
    "encoder", "positives", "split", "seconds", "ident", "paper_r2", "paper_r2_sd",
    "result",
}  # fmt: skip


def test_a_record_a_run(results: Path) -> None:
    _, said = written(results)
    lines = (results.parent / "report" / "results.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert records == said["results"]
    keys = [tuple(one[name] for name in ("suite", "row", "kind", "seed")) for one in records]
    again = [("table5", *key[1:]) for key in RUNS if key[0] == "table4"]
    assert sorted(keys) == sorted([*RUNS, *again])
    for one in records:
        of_scores = {
            f"{split}_{metric}{what}"
            for split in (("test", "train") if one["suite"] in ("table4", "table5") else ("test",))
            for metric in ("r2", "mcc", "spearman")
            for what in ("", "_low", "_high", "_chance")
        }
        more = {"paper_mcc", "paper_mcc_sd"} if one["suite"] in ("table4", "table5") else set()
        assert set(one) == KEYS | of_scores | more
    assert {one["paper_r2"] for one in records if one["suite"] == "table1"} == {66.98, 99.91}
    documented = (Path(__file__).parents[3] / "docs" / "benchmark.md").read_text()
    assert all(f"`{name}`" in documented for name in KEYS)


def test_bench_writes_the_same_records(results: Path, tmp_path: Path) -> None:
    part = next(part for part in reading.read(results, warned).parts if part.suite.name == "table1")
    files = report.write(part.suite, part.lines, tmp_path)
    assert tmp_path / "results.jsonl" in files
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    _, said = written(results / "table1")
    assert [{"results": str(results / "table1"), **one} for one in records] == said["results"]


def test_the_tables_are_made_again_of_records_alone(results: Path, tmp_path: Path) -> None:
    text, said = written(results)
    alone = tmp_path / "alone" / "table1" / "laptop"
    alone.mkdir(parents=True)
    shutil.copy(results.parent / "report" / "results.jsonl", alone)
    again, told = written(tmp_path / "alone")
    assert [{**one, "results": ""} for one in told["results"]] == [{**one, "results": ""} for one in said["results"]]
    assert again.count("<tr>") == text.count("<tr>")
    lines = (alone / "results.jsonl").read_bytes().splitlines()
    hostile = [
        b"[]",
        b"{" * 10**5,
        lines[0].replace(b'"format": 3', b'"format": 4'),
        b"\xff",
        b'{"result": {"format": 3}}',
    ]
    (alone / "results.jsonl").write_bytes(b"\n".join([*hostile, lines[0]]))
    warnings = list[str]()
    (part,) = reading.read(tmp_path / "alone", warnings.append).parts
    assert [warning.partition(": ")[0] for warning in warnings] == [
        f"{alone / 'results.jsonl'}, line {number}" for number in range(1, 6)
    ]
    assert sum(len(some) for line in part.lines for some in line.results.values()) >= 1


def test_texts_of_results_are_escaped(results: Path) -> None:
    tier = results / "table1" / "quick"
    shutil.copytree(tier / "sphere-laplace-vmf-unsupervised-seed0", tier / "sphere-laplace-vmf-mine-unsupervised-seed0")
    path = tier / "sphere-laplace-vmf-mine-unsupervised-seed0" / "result.json"
    result = json.loads(path.read_text())
    recipe = json.dumps(json.loads(result["recipe"]) | {SCRIPT: SCRIPT, "objective": SCRIPT})
    changed(path, own=SCRIPT, machine={"ident": SCRIPT, SCRIPT: [SCRIPT]}, recipe=recipe, data={SCRIPT: "\ud800"})
    text, said = written(results / "table1")
    assert text.count("<script") == 1  # ours
    assert "&lt;script&gt;alert(&#39;x&#39;)" in text
    assert [one["own"] for one in said["results"]].count(SCRIPT) == 1
    mine = next(one for one in said["results"] if one["own"])
    assert (mine["paper_r2"], mine["objective"]) == (None, SCRIPT)


def test_two_results_are_compared(results: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(results / "table1", tmp_path / "other"))
    for path in (other / "quick").glob("sphere-laplace-vmf-*/result.json"):
        result = json.loads(path.read_text())
        result["scores"]["test"]["r2"]["value"] += 0.125
        path.write_text(json.dumps(result))
    text, said = written(results, other)
    assert "A against B: Table 1" in text
    assert "A against B: Table 4" not in text
    assert text.count("<td>+12.50</td>") == 1
    assert text.count("<td>+0.00</td>") == 1
    assert {one["results"] for one in said["results"]} == {str(results), str(other)}
    assert {"A-table1-quick-curves.png", "B-table1-quick-curves.png"} <= {Path(name).name for name in said["files"]}
    for path in (other / "quick").glob("*/result.json"):
        changed(path, tier="huge")
    assert "A tier quick, B tier huge" in written(results / "table1", other)[0]


def test_the_impossible_is_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="none: no results there; give a folder that ident bench wrote to, or type"):
        reading.read(tmp_path / "none", warned)
    (results / "report").mkdir()
    (results / "report" / "index.html").write_text("<h1>My site</h1>")
    with pytest.raises(Impossible, match=r"index.html: is no report of ident; give another --out, or --force"):
        written(results / "table1")


def test_shared_runs_are_shown_once_and_rows_counted_as_they_are(results: Path) -> None:
    suite = load_suite("table1")
    of_one = reading.read(results / "table1", warned).parts[0].lines
    assert [line.label for line in of_one] == [row.id for row in suite.rows[:4]]
    assert [line.label for line in tables.distinct(suite, of_one)] == ["sphere-laplace-vmf"]
    text, _ = written(results / "table1")
    assert "r2 in percent, 1 of 14 rows." in text
    described = "sphere-laplace-vmf, sphere, uniform, laplace(0.05), sphere, vmf, unsupervised"
    assert f"<details open><summary>{described}</summary>" in text
    assert "<summary>sphere-vmf1-vmf" not in text
    four = results / "table1" / "quick" / "sphere-normal-vmf-unsupervised-seed0"
    shutil.copytree(four.with_name("sphere-laplace-vmf-unsupervised-seed0"), four)
    recipe = json.loads((four / "result.json").read_text())["recipe"].replace("laplace(0.05)", "normal(0.05)")
    changed(four / "result.json", row="sphere-normal-vmf", recipe=recipe)
    lines = tables.distinct(suite, reading.read(results / "table1", warned).parts[0].lines)
    assert [(line.label, line.above) for line in lines] == [
        ("sphere-laplace-vmf", {}), ("sphere-normal-vmf", {"identity": "sphere-laplace-vmf"}),
    ]  # fmt: skip
    texts = formats.markdown(suite, lines), formats.latex(suite, lines)
    assert [text.count("as sphere-laplace-vmf") for text in texts] == [1, 1]
    for run in results.glob("table1/quick/*-unsupervised-*"):
        shutil.rmtree(run)
    text, _ = written(results / "table1")
    assert "r2 in percent, 0 of 14 rows." in text
    assert "<summary>sphere-vmf1-vmf and 3 more, sphere, uniform, identity</summary>" in text


def test_the_row_that_was_trained_last_is_open(results: Path) -> None:
    for later, (row, kind) in enumerate({"box-normal": "unsupervised", "identity": "identity"}.items()):
        os.utime(results / "table4" / "quick" / f"{row}-{kind}-seed0" / "result.json", (2e9 + later, 2e9 + later))
        opened = re.findall(r"<details open><summary>([\w-]+),", written(results / "table4")[0])
        assert opened == [row] * 2  # of tables 4 and 5


def test_copies_of_the_table(results: Path) -> None:
    tier = results / "table1" / "quick"
    shutil.copytree(tier / "sphere-laplace-vmf-unsupervised-seed0", tier / "sphere-laplace-vmf-mine-unsupervised-seed0")
    changed(tier / "sphere-laplace-vmf-mine-unsupervised-seed0" / "result.json", own=r"a_b|c&d%$#{}~^<\x>")
    text, said = written(results / "table1")
    tex, sheet = (results / "report" / f"table1-quick.{ending}" for ending in ("tex", "csv"))
    assert {str(tex), str(sheet)} < set(said["files"])
    for file in (tex, sheet):
        assert f'data-copy="{file.name}" hidden>Copy ' in text
        assert f'<pre id="{file.name}" tabindex="0">{markupsafe.escape(file.read_text())}</pre>' in text
    lines = tex.read_text().splitlines()
    assert lines[1:3] == [r"\begin{tabular}{lllrrrrr}", r"\toprule"]
    assert lines[3] == r"row & data & model & identity & paper & unsupervised & paper & difference \\"
    assert r"99.91 $\pm$ 0.01 & $-$" in lines[5]
    own = r"a\_b\textbar{}c\&d\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textless{}\textbackslash{}x\textgreater{}"
    assert lines[6].startswith(f"sphere-laplace-vmf {own} & sphere, uniform, laplace(0.05) & sphere, vmf & ")
    assert lines[7:] == [r"\bottomrule", r"\end{tabular}"]
    three, mine = csv.DictReader(sheet.read_text().splitlines())
    assert (three["row"], mine["row"]) == ("sphere-laplace-vmf", r"sphere-laplace-vmf a_b|c&d%$#{}~^<\x>")
    assert (three["unsupervised seeds"], three["unsupervised paper"], mine["unsupervised sd"]) == ("2", "99.91", "")
    part = reading.read(results / "table1", warned).parts[0]
    written_by_bench = {path.name for path in report.write(part.suite, part.lines, results.parent)}
    assert {"table.md", "table.tex", "table.csv", "table.json"} < written_by_bench
    assert (results.parent / "table.tex").read_text() == tex.read_text()
    assert (results.parent / "table.csv").read_text() == sheet.read_text()
    assert r"| sphere-laplace-vmf a\_b\|c&d%$#{}~^\<\\x> |" in (results.parent / "table.md").read_text()


def test_curves_of_seeds_have_names_and_looks_of_their_own(results: Path) -> None:
    part = reading.read(results / "table1", warned).parts[0]
    figure = plots.figures(part.suite, part.lines)["curves.png"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["sphere-laplace-vmf, seed 0", "sphere-laplace-vmf, seed 1"]
    assert len({str(line.get_linestyle()) for line in figure.legends[0].get_lines()}) == 2
    assert len({plots.dash(number) for number in range(20)}) == 20


@pytest.mark.parametrize(("name", "across"), [("W", 5), ("sphere-laplace-vmf", 3), (40 * "W", 1)])
def test_names_of_curves_are_within_their_figure(name: str, across: int, results: Path) -> None:
    part = reading.read(results / "table1", warned).parts[0]
    line = next(line for line in part.lines if "unsupervised" in line.results)
    of_one = {"unsupervised": line.results["unsupervised"][:1]}
    lines = [replace(line, results=of_one, shared=(name,))] * 10
    figure = plots.curves(part.suite, lines)
    figure.savefig(BytesIO())
    whole, legend = figure.bbox, figure.legends[0].get_window_extent()
    assert whole.x0 + 10 < legend.x0 < legend.x1 < whole.x1 - 10
    assert len({round(text.get_window_extent().x0) for text in figure.legends[0].get_texts()}) == across


def test_scores_that_say_little_get_a_word(results: Path) -> None:
    path = results / "table1" / "quick" / "sphere-laplace-vmf-unsupervised-seed0" / "result.json"
    shutil.rmtree(path.parent.with_name("sphere-laplace-vmf-unsupervised-seed1"))
    suite = load_suite("table1")

    def said(value: float, chance: float) -> list[str]:
        scores = json.loads(path.read_text())["scores"]
        scores["test"]["r2"] |= {"value": value, "chance": chance}
        changed(path, scores=scores)
        return tables.remarks(suite, tables.distinct(suite, reading.read(results / "table1", warned).parts[0].lines))

    assert said(0.5, -0.02) == []
    below = "sphere-laplace-vmf, unsupervised: r2 -379.14, below 0: worse than the mean of the factors; "
    assert said(-3.7914, -9.1) == [below + "32 samples are too few for 10 factors"]
    assert said(-3.7914, -0.1) == [below + "it has not learned them"]
    assert f"<p>{below}it has not learned them</p>" in written(results / "table1")[0]


def test_a_factor_that_images_do_not_always_show_has_its_ceiling(results: Path) -> None:
    said = "object hue: no encoder can have more than r2 96.3 and mcc 98.1, as images do not always show it"
    assert written(results / "table4")[0].count(f"<p>{said}</p>") == 2  # of tables 4 and 5
    assert "no encoder can have more" not in written(results / "table1")[0]
    line = reading.read(results / "table4", warned).parts[0].lines[0]
    axes = plots.bars(load_suite("table4"), line.results["unsupervised"]).axes[0]
    black = [drawn for drawn in axes.lines if drawn.get_color() == "black"]
    assert [np.asarray(drawn.get_xdata()).tolist() for drawn in black] == [[96.3, 96.3], [98.1, 98.1]]
    place = line.factors.index("object hue")
    assert all((abs(np.asarray(drawn.get_ydata()) - place) < 0.5).all() for drawn in black)


@pytest.mark.slow
def test_a_browser_shows_it(results: Path, tmp_path: Path) -> None:
    text, said = written(results)
    whole = tmp_path / "whole.html"
    whole.write_text(text.replace("<details>", "<details open>"))
    count = len([name for name in said["files"] if name.endswith(".png")])
    with browsing(tmp_path / "profile") as shown:
        for width in (400, 1400, 1600):
            shown.open(whole, width)
            assert shown.run("document.documentElement.scrollWidth <= innerWidth")
            assert shown.run("[...document.images].filter(one => one.complete && one.naturalWidth).length") == count
            assert shown.run("[...document.images].every(one => one.getBoundingClientRect().right <= innerWidth)")
            shown.picture(tmp_path / f"{width}.png")
            with Image.open(tmp_path / f"{width}.png") as image:
                assert image.size == (width, 1200)
                assert len(np.unique(np.asarray(image.convert("L")))) > 50
            cut = shown.run(CUT)
            assert cut if width == 400 else True
            for place, (left, top) in enumerate(cut):
                shown.picture(tmp_path / "cut.png", clip={"x": left, "y": top, "width": 40, "height": 1, "scale": 1})
                with Image.open(tmp_path / "cut.png") as image:
                    shades = np.asarray(image.convert("L"))[0].astype(int)
                assert shades[0] - shades.min() > 40, f"table {place} is cut at {width} pixels without a sign"
        shown.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        shown.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        for name in ("table1-quick.tex", "table4-quick.csv"):
            assert shown.run(COPY.replace("NAME", name)) == "Copied"
            copied = shown.run("navigator.clipboard.readText()")
            assert copied == (results.parent / "report" / name).read_text()


CUT = """[...document.querySelectorAll(".table")].filter(one => one.scrollWidth > one.clientWidth + 8).map(one => {
  const table = one.querySelector("tbody").getBoundingClientRect(), box = one.getBoundingClientRect();
  return [box.left + scrollX + one.clientWidth - 40, table.top + scrollY + 3];
})"""
"""Where the right sides of tables are that do not fit (8 pixels have no text): 40 pixels without text."""
COPY = """(async () => {
  const button = document.querySelector('button[data-copy="NAME"]');
  button.click();
  while (button.textContent.startsWith("Copy")) await new Promise(done => setTimeout(done, 10));
  return button.textContent;
})()"""
