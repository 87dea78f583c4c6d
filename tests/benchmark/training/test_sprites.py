"""Trainings on drawn images: killed and continued with decoders and two optimizers; results with their pictures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident.benchmark.suites.results import DECODED, RECOVERED
from ident.benchmark.suites.rows import Row, row_of
from ident.benchmark.suites.runner import perform, threads_for
from ident.benchmark.suites.runs import Run, runs_of
from ident.benchmark.suites.suite import load_suite
from ident.benchmark.suites.task import RowTask, check
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.train import train
from ident.render.errors import Impossible

STEPS, KILLED = 6, 4
TRAINING = Training(STEPS, 4, 1e-3, looks=STEPS)
TIER = replace(load_tier("demo", "sprites"), name="quick", supervised=TRAINING, unsupervised=TRAINING, samples=16)


def row(objective: str, **more: object) -> Row:
    settings = {"id": "one", "source": "dsprites", "pairs": "laplace-change", "space": "unbounded"}
    return row_of({**settings, "kinds": ["unsupervised"], "objective": objective, **more})


def run_of(objective: str, **more: object) -> Run:
    return Run("mine", row(objective, **more), "unsupervised", 3, TIER, {}, ("mcc",))


def trained(objective: str, checkpoint: Path, stop: int = 0) -> list[dict[str, float]]:
    """The curve of a training that keeps a checkpoint of each step; it kills itself at a step."""

    def tell(step: int, _: dict[str, float]) -> None:
        if step == stop:
            signal.raise_signal(signal.SIGKILL)

    run = run_of(objective)
    with threads_for(run):
        task, recipe = RowTask(run, "cpu"), json.dumps({"of": objective})
        return train(task, TRAINING, checkpoint, recipe, tell, seconds_between=0).history


def test_killed_and_continued(tmp_path: Path) -> None:
    objective = "factor-vae"  # which has a decoder, a discriminator and two optimizers
    whole = trained(objective, tmp_path / "whole.pt")
    checkpoint = tmp_path / "killed.pt"
    call = f"trained({objective!r}, Path({str(checkpoint)!r}), {KILLED})"
    code = f"from pathlib import Path; from {__name__} import trained; {call}"
    ended = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert checkpoint.exists()
    continued = trained(objective, checkpoint)
    assert [point["step"] for point in continued] == list(range(1, STEPS + 1))
    for one, other in zip(whole, continued, strict=True):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("objective", "more", "decodes"),
    [
        ("au(0.9, 1)", {}, False),
        ("infonce(laplace, itself=1)", {"space": "box"}, False),
        ("ada-gvae", {"pairs": "uniform-change"}, True),
        ("beta-vae(8)", {"source": "smooth-tracks(continuous, 800)", "pairs": "tracks"}, True),
        ("slow-vae(1, 10, 6)", {"source": "walkers(80)", "pairs": "temporal(5)"}, True),
    ],
)
def test_runs_to_their_results(objective: str, more: dict[str, object], decodes: bool, tmp_path: Path) -> None:
    run = run_of(objective, **more)
    check([run])
    result = perform(run, tmp_path, "cpu", lambda *_: None)
    assert result is not None
    assert 0 <= result.scores["test"]["mcc"].value <= 1
    with np.load(tmp_path / run.name / RECOVERED) as arrays:
        assert arrays["recovered"].shape == (16, 10)
    for name in DECODED:
        path = tmp_path / run.name / name
        shown = decodes and name != "views.png"
        assert path.exists() == shown
        if shown:
            with Image.open(path) as image:
                assert min(image.size) > 64
                assert np.ptp(np.asarray(image)) > 0
    assert json.loads(result.recipe)["latents"] == 10


@pytest.mark.parametrize("name", ["dsprites", "natural-sprites", "natural-sprites-continuous", "kitti-masks"])
def test_every_row_that_needs_no_file_can_be_made(name: str) -> None:
    suite = load_suite(name)
    for tier in ("demo", "laptop", "paper"):
        sized = load_tier(tier, "sprites")
        runs = runs_of(suite, suite.rows, ("unsupervised",), 1, sized)
        assert len(runs) == len(suite.rows)
    check([run for run in runs if run.row.source.name in ("dsprites", "smooth-tracks")])


@pytest.mark.parametrize("name", ["dsprites", "natural-sprites", "natural-sprites-continuous", "kitti-masks"])
def test_the_papers_scores_have_the_deviations_that_are_printed(name: str) -> None:
    for row in load_suite(name).rows:
        for scores in row.paper.values():
            assert {len(score) for score in scores.values()} == {1 if row.id == "ada-gvae-uni" else 2}, row.id


def test_the_papers_tier_has_as_many_samples_as_information_is_counted_in() -> None:
    assert load_tier("paper", "sprites").samples == 100_000


def test_supervised_runs_have_as_many_outputs_as_factors(tmp_path: Path) -> None:
    run = replace(run_of("au(0.9, 1)"), kind="supervised")
    assert perform(run, tmp_path, "cpu", lambda *_: None) is not None
    with np.load(tmp_path / run.name / RECOVERED) as arrays:
        assert arrays["recovered"].shape == (16, 5)


@pytest.mark.parametrize(
    ("objective", "more", "said"),
    [
        ("beta-vae(8)", {"source": "dsprites(16)"}, "has no decoder of images 1 x 16 x 16"),
        (
            "beta-vae(8)",
            {"source": "mixed(box(3, 0, 1))", "pairs": "drawn(laplace(0.05))"},
            "this row's source has none",
        ),
    ],
)
def test_rows_that_cannot_be_are_refused_before_they_are_trained(
    objective: str, more: dict[str, object], said: str
) -> None:
    with pytest.raises(Impossible, match=said):
        check([run_of(objective, **more)])
