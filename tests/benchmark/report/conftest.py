"""Results of real runs, as short as they can be, for reports of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ident.benchmark.report import page, reading
from ident.benchmark.sources import mixed
from ident.benchmark.sources.data import Data
from ident.benchmark.suites import datasets, runner
from ident.benchmark.suites.runs import Run
from ident.benchmark.suites.suite import load_suite
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.training.schedule import Training
from ident.render.store.recipe import Uniform
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

SHORT = Training(steps=2, batch_size=16, learning_rate=1e-3, looks=2)
QUICK = {
    stored: replace(
        load_tier("laptop", "dataset" if stored else "mixed"),
        name="quick",
        supervised=SHORT,
        unsupervised=SHORT,
        samples=32,
        render=None,
    )
    for stored in (False, True)
}
QUICK[True] = replace(QUICK[True], pairs={**QUICK[True].pairs, "groups": 8})
RUNS = (
    ("table1", "sphere-vmf1-vmf", "identity", 0), ("table1", "sphere-laplace-vmf", "unsupervised", 0),
    ("table1", "sphere-laplace-vmf", "unsupervised", 1), ("table4", "box-normal", "unsupervised", 0),
    ("table4", "identity", "identity", 0), ("aninfonce", "aninfonce-lambda1", "unsupervised", 0),
    ("aninfonce", "aninfonce-lambda5", "unsupervised", 0),
)  # fmt: skip


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of real runs, as short as they can be."""
    folder = tmp_path_factory.mktemp("done")
    for split, place in (("train", "train"), ("test", "test")):
        paint(folder / place, replace(RECIPE, source=Uniform(0, split)), 40)
    found = datasets.find({split: str(folder / split) for split in ("train", "test")})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "MEASURED", 500)
        for name, row, kind, seed in RUNS:
            suite = load_suite(name)
            of_run: dict[str, Data] = found if suite.stored else {}
            run = Run(name, suite.row(row), kind, seed, QUICK[suite.stored], of_run)
            runner.perform(run, folder / "out" / name / "quick", "cpu", lambda *_: None)
    return folder / "out"


@pytest.fixture
def results(done: Path, tmp_path: Path) -> Path:
    """Results of real runs, to change."""
    return Path(shutil.copytree(done, tmp_path / "results", ignore=shutil.ignore_patterns("*.pt")))


def warned(text: str) -> None:
    raise AssertionError(text)


def written(*places: Path, warn: Callable[[str], object] = warned) -> tuple[str, dict[str, Any]]:
    """The page of some results, and what `write` says."""
    said = page.write([reading.read(place, warn) for place in places], places[0].parent / "report", warn)
    return Path(said["page"]).read_text(), said


def changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
