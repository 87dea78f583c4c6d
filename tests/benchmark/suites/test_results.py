"""Results: written and read to the same, and refused by one line where they are none, or of another format or suite."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from ident.benchmark.metrics import Score
from ident.benchmark.suites.results import Result, known_suites, load, load_all
from ident.benchmark.suites.suite import Suite, load_suite, names
from ident.render.errors import Failed, Impossible

SUITE = """
title = "Mine"
metrics = ["r2", "mine:own"]
[[rows]]
id = "a-row"
source = "mixed(sphere(2), uniform)"
pairs = "drawn(vmf(10))"
space = "sphere"
objective = "infonce(vmf)"
kinds = ["identity"]
"""
R2 = Score(0.5, (0.25, 0.75), 0.25, 0.75, -0.125)
OWN = Score(12.5, (), 12.0, 13.0, 0.0)


@pytest.fixture
def mine(tmp_path: Path) -> Suite:
    (tmp_path / "my-suite.toml").write_text(SUITE)
    return load_suite(str(tmp_path / "my-suite.toml"))


@pytest.fixture
def result(mine: Suite, tmp_path: Path) -> Result:
    """A result of a user's suite, which reports a metric of theirs, as it lies in a file."""
    recipe = json.dumps(mine.rows[0].setting("identity"))
    scores = {"test": {"r2": R2, "mine:own": OWN}}
    point = {"step": 1, "loss": 0.5, "r2": 0.25}
    run = ("my-suite", "quick", "a-row", "", "identity", 0)
    return Result(*run, recipe, ("x", "y"), scores, (), (point,), 1.5, {}, {"ident": "0.1.0"}, tmp_path)


def write(result: Result, folder: Path, **changes: Any) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(json.loads(result.text()) | changes))
    return path


def test_what_is_written_is_read(result: Result, mine: Suite, tmp_path: Path) -> None:
    read = load(write(result, tmp_path), known_suites([mine]))
    assert read == result
    assert read.run == ("my-suite", "quick", "a-row", "", "identity", 0)
    assert read.scores["test"]["r2"] == R2
    assert read.settings["source"] == "mixed(sphere(2), uniform)"
    with pytest.raises(FrozenInstanceError):
        read.seed = 1  # type: ignore[misc]


def test_a_result_of_a_suite_that_was_not_given(result: Result, tmp_path: Path) -> None:
    warned = list[str]()
    path = write(result, tmp_path)
    assert load_all([path], warned.append) == []
    assert warned == [
        f"{path}: is of suite my-suite, which is none of {', '.join(names())}; give its file by --suite; left out"
    ]


def test_suites_of_one_name(mine: Suite) -> None:
    assert known_suites([mine, mine])["my-suite"] == mine
    with pytest.raises(Impossible, match=r"^suite my-suite: there are two of that name; give one$"):
        known_suites([mine, replace(mine, title="Other")])


@pytest.mark.parametrize(
    ("format", "says"),
    [
        (2, "is of format 2, this version of ident reads 3; run it again, or read it by the version that wrote it"),
        (4, "is of format 4, this version of ident reads 3; take a newer one"),
    ],
)
def test_other_formats(result: Result, mine: Suite, tmp_path: Path, format: int, says: str) -> None:
    path = write(result, tmp_path, format=format, row=1)
    with pytest.raises(Impossible) as error:
        load(path, known_suites([mine]))
    assert str(error.value) == f"{path}: {says}"


def scores(**changes: Any) -> dict[str, Any]:
    """The scores with some of R2's changed."""
    r2 = json.loads(json.dumps(vars(R2))) | changes
    return {"test": {"r2": r2, "mine:own": vars(OWN)}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"row": 1}, "nobody knows row 1 of suite my-suite"),
        ({"row": "../../x"}, "nobody knows row '../../x' of suite my-suite"),
        ({"row": ["a-row"]}, "unhashable"),
        ({"suite": "../x"}, "suite '../x'"),
        ({"suite": 3}, "suite 3"),
        ({"kind": "supervised"}, "kind 'supervised', seed 0"),
        ({"seed": -1}, "kind 'identity', seed -1"),
        ({"seed": 0.0}, "seed 0.0"),
        ({"tier": ".."}, "tier '..'"),
        ({"factors": ["x"]}, "it has 1 factors, row a-row 2"),
        ({"factors": ["x", "\x1b[2J"]}, "its factors are none"),
        ({"factors": "xy"}, "its factors are none"),
        ({"factors": ["x"] * 10_000}, "its factors are none"),
        ({"scores": scores(per_latent=[0.5])}, "its r2 is no score of 2 latents"),
        ({"scores": scores(per_latent=[0.5, "x"])}, "its r2 is no score from -inf to 1"),
        ({"scores": scores(value=1.5)}, "its r2 is no score from -inf to 1"),
        ({"scores": scores(low=-1e300)}, "its r2 is no score from -inf to 1"),
        ({"scores": scores(chance=float("nan"))}, "its r2 is no score from -inf to 1"),
        ({"scores": scores(chance=True)}, "its r2 is no score from -inf to 1"),
        ({"scores": {"test": {"r2": scores()["test"]["r2"]}}}, "it has no test mine:own"),
        ({"scores": {**scores(), "train": {"likelihood": vars(R2)}}}, "nobody knows likelihood"),
        ({"scores": {**scores(), "../x": {}}}, "its splits are others"),
        ({"scores": {}}, "no 'test'"),
        ({"scores": []}, "items"),
        ({"data": {"train": "data/x"}}, "no 'train'"),
        ({"learned": [1.0]}, "it has learned what its row does not"),
        ({"seconds": float("inf")}, "its numbers are none"),
        ({"history": [{"step": 1, "loss": 0.5, "mcc": 0.5}]}, "no 'r2'"),
        ({"history": [{"step": 1, "r2": 0.5}]}, "no 'loss'"),
        ({"history": [{"step": 1, "loss": 0.5, "r2": [0.5]}]}, "its history has what is no number"),
        ({"history": [{"step": 1, "loss": 0.5, "r2": 0.5}, {"step": 2, "loss": 1}]}, "its history is none"),
        ({"recipe": "[" * 100_000}, "recursion"),
        ({"recipe": "{}"}, "no 'kind'"),
        ({"recipe": {}}, "must be str"),
        ({"machine": {}}, "its data or its machine are none"),
        ({"machine": {"ident": [[[[[[[[[[[]]]]]]]]]]]}}, "it is deeper than 10 levels"),
    ],
)
def test_what_is_none(result: Result, mine: Suite, tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    path = write(result, tmp_path, **changes)
    with pytest.raises(Failed) as error:
        load(path, known_suites([mine]))
    assert str(error.value).startswith(f"{path}: is damaged, or no result (")
    assert says in str(error.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"own": ""', '"owner": ""'),
        lambda text: text.replace('"format": 3', '"format": true'),
        lambda text: text.replace('"format": 3', '"format": [3]'),
        lambda text: text[:-5],
        lambda _: "[" * 100_000,
        lambda _: "null",
    ],
)
def test_files_that_are_none(result: Result, mine: Suite, tmp_path: Path, damage: Callable[[str], str]) -> None:
    path = write(result, tmp_path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(Failed, match="is damaged, or no result"):
        load(path, known_suites([mine]))
