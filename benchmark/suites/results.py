"""Results as they lie in a folder of a tier, a JSON file a run with what was recovered beside it: read and checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any

from ident.benchmark.metrics import METRICS
from ident.benchmark.suites.data import Data
from ident.benchmark.suites.rows import Suite
from ident.benchmark.suites.runs import Run, shared_run
from ident.benchmark.suites.tiers import Tier
from ident.benchmark.train import differing, is_number
from ident.render.errors import Failed, Impossible
from ident.render.storage import read

RESULT, RECOVERED, NEIGHBOURS = "result.json", "recovered.npz", "neighbours.png"
"""Of a run: its scores; latents and what is recovered of them; the nearest images."""

FORMAT = 2
"""Of results."""

LARGEST_RESULT = 2**22  # bytes

Result = Mapping[str, Any]
"""A run's, as its file has it."""


def recipe_of(run: Run, **more: str) -> str:
    """All that decides a run, and more, as its files have it."""
    return json.dumps({**run.recipe, **more}, sort_keys=True)


def result_of(run: Run, folder: Path) -> Result | None:
    """The result of a run, if it is done. Another run's result of that name is refused."""
    path = folder / run.name / RESULT
    if not path.exists():
        return None
    try:
        result = load(path, lambda _: run.row.dim)
    except Failed as error:
        raise Failed(f"{error}; delete it to run that again") from error
    except Impossible as error:
        raise Impossible(f"{error}; give another --out") from error
    if result["recipe"] != recipe_of(run):
        theirs = differing(result["recipe"], recipe_of(run))
        raise Impossible(f"{path}: belongs to another run, {theirs}; give another --out, or --force")
    return result


def load(path: Path, dim_of: Callable[[Result], int]) -> Result:
    """A result as it lies in a file; damaged ones and those of other formats are refused.

    `dim_of` says of how many latents it is, or raises a ValueError that says why it is none.
    """
    try:
        result: Result = json.loads(read(path, LARGEST_RESULT))
        made_by = result["format"]
        if type(made_by) is not int:
            raise ValueError(f"format {made_by!r}")
        if made_by == FORMAT:
            check(result, dim_of(result))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        raise Failed(f"{path}: is damaged ({error})") from error
    if made_by != FORMAT:
        raise Impossible(f"{path}: is of format {made_by!r}, this version of ident reads {FORMAT}")
    return result


def check(result: Result, dim: int) -> None:
    """Whether all is there that reports read, of the right kind."""
    for name, score in ((name, split[name]) for split in result["scores"].values() for name in METRICS):
        numbers = [score[key] for key in ("value", "low", "high", "chance")] + score["per_latent"]
        if len(score["per_latent"]) != dim or not all(
            isinstance(number, float) and isfinite(number) for number in numbers
        ):
            raise ValueError(f"its {name} is no score of {dim} latents")
    numbers = [
        result["seconds"],
        *result["learned"],
        *(value for point in result["history"] for value in point.values()),
    ]
    if not all(is_number(number) and isfinite(number) for number in numbers) or len(result["learned"]) % dim:
        raise ValueError("its history is none")
    result["machine"]["ident"]
    for split in {"test"} | {"train"} & set(result["data"]):
        result["scores"][split]
    if not isinstance(json.loads(result["recipe"]), dict):
        raise ValueError("its recipe is none")
    for point in result["history"]:
        point["step"], point["loss"], point["r2"], point["mcc"]
        if set(point) != set(result["history"][0]):
            raise ValueError("its history is none")


def of_tier(suite: Suite, tier: Tier, folder: Path, data: Mapping[str, Data]) -> list[Result]:
    """What is done of a suite by a tier and on these data, of each kind as far as seeds go without a gap.

    And what is there with a loss or an encoder of the user's, whatever else it was made by.
    """
    found = dict[str, Result]()
    for row in suite.rows:
        for kind in row.kinds:
            for seed in count():
                run, result = shared_run(suite, row, kind, seed, tier, data), None
                with suppress(Failed, Impossible, OSError):  # of rows that nobody asked for: those were refused before
                    result = result_of(run, folder)
                if result is None:
                    break
                found[run.name] = result
        for path in sorted(folder.glob(f"row{row.number:02d}-*-*-seed*/{RESULT}")):
            with suppress(Failed, Impossible, LookupError, TypeError):
                result = load(path, lambda _, row=row: row.dim)  # type: ignore[misc]
                if result["own"]:
                    found[path.parent.name] = result
    return list(found.values())
