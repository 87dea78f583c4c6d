"""The suites of digits from the command line: on small made-up digits, pulled or from a folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ident.benchmark.metrics.metric import CLASSIFIED
from ident.benchmark.suites.suite import load_suite
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.training.schedule import Training
from ident.render.exchange.digits import NAMES
from tests.conftest import Run
from tests.digits import write_digits

TIER = """
samples = 240
model = { encoder = "dense" }
decoder = { steps = 3, batch_size = 16, learning_rate = 1e-3 }
supervised = { steps = 2, batch_size = 16, learning_rate = 1e-3 }
unsupervised = { steps = 2, batch_size = 16, learning_rate = 1e-3, looks = 1 }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders go to a cache of the test's, and the tier is there."""
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "short.toml").write_text(TIER)


def test_a_row_of_digits(ident_here: Run, tmp_path: Path) -> None:
    row = ("bench", "--suite", "mnist-vae", "--tier", "short.toml", "--row", "aninfonce-linear50", "--json")
    done = ident_here(*row)
    assert done.returncode == 2
    assert "data/mnist: has no train-images-idx3-ubyte; type ident pull mnist" in done.stderr
    write_digits(tmp_path / "data/mnist")
    done = ident_here(*row)
    assert done.returncode == 0, done.stderr
    assert "training decoders: 3/3" in done.stderr
    (line,) = json.loads(done.stdout)["rows"]
    assert line["unsupervised"]["r2"]["paper"] == [99.7]
    assert len(line["learned"]) == 10
    assert (tmp_path / "results/mnist-vae/short/lambda-3C.png").exists()
    again = ident_here(*row)
    assert json.loads(again.stdout) == json.loads(done.stdout)
    assert "1 run of 1 done before" in again.stderr
    # The same digits in another place are the same run; others are another.
    write_digits(tmp_path / "elsewhere")
    again = ident_here(*row, "--digits", "elsewhere")
    assert "1 run of 1 done before" in again.stderr, again.stderr
    write_digits(tmp_path / "others", train=301)
    other = ident_here(*row, "--data", "others")
    assert other.returncode == 2
    assert "belongs to another run, of data" in other.stderr
    report = ident_here("report", "results")
    assert report.returncode == 0, report.stderr


def test_digits_that_are_none(ident_here: Run, tmp_path: Path) -> None:
    write_digits(tmp_path / "bad")
    content = (tmp_path / "bad" / NAMES[0]).read_bytes()
    row = ("bench", "--suite", "mnist-vae", "--tier", "short.toml", "--row", "infonce-lambda25", "--digits", "bad")
    for wrong, said in (
        (content[:-1], "is cut short"),
        (b"\x1f\x8b" + content, "is gzipped"),
        (b"PNG" + content, "begins"),
    ):
        (tmp_path / "bad" / NAMES[0]).write_bytes(wrong)
        done = ident_here(*row)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert f"{NAMES[0]}: {said}" in done.stderr
        assert "Traceback" not in done.stderr
    assert not list((tmp_path / "cache").glob("decoders/*.pt"))
    done = ident_here(*row, "--test-data", "x")
    assert done.returncode == 2
    assert "--suite mnist-vae: its files lie in one folder; leave out --test-data and --render" in done.stderr


def test_augmented_digits_beside_the_papers(ident_here: Run, tmp_path: Path) -> None:
    write_digits(tmp_path / "data/mnist")
    options = ("--row", "aninfonce", "--row", "pixels")
    done = ident_here("bench", "--suite", "mnist-augmented", "--tier", "short.toml", *options, "--json")
    assert done.returncode == 0, done.stderr
    trained, pixels = json.loads(done.stdout)["rows"]
    papers = {name: score["paper"] for name, score in trained["unsupervised"].items()}
    assert papers == {
        "r2": [44], "classes": [94], "augmentation(crop)": [59], "augmentation(blur)": [63],
        "augmentation(all)": None, "knn(5)": None,
    }  # fmt: skip
    # The classes of the made-up digits are bars at places of their own, which pixels tell.
    assert pixels["identity"]["classes"]["ours"] == 100
    assert pixels["identity"]["knn(5)"]["ours"] > 90


def test_marginals_that_differ(ident_here: Run, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(
        TIER.replace("dense", "mlp").replace("decoder", "#").replace("samples = 240", "samples = 2400")
    )
    options = ("--row", "kappa0", "--row", "kappa10", "--kind", "identity", "--json")
    done = ident_here("bench", "--suite", "marginal-mismatch", "--tier", "short.toml", *options)
    assert done.returncode == 0, done.stderr
    uniform, apart = (line["identity"]["classes"]["ours"] for line in json.loads(done.stdout)["rows"])
    assert uniform < 60
    assert apart > 95


@pytest.mark.parametrize("name", ["mnist-vae", "mnist-augmented"])
def test_the_tables_are_those_of_the_paper(name: str) -> None:
    suite = load_suite(name)
    assert suite.observations == "digits"
    assert all(row.dim == 10 and CLASSIFIED in row.has for row in suite.rows)
    if name == "mnist-vae":
        assert len(suite.rows) == 10
        papers = [row.paper["unsupervised"]["r2"] for row in suite.rows if row.paper]
        assert papers == [(77.4,), (99.7,), (76.3,), (99.6,)]


def test_the_paper_trains_its_decoder_for_50_epochs() -> None:
    paper = load_tier("paper", "digits").decoder
    assert isinstance(paper, Training)
    assert paper.steps * paper.batch_size // 60_000 == 50


def test_the_x_of_marginals_is_how_often_the_best_classifier_is_right() -> None:
    cosine = np.linspace(-1, 1, 200_001)
    for row in load_suite("marginal-mismatch").rows:
        kappa = float(row.marginal.removeprefix("vmf(").rstrip(")"))
        density = np.exp(kappa * (cosine - 1)) * (1 - cosine**2) ** ((row.dim or 0) / 2 - 1.5)
        assert row.x == pytest.approx(100 * density[cosine > 0].sum() / density.sum(), abs=0.01)
