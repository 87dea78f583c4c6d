"""The suites of sprites and masks from the command line: on made files of the published formats, and on stand-ins."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from ident.benchmark.suites.suite import load_suite
from tests.conftest import Run

TIER = """
samples = 16
model = { encoder = "conv", latents = 10 }
supervised = { steps = 2, batch_size = 4, learning_rate = 1e-3 }
unsupervised = { steps = 2, batch_size = 4, learning_rate = 1e-3, looks = 1 }
"""


def made(tmp_path: Path) -> None:
    """Small files of the published formats, where they are looked for."""
    rng = np.random.default_rng(0)
    for name in ("kitti-masks", "natural-sprites"):
        (tmp_path / "data" / name).mkdir(parents=True)
    masks = [rng.random((8, 64, 64)) > 0.7 for _ in range(3)]
    latents = [rng.random((8, 3)).astype(np.float32) for _ in range(3)]
    content = {"pedestrians": masks, "pedestrians_latents": latents}
    (tmp_path / "data/kitti-masks/kitti_peds_v2.pickle").write_bytes(pickle.dumps(content))
    rows = ["id,cat_id," + ",".join(f"t_{number}" for number in range(40))]
    for number in range(20):
        windows = rng.uniform((9, 9, 30), (55, 55, 900), (40, 2, 3)).round(3).tolist()
        cells = [f'"{[tuple(first), None, tuple(last)]}"' for first, last in windows]
        rows.append(f"{number},1,{','.join(cells)}")
    (tmp_path / "data/natural-sprites/downscale_keepaspect.csv").write_text("\n".join(rows))
    (tmp_path / "short.toml").write_text(TIER)


@pytest.mark.parametrize(
    ("suite", "row", "metric"),
    [
        ("kitti-masks", "laplace-box-0.05s", "spearman"),
        ("kitti-masks", "slow-vae-0.15s", "spearman"),
        ("natural-sprites-continuous", "au0.5-p1", "spearman"),
        ("natural-sprites", "au0.5-p2", "dci"),
    ],
)
def test_a_row_of_published_files(ident_here: Run, tmp_path: Path, suite: str, row: str, metric: str) -> None:
    made(tmp_path)
    done = ident_here("bench", "--suite", suite, "--tier", "short.toml", "--row", row, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)["rows"]
    assert line["row"] == row
    assert line["unsupervised"][metric]["paper"][0] == load_suite(suite).row(row).paper["unsupervised"][metric][0]
    again = ident_here("bench", "--suite", suite, "--tier", "short.toml", "--row", row, "--json")
    assert json.loads(again.stdout) == json.loads(done.stdout)
    assert "1 run of 1 done before" in again.stderr
    # Another file is another run.
    file = next((tmp_path / "data" / suite.removesuffix("-continuous")).iterdir())
    if suite == "kitti-masks":
        content = pickle.loads(file.read_bytes())
        content["pedestrians"][0][0, 0, 0] ^= True
        file.write_bytes(pickle.dumps(content))
    else:
        file.write_text(file.read_text().rpartition("\n")[0])
    other = ident_here("bench", "--suite", suite, "--tier", "short.toml", "--row", row)
    assert other.returncode == 2
    assert "belongs to another run, of data" in other.stderr


def test_without_the_file_it_says_what_to_type(ident_here: Run, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(TIER)
    done = ident_here("bench", "--suite", "kitti-masks", "--tier", "short.toml")
    assert done.returncode == 2
    assert "is not there; type ident pull kitti-masks, or --source walkers for stand-ins" in done.stderr


def test_stand_ins_have_no_papers_numbers() -> None:
    for name in ("natural-sprites", "natural-sprites-continuous", "kitti-masks"):
        rows = load_suite(name).rows
        stand_ins = [row for row in rows if row.source.name in ("walkers", "smooth-tracks")]
        assert stand_ins
        for row in rows:
            assert row.id.startswith("stand-in") == (row in stand_ins) == (not row.paper), row.id


def test_a_report_shows_what_decoders_make(ident_here: Run, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(TIER)
    (tmp_path / "mine.toml").write_text(
        'title = "Mine"\nmetrics = ["mcc"]\naverage = "median"\n[[rows]]\nid = "one"\nsource = "dsprites"\n'
        'pairs = "laplace-change"\nobjective = "slow-vae"\nspace = "unbounded"\nkinds = ["unsupervised"]\n'
        "paper = { unsupervised = { mcc = [50.0] } }\n"
    )
    options = "--suite", "mine.toml", "--tier", "short.toml"
    done = ident_here("bench", *options, "--seeds", 2)
    assert done.returncode == 0, done.stderr
    assert "slow-vae" in done.stdout
    done = ident_here("report", "results", "--suite", "mine.toml")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report" / "index.html").read_text()
    for text in ("Walks along each latent through the decoder", "what the decoder makes of their latents", "50.00"):
        assert text in page
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert {"mine-short-0-reconstructions.png", "mine-short-0-traversals.png"} <= names
    assert "Importance of each output for each factor" in page
    assert "mcc in percent, 1 of 1 rows. ± is the median absolute deviation over seeds;" in page
    assert "mine-short-0-importance.png" in names
