"""`ident report`: a page where `ident bench` has been, and one line where it has not."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Run


def test_a_page_of_what_bench_made(ident: Run, ident_here: Run, tmp_path: Path) -> None:
    row = ("--suite", "table2", "--row", "normal-box-normal", "--kind", "identity", "--device", "cpu")
    done = ident_here("bench", *row)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "table2" / "laptop" / "results.jsonl").read_text().count("\n") == 1
    broken = tmp_path / "results" / "table2" / "laptop" / "broken" / "result.json"
    broken.parent.mkdir()
    broken.write_text("{}")
    done = ident("report")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "report/index.html\n"
    assert len(done.stderr.splitlines()) == 1
    assert str(broken.relative_to(tmp_path)) in done.stderr
    assert "46.55 ± 1.34" in (tmp_path / "report" / "index.html").read_text()
    done = ident_here("report", "results/table2", "results", "--out", "page", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said) == {"page", "files", "results"}
    assert said["page"] == "page/index.html"
    assert all((tmp_path / name).exists() for name in said["files"])
    assert [one["results"] for one in said["results"]] == ["results/table2", "results"]
    assert "A against B" in (tmp_path / "page" / "index.html").read_text()


def test_nothing_there_is_refused_in_one_line(ident: Run, tmp_path: Path) -> None:
    done = ident("report")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "ident: results: no results there; give a folder that ident bench wrote to, or type ident bench --out results\n"
    )
    assert not (tmp_path / "report").exists()


def test_what_was_measured_makes_its_tables_again(ident_here: Run) -> None:
    results = Path(__file__).parents[2] / "docs" / "results"
    done = ident_here("report", str(results), "--out", "page", "--json")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    rows = {(one["suite"], one["row"], one["seed"]): one for one in json.loads(done.stdout)["results"]}
    assert rows["table4", "box-normal", 0]["test_r2"] > 90
    assert "/tmp" not in "".join(path.read_text() for path in results.rglob("*.jsonl"))
