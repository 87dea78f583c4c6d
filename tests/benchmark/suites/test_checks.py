"""Trainings that theory is about: what it says of them comes out, is kept with the result, and is shown in reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ident.benchmark import report
from ident.benchmark.report import formats, page, plots, reading, tables
from ident.benchmark.suites import runner
from ident.benchmark.suites.runs import of_tier, runs_of
from ident.benchmark.suites.suite import load_suite
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.training.schedule import Training
from ident.render.errors import Impossible

SUITE = """
title = "Mine"
metrics = ["r2"]
checks = ["distances", "orthogonality", "leakage", "critic", "precisions"]
targets = [50, 100]
axes = { "1" = "nothing" }

[every_row]
source = "latents(sphere(4), uniform)"
space = "sphere"
kinds = ["unsupervised"]
figure = "1"

[[rows]]
id = "anisotropic"
pairs = "drawn(anisotropic(4 x2, 12 x2))"
objective = "aninfonce"
matches = true
followed = true
x = 1.0
groups = { low = [0, 1], high = [2, 3] }

[[rows]]
id = "code"
pairs = "drawn(anisotropic(8 x2, 24 x2, convention=code))"
objective = "aninfonce(convention=code)"
matches = true
x = 2.0

[[rows]]
id = "as-vmf"
pairs = "drawn(anisotropic(4 x2, 12 x2))"
objective = "infonce(vmf)"
x = 1.0
"""
TRAINING = Training(steps=300, batch_size=256, learning_rate=5e-3, constant=0.5, looks=3)
TIER = replace(
    load_tier("laptop"), name="quick", samples=200, unsupervised=TRAINING, pairs={}, objective={"softplus": False}
)


def warned(text: str) -> None:
    raise AssertionError(text)


def test_what_theory_says_of_trainings(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SUITE)
    suite = load_suite(str(file))
    runs = runs_of(suite, suite.rows, ("unsupervised",), 1, TIER)
    folder = tmp_path / "out" / "mine" / "quick"
    folder.mkdir(parents=True)
    for run in runs:
        runner.perform(run, folder, "cpu", lambda *_: None)
    results = of_tier(suite, TIER, folder, {}, warned)
    scores = {result.row: result.scores["test"] for result in results}
    for row in ("anisotropic", "code"):
        far = {name: scores[row][name].value for name in suite.checks}
        for name in ("distances", "orthogonality", "leakage"):  # of what nothing mixes
            assert far[name] == pytest.approx(0, abs=1e-6)
        assert far["critic"] < 0.05
        assert far["precisions"] < 0.05
    assert scores["as-vmf"]["critic"].value > 0.5
    assert "precisions" not in scores["as-vmf"]
    learned = {result.row: sorted(result.learned) for result in results}
    assert learned["code"] == pytest.approx([2 * value for value in learned["anisotropic"]], rel=0.1)

    last = results[0].history[-1]
    assert last["r2 low"] == pytest.approx(1, abs=1e-6)
    assert last["loss"] == pytest.approx(last["loss of the truth"], abs=0.4)  # of one batch

    lines = tables.lines_of(suite, results)
    far_table, steps = tables.more(suite, lines).values()
    assert far_table[0] == ["row", "matches", *suite.checks]
    assert [row[:2] for row in far_table[1:]] == [["anisotropic", "yes"], ["code", "yes"], ["as-vmf", "no"]]
    assert far_table[3][-1] == ""
    assert steps[0] == ["row", "50", "100"]
    assert steps[1][:2] == ["anisotropic", "100"]
    data = {entry["row"]: entry for entry in report.as_data(suite, lines)}
    assert set(data["as-vmf"]["checks"]) == {"distances", "orthogonality", "leakage", "critic"}
    assert data["code"]["steps"]["50"] == 100
    assert "How far from what the theorems say" in formats.markdown(suite, lines)
    assert {"groups-1.png", "lambda-1.png", "figure-1.png"} <= set(plots.figures(suite, lines))
    said = page.write([reading.read(tmp_path / "out", warned, [suite])], tmp_path / "report", warned)
    assert "Steps to a score by r2" in Path(said["page"]).read_text()
    assert json.loads((tmp_path / "report" / "results.jsonl").read_text().splitlines()[0])["test_critic"] < 5


def test_a_tier_may_say_how_precisions_begin() -> None:
    suite = load_suite("theory")
    tier = replace(TIER, objective={"softplus": True})
    options = {run.row.id: run.objective_options for run in runs_of(suite, suite.rows, ("unsupervised",), 1, tier)}
    assert options["anisotropic"] == {"softplus": True}
    assert options["box-laplace"] == {}
    assert load_tier("paper").objective == {"softplus": True}
    with pytest.raises(Impossible, match="objective of tier quick: none takes softpuls; leave it out"):
        runs_of(suite, suite.rows, ("unsupervised",), 1, replace(TIER, objective={"softpuls": True}))


def test_the_papers_tier_of_aninfonce_is_its_code() -> None:
    suite, tier = load_suite("aninfonce"), load_tier("paper")
    (run,) = runs_of(suite, (suite.row("aninfonce-lambda5"),), ("unsupervised",), 1, tier)
    assert (run.training.steps, run.training.batch_size, run.training.learning_rate) == (300_003, 1000, 1e-4)
    assert run.options == {"both": True}
    assert run.objective_options == {"softplus": True}
    scaling = load_suite("scaling")
    assert len([row for row in scaling.rows if row.figure in ("4 A", "4 B")]) == 32
    assert {row.training_in("paper")["steps"] for row in scaling.rows if row.figure == "9"} == {500_000}
    assert len([row for row in scaling.rows if row.figure == "9"]) == 5 * 9
