"""Numbers and bytes that stay as they are: of a rendered dataset, pairs, the first steps of trainings, and scores.

`python -m tests.golden` wrote what they are compared with, once. On a machine of another kind, whose arithmetic differs
in the last digits, they may differ by a little.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import golden
from tests.conftest import Run

PINNED: dict[str, Any] = json.loads((golden.FOLDER / "golden.json").read_text())
SAME_MACHINE = PINNED["machine"] == golden.machine()
NEAR: dict[str, Any] = {"rel": 1e-5, "abs": 1e-6} if SAME_MACHINE else {"rel": 0.02, "abs": 0.02}


def run_by(ident: Run) -> golden.Command:
    def run(*words: object) -> None:
        ended = ident(*words)
        assert ended.returncode == 0, ended.stderr

    return run


def compare(value: Any, pinned: Any) -> None:
    """Numbers by how near they are, all else by what it is."""
    if isinstance(pinned, dict):
        assert set(value) == set(pinned)
        for name in pinned:
            compare(value[name], pinned[name])
    elif isinstance(pinned, list):
        assert len(value) == len(pinned)
        for one, other in zip(value, pinned, strict=True):
            compare(one, other)
    else:
        assert value == (pytest.approx(pinned, **NEAR) if isinstance(pinned, float) else pinned)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_dataset_of_then_is_read(split: str) -> None:
    assert golden.digests(golden.columns(golden.FOLDER / split)) == PINNED["datasets"][split]


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_same_dataset_is_rendered(ident: Run, tmp_path: Path, split: str) -> None:
    golden.render(run_by(ident), split, tmp_path / "data")
    rendered, pinned = golden.columns(tmp_path / "data"), golden.columns(golden.FOLDER / split)
    assert list(rendered) == list(pinned)
    for name, rows in rendered.items():
        if SAME_MACHINE or name in ("latents", "index", "positive_latents"):
            assert np.array_equal(rows, pinned[name]), name
        else:
            away = np.abs(rows.astype(np.float64) - pinned[name])
            assert np.median(away) <= (1 if rows.dtype == np.uint8 else 0.01), name


@pytest.mark.parametrize("name", golden.PAIRS)
def test_the_same_pairs_are_drawn(ident_here: Run, tmp_path: Path, name: str) -> None:
    pairs = golden.pairs(run_by(ident_here), name, tmp_path)
    with np.load(golden.FOLDER / "pairs.npz") as pinned:
        assert {f"{name}: {column}" for column in pairs} == {
            column for column in pinned if column.startswith(f"{name}: ")
        }
        for column, rows in pairs.items():
            before = pinned[f"{name}: {column}"]
            assert rows.dtype == before.dtype
            np.testing.assert_allclose(rows, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suite", golden.BENCHED)
def test_the_same_steps_are_taken(ident: Run, tmp_path: Path, suite: str) -> None:
    compare(golden.benched(run_by(ident), suite, tmp_path), PINNED["benched"][suite])


def test_the_same_scores_are_taken() -> None:
    compare(golden.scores(), PINNED["scores"])
