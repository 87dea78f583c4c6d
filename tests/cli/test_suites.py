"""A user's suite and metrics, from the file to the page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import Run

SUITE = """
title = "My suite"
metrics = ["mine:closeness", "mcc"]

[[rows]]
id = "a-row"
source = "mixed(box(3, 0, 1))"
pairs = "drawn(normal(0.2))"
space = "box"
objective = "infonce(normal)"
paper = { unsupervised = { mcc = [98.0, 0.5] } }

[[rows]]
id = "another"
source = "mixed(box(3, 0, 1))"
pairs = "drawn(laplace(0.2))"
space = "box"
objective = "infonce(laplace)"
"""
MINE = """
from ident.benchmark.metrics import Metric

def closeness(factors, representation):
    return 1 / (1 + abs(factors - representation[:, :3]).mean(0))

MOVED = Metric("moved", closeness, needs=("interventions",))
"""
TIER = """
samples = 64
supervised = { steps = 3, batch_size = 16, learning_rate = 1e-3, looks = 1 }
unsupervised = { steps = 3, batch_size = 16, learning_rate = 1e-3, looks = 1 }
"""
BENCH = ("bench", "--suite", "suite.toml", "--tier", "tiny.toml", "--device", "cpu", "--row", "a-row")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    for name, text in (("suite.toml", SUITE), ("mine.py", MINE), ("tiny.toml", TIER)):
        (tmp_path / name).write_text(text)


def test_a_suite_of_ones_own_with_a_metric_of_ones_own(ident: Run, ident_here: Run, tmp_path: Path) -> None:
    done = ident_here(*BENCH, "--trust", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["suite"], said["metrics"]) == ("suite", ["mine:closeness", "mcc"])
    rows = {row["row"]: row for row in said["rows"]}
    assert list(rows) == ["a-row"]
    assert rows["a-row"]["unsupervised"]["mcc"]["paper"] == [98.0, 0.5]
    score = rows["a-row"]["unsupervised"]["mine:closeness"]
    assert 0 < score["low"] <= score["ours"] <= score["high"] < 100
    folder = tmp_path / "results" / "suite" / "tiny"
    names = {path.parent.name for path in folder.glob("*/result.json")}
    assert names == {f"a-row-{kind}-seed0" for kind in ("identity", "supervised", "unsupervised")}
    result = json.loads((folder / "a-row-unsupervised-seed0" / "result.json").read_text())
    assert set(result["scores"]["test"]) == {"r2", "mcc", "spearman", "mine:closeness"}
    assert "mine:closeness" in result["history"][0]
    again = ident_here(*BENCH, "--trust")
    assert again.returncode == 0, again.stderr
    assert "3 runs of 3 done before" in again.stderr
    (tmp_path / "mine.py").write_text(MINE.replace("1 / (1 +", "1 / (2 +"))
    other = ident(*BENCH, "--trust")
    assert other.returncode == 2, other.stdout
    assert "belongs to another run, of own " in other.stderr

    report = ident_here("report", "--suite", "suite.toml", "--json")
    assert report.returncode == 0, report.stderr
    assert report.stderr == ""
    records = json.loads(report.stdout)["results"]
    assert {(one["suite"], one["row"], one["split"]) for one in records} == {("suite", "a-row", "test")}
    assert "My suite, tier tiny" in (tmp_path / "report" / "index.html").read_text()
    without = ident_here("report", "--out", "without")
    assert without.returncode == 2
    *warned, last = without.stderr.splitlines()
    assert len(warned) == 3
    assert all(line.endswith("; give its file by --suite; left out") for line in warned)
    assert last.startswith("ident: results: none of its 3 results can be read; ")


def test_reports_import_nothing_of_a_suite(ident: Run, ident_here: Run, tmp_path: Path) -> None:
    assert ident_here(*BENCH, "--trust", "--kind", "identity").returncode == 0
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    done = ident("report", "--suite", "suite.toml")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("old", "new", "trust", "says"),
    [
        ("", "", False, "suite: names mine:closeness, whose modules would be imported; if you trust it, add --trust"),
        (
            "mine:closeness",
            "mine:MOVED",
            True,
            "suite: metric mine:MOVED needs interventions, which its source has not",
        ),
        ("mine:closeness", "mine:nothing", True, "mine:nothing: cannot be loaded"),
        ("mine:closeness", "spearmann", True, "suite.toml: metric 'spearmann': choose from r2, mcc, spearman, "),
        ("drawn(normal", "drawn(nomal", True, "nobody knows 'nomal'; did you mean normal?"),
        ('"a-row"', '"../a"', True, "suite.toml: row ../a: id '../a': give small letters, digits"),
        ('"a-row"', '"another"', True, "suite.toml: 2 rows have the id another: give each its own"),
    ],
)
def test_what_is_refused_before_anything_is_trained(
    ident_here: Run, tmp_path: Path, old: str, new: str, trust: bool, says: str
) -> None:
    (tmp_path / "suite.toml").write_text(SUITE.replace(old, new))
    done = ident_here(*BENCH, *["--trust"] * trust)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "results").exists()
    sys.modules.pop("mine", None)  # which another test has, too
