"""Results as they lie in a folder of a tier, a JSON file a run with what was recovered beside it: read and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from ident.benchmark.metrics.scores import METRICS
from ident.benchmark.suites.data import Data
from ident.benchmark.suites.rows import SUITES, Row, Suite, load_suite
from ident.benchmark.suites.runs import Run, shared_row, shared_run
from ident.benchmark.suites.tiers import Tier
from ident.benchmark.training.train import differing, is_number
from ident.render.errors import Failed, Impossible
from ident.render.store.files import read

RESULT, RECOVERED, NEIGHBOURS = "result.json", "recovered.npz", "neighbours.png"
"""Of a run: its scores; latents and what is recovered of them; the nearest images."""

FORMAT = 3
"""Of results."""

LARGEST_RESULT = 2**22  # bytes
DEEPEST, FURTHEST, LONGEST = 10, 1e100, 255
"""Levels of lists and objects in a result, numbers (whose squares are finite) and names."""

Result = Mapping[str, Any]
"""A run's, as its file has it."""

FOLDER = "folder"
"""Where a result lies: those of `load_all` have it beside what the file has."""

RUN = ("suite", "tier", "row", "own", "kind", "seed")
"""What a result says of the run that it is of."""

Warn = Callable[[str], object]


def recipe_of(run: Run, **more: str) -> str:
    """All that decides a run, and more, as its files have it."""
    return json.dumps({**run.recipe, **more}, sort_keys=True)


def result_of(run: Run, folder: Path) -> Result | None:
    """The result of a run, if it is done. Another run's result of that name is refused."""
    path = folder / run.name / RESULT
    if not path.exists():
        return None
    try:
        result = load(path)
    except Failed as error:
        raise Failed(f"{error}; delete it to run that again") from error
    except Impossible as error:
        raise Impossible(f"{error}; give another --out") from error
    if other := difference(result, run):
        raise Impossible(f"{path}: {other}; give another --out, or --force")
    return result


def difference(result: Result, run: Run) -> str:
    """What a result has otherwise than a run's would have; nothing where it is that run's."""
    recipe = recipe_of(run)
    return "" if result["recipe"] == recipe else f"belongs to another run, {differing(result['recipe'], recipe)}"


def load(path: Path) -> Result:
    """A result as it lies in a file; what is none, is damaged, or is of another format, is refused."""
    try:
        result: Result = json.loads(read(path, LARGEST_RESULT))
        made_by = result["format"]
        if type(made_by) is not int:
            raise ValueError(f"format {made_by!r}")
        if made_by == FORMAT:
            check(result)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise Failed(f"{path}: is damaged, or no result ({why})") from error
    if made_by != FORMAT:
        what = "run it again, or read it by the version that wrote it" if made_by < FORMAT else "take a newer one"
        raise Impossible(f"{path}: is of format {made_by!r}, this version of ident reads {FORMAT}; {what}")
    return result


def load_all(paths: Iterable[Path], warn: Warn) -> list[Result]:
    """The results in these files. What is no result, or one more of the same run, is left out with a warning."""
    results = dict[tuple[object, ...], Result]()
    for path in paths:
        try:
            result = load(path)
        except (Failed, Impossible) as error:
            warn(f"{error}; left out")
            continue
        run = tuple(result[name] for name in RUN)
        if run in results:
            warn(f"{path}: is the same run as {results[run][FOLDER]}; left out")
        else:
            results[run] = {**result, FOLDER: path.parent}
    return list(results.values())


def check(result: Result) -> None:
    """Refuse what is not the result of a run of a suite, with all that reports read, of the right kind."""
    check_depth(result)
    row = check_run(result)
    for name, score in ((name, split[name]) for split in result["scores"].values() for name in METRICS):
        numbers = [score[key] for key in ("value", "low", "high", "chance")] + score["per_latent"]
        if len(score["per_latent"]) != row.dim or not all(
            isinstance(number, float) and -FURTHEST <= number <= 1 + 1e-6 for number in numbers
        ):
            raise ValueError(f"its {name} is no score of {row.dim} latents")
    if len(result["learned"]) not in (0, learns(row)):
        raise ValueError("it has learned what its row does not")
    points = result["history"]
    values = [value for point in points for value in point.values()]
    if not all(
        is_number(value) and abs(value) <= FURTHEST for value in (result["seconds"], *result["learned"], *values)
    ):
        raise ValueError("its numbers are none")
    for point in points:
        point["loss"], point["r2"], point["mcc"]
        if set(point) != set(points[0]) or type(point["step"]) is not int or not 0 <= point["step"] < 2**53:
            raise ValueError("its history is none")
    recipe = json.loads(result["recipe"])
    check_depth(recipe)
    if not isinstance(recipe, dict) or not all(is_name(recipe.get(name, "")) for name in ("loss", "encoder")):
        raise ValueError("its recipe is none")
    setting = json.loads(json.dumps(row.setting(result["kind"])))
    for name in set(setting) - {"loss"}:  # which may be the user's
        if recipe[name] != setting[name]:
            raise ValueError(f"its {name} is {recipe[name]!r}, that of row {row.id} {setting[name]!r}")
    result["machine"]["ident"]
    if not (isinstance(result["data"], dict) and isinstance(result["machine"], dict)):
        raise ValueError("its data or its machine are none")
    for split in {"test"} | {"train"} & set(result["data"]):
        result["scores"][split]


def check_run(result: Result) -> Row:
    """The row that a result is of, if there is such a run."""
    suites = [suite for suite in map(load_suite, SUITES) if suite.folder == result["suite"]]
    kind, seed = result["kind"], result["seed"]
    rows = {row.id: row for row in suites[0].rows} if suites else {}
    if result["row"] not in rows:
        raise ValueError(f"nobody knows row {result['row']!r} of suite {result['suite']!r}")
    row = rows[result["row"]]
    if kind not in row.kinds or type(seed) is not int or not 0 <= seed < 2**64:
        raise ValueError(f"kind {kind!r}, seed {seed!r}")
    if not is_name(result["own"]) or not re.fullmatch(r"\w[\w.-]{0,99}", result["tier"]):
        raise ValueError(f"own {result['own']!r}, tier {result['tier']!r}")
    if not all(set(METRICS) == set(split) for split in result["scores"].values()):
        raise ValueError("its scores are others")
    if {suite.split for suite in suites} - set(result["scores"]) or set(result["scores"]) - {"test", "train"}:
        raise ValueError("its splits are others")
    return row


def check_depth(value: Any, levels: int = DEEPEST) -> None:
    """Refuse lists and objects that lie deeper in each other than any result's."""
    if not levels:
        raise ValueError(f"it is deeper than {DEEPEST} levels")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_depth(one, levels - 1)


def is_name(value: Any) -> bool:
    """Whether a value may be the name of a loss or an encoder: a line of text."""
    return isinstance(value, str) and len(value) <= LONGEST and value.isprintable()


def learns(row: Row) -> int:
    """How many precisions a row's loss has."""
    return {"aninfonce": 1, "ensemble": 1 + len(row.others)}.get(row.loss, 0) * row.dim


def of_tier(suite: Suite, tier: Tier, folder: Path, data: Mapping[str, Data], warn: Warn) -> list[Result]:
    """What is done of a suite by a tier and on these data, of each kind as far as seeds go without a gap.

    And what is there with a loss or an encoder of the user's, whatever else it was made by. What lies there and is
    none of these is left out with a warning.
    """
    tables, results = dict[tuple[object, ...], Result](), list[Result]()
    for result in load_all(sorted(folder.glob(f"*/{RESULT}")), warn):
        if (result["suite"], result["tier"]) != (suite.folder, tier.name):
            warn(f"{result[FOLDER]}: is of {result['suite']}, tier {result['tier']}; left out")
        elif result["own"]:
            results.append(result)
        else:
            tables[result["row"], result["kind"], result["seed"]] = result
    own_runs = [(row, kind) for row in suite.rows for kind in row.kinds if shared_row(suite, row, kind) is row]
    for row, kind in own_runs:
        for seed in count():
            run = shared_run(suite, row, kind, seed, tier, data)
            if run.own or (row.id, kind, seed) not in tables:
                break
            result = tables[row.id, kind, seed]
            if other := difference(result, run):
                warn(f"{result[FOLDER]}: {other}; left out")
                break
            results.append(result)
    return results
