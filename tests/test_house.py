"""The test of the house: a world, pairs, an objective, a metric and a suite, all in two files of a user's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ident.render.store.dataset import Dataset
from tests.conftest import Run
from tests.discs import DISCS

METHODS = '''
def close(latents, size, width, *, rng):
    """Anchors, and of each one of the images that are no further than a width in x and y."""
    anchors = rng.integers(len(latents), size=size)
    away = np.abs(latents[anchors, None, :2] - latents[None, :, :2]).max(2)
    return anchors, (rng.random(away.shape) * (away < width)).argmax(1)


def spread(anchor, positive):
    """Positives together, all anchors apart."""
    return (anchor - positive).square().sum(1).mean() - anchor.var(0).sum().sqrt()


def errors(latents, representation):
    """The share of the variance of each factor that no affine map of the representation explains."""
    centred = latents - latents.mean(0)
    rest = centred - representation @ np.linalg.lstsq(representation, centred, rcond=None)[0]
    return 1 - (rest**2).sum(0) / (centred**2).sum(0)
'''
SUITE = """
title = "Discs, by their neighbours"
metrics = ["discs:errors", "r2"]

[every_row]
source = "dataset"
pairs = "discs:close(0.2)"
space = "unbounded"
kinds = ["unsupervised"]

[[rows]]
id = "spread"
objective = "discs:spread"

[[rows]]
id = "infonce"
objective = "infonce(normal)"
"""
TIER = """
samples = 40
model = { encoder = "resnet18" }
supervised = { steps = 3, batch_size = 16, learning_rate = 1e-3 }
unsupervised = { steps = 3, batch_size = 16, learning_rate = 1e-3, looks = 1 }
"""


def test_few_lines_are_enough() -> None:
    lines = [line for line in (DISCS + METHODS + SUITE).splitlines() if line.strip()]
    assert len(lines) <= 120
    assert len(lines) <= 56  # which it takes today


def test_five_of_ones_own(ident: Run, ident_here: Run, tmp_path: Path) -> None:
    def run(*words: object) -> str:
        ended = (ident if "render" in words else ident_here)(*words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    (tmp_path / "discs.py").write_text(DISCS + METHODS)
    (tmp_path / "mine.toml").write_text(SUITE)
    (tmp_path / "short.toml").write_text(TIER)
    small = "--world", "discs.py:world", "--size", 32
    run("render", *small, "--n", 64, "--out", "train")
    run("render", *small, "--n", 40, "--split", "test", "--out", "test")
    assert Dataset(tmp_path / "train").names == ("x", "y", "turn", "colour")
    assert "colour: one of red, green, blue" in run("info", "train")
    assert "4 identical" in run("verify", "train", "--rerender", 4, "--world", "discs.py:world")
    said = run("pairs", "train", "--latents", "x,y", "--conditional", "normal(0.2)", "--n", 50)
    assert "normal(0.2)" in said
    benched = json.loads(run("bench", "train", "--test-data", "test", "--suite", "mine.toml", "--tier", "short.toml",
                             "--trust", "--json"))  # fmt: skip
    rows = {row["row"]: row["unsupervised"] for row in benched["rows"]}
    assert set(rows) == {"spread", "infonce"}
    assert set(rows["spread"]) == {"discs:errors", "r2"}
    place = tmp_path / "results" / "mine" / "short" / "spread-unsupervised-seed0"
    result = json.loads((place / "result.json").read_text())
    assert result["factors"] == ["x", "y", "turn", "colour"]
    with np.load(place / "recovered.npz") as arrays:
        latents, representation = arrays["latents"], arrays["recovered"]
    scope: dict[str, object] = {}
    exec(DISCS + METHODS, scope)
    each = scope["errors"](latents, representation)  # type: ignore[operator]
    assert result["scores"]["test"]["discs:errors"]["per_latent"] == pytest.approx(each.tolist(), rel=1e-4)
    run("report", "results", "--suite", "mine.toml")
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Discs, by their neighbours" in page
    assert "discs:errors" in page
