"""Results as they lie in a folder of a tier, a JSON file a run with what was recovered beside it: read and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ident.benchmark.metrics import METRICS, Score
from ident.benchmark.metrics.lookup import CHECKS, known
from ident.benchmark.registry import read_slot
from ident.benchmark.suites.rows import MOST_FACTORS, Row
from ident.benchmark.suites.suite import NAME, SPLITS, Suite, load_suite, names
from ident.render import plugins
from ident.render.errors import Failed, Impossible
from ident.render.store.files import read

RESULT, RECOVERED, NEIGHBOURS = "result.json", "recovered.npz", "neighbours.png"
"""The files of a run: its scores; latents and what is recovered of them; the nearest images."""
RECORDS = "results.jsonl"
"""The file of many runs, a line each, that has all results whole."""
DECODED = {
    "reconstructions.png": "Images, and what the decoder makes of their latents",
    "traversals.png": "Walks along each latent through the decoder, the one that varies most first",
    "views.png": "Views of an image, what the decoder makes of them, and how all its views lie along each latent",
}
"""Pictures of a run with a decoder, by name, and what they show; the last one if the run's pairs are views."""

FORMAT = 3
"""The version of what is written of a result."""

LARGEST, LARGEST_RECORDS = 2**22, 2**26  # bytes
DEEPEST, FURTHEST, LONGEST = 10, 1e100, 255
"""Levels of lists and objects in a result, numbers (whose squares are finite) and names."""

Warn = Callable[[str], object]
T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """What a run came to, and what it was a run of."""

    suite: str
    tier: str
    row: str
    """The id of the first row that has it."""
    own: str
    """What the user has in it that the table has not: a loss, an encoder."""
    kind: str
    seed: int
    recipe: str
    """All that decides the run, as JSON."""
    factors: tuple[str, ...]
    """The names of what was to be recovered."""
    scores: Mapping[str, Mapping[str, Score]]
    """By split and metric."""
    learned: tuple[float, ...]
    """Precisions of the loss, in the order of what is recovered; each loss's in turn."""
    history: tuple[Mapping[str, float], ...]
    """At each look of the training: the step, the loss, scores, and precisions as they were."""
    seconds: float
    data: Mapping[str, str]
    """Where the dataset of each split lay."""
    machine: Mapping[str, Any]
    folder: Path | None = None
    """Where the result lies, if it was read there."""

    @property
    def run(self) -> tuple[str, str, str, str, str, int]:
        """Which run it is of."""
        return self.suite, self.tier, self.row, self.own, self.kind, self.seed

    @property
    def latents(self) -> int:
        """How many it recovers: what a projector gives, what its tier says, or as many as there are factors."""
        settings = self.settings
        projector = settings.get("projector") or [settings.get("latents") or len(self.factors)]
        return int(projector[-1])

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides the run."""
        decided: dict[str, Any] = json.loads(self.recipe)
        return decided

    def text(self) -> str:
        """The result as its file has it."""
        content = {name: value for name, value in asdict(self).items() if name != "folder"}
        return json.dumps({"format": FORMAT, **content}, indent=1)


FIELDS = tuple(item.name for item in fields(Result) if item.name != "folder")


def load(path: Path, suites: Mapping[str, Suite] | None = None) -> Result:
    """The result in a file. What is none, is damaged, is of another format or of an unknown suite, is refused.

    Suites are ours, or by their names ours and users'.
    """
    with told(str(path)):
        return replace(result_of(json.loads(read(path, LARGEST)), suites), folder=path.parent)


def load_record(path: Path, number: int, line: bytes, suites: Mapping[str, Suite] | None = None) -> Result:
    """The result in a line of a file of records; its folder is the one that its run would have beside them."""
    with told(f"{path}, line {number}"):
        result = result_of(json.loads(line)["result"], suites)
        own = filter(None, result.own.split(", "))
        return replace(result, folder=path.parent / folder_name(result.row, own, result.kind, result.seed))


def folder_name(row: str, own: Iterable[str], kind: str, seed: int) -> str:
    """The name of the folder of a run's result."""
    return "-".join([row, *map(safe, own), kind, f"seed{seed}"])


def safe(name: str) -> str:
    """A name as a part of the name of a folder."""
    return re.sub(r"[^\w.]+", ".", name)


def result_of(content: dict[str, Any], suites: Mapping[str, Suite] | None) -> Result:
    """A result that somebody wrote, if this version reads its format."""
    made_by = content["format"]
    if type(made_by) is not int:
        raise ValueError(f"format {made_by!r}")
    if made_by != FORMAT:
        what = "run it again, or read it by the version that wrote it" if made_by < FORMAT else "take a newer one"
        raise Impossible(f"is of format {made_by!r}, this version of ident reads {FORMAT}; {what}")
    return checked(content, suites or known_suites())


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say of an error in what it is."""
    try:
        yield
    except Impossible as error:
        raise Impossible(f"{where}: {error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise Failed(f"{where}: is damaged, or no result ({why})") from error


def load_all(paths: Iterable[Path], warn: Warn, suites: Mapping[str, Suite] | None = None) -> list[Result]:
    """The results in files of one or of many. What is none, or one more of a run, is left out with a warning."""
    results = dict[tuple[object, ...], Result]()

    def tried(get: Callable[[], T]) -> T | None:
        try:
            return get()
        except (Failed, Impossible) as error:
            warn(f"{error}; left out")
            return None

    for path in paths:
        ways = [partial(load, path, suites)]
        if path.name == RECORDS:
            lines = tried(partial(lines_of, path)) or []
            ways = [partial(load_record, path, number, line, suites) for number, line in enumerate(lines, 1)]
        for result in filter(None, map(tried, ways)):
            if results.setdefault(result.run, result) != result:
                warn(f"{path}: is the same run as {results[result.run].folder}; left out")
    return list(results.values())


def lines_of(path: Path) -> list[bytes]:
    """The lines of a file of records."""
    with told(str(path)):
        return read(path, LARGEST_RECORDS).splitlines()


def known_suites(more: Sequence[Suite] = ()) -> dict[str, Suite]:
    """Our suites and more, by their names."""
    suites = {name: load_suite(name) for name in names()}
    for suite in more:
        if suites.setdefault(suite.name, suite) != suite:
            raise Impossible(f"suite {suite.name}: there are two of that name; give one")
    return suites


def checked(content: dict[str, Any], suites: Mapping[str, Suite]) -> Result:
    """A result as it stands in a file, if it is one of a row of a suite, with all that reports read, and bounded."""
    check_depth(content)
    content = {name: content[name] for name in FIELDS}
    row = check_run(content, suites)
    factors = content["factors"]
    if not isinstance(factors, list) or not 1 <= len(factors) <= MOST_FACTORS or not all(map(is_name, factors)):
        raise ValueError("its factors are none")
    if row.dim not in (None, len(factors)):
        raise ValueError(f"it has {len(factors)} factors, row {row.id} {row.dim}")
    scores = {
        split: {metric: checked_score(metric, score, len(factors)) for metric, score in metrics.items()}
        for split, metrics in content["scores"].items()
    }
    check_history(content["history"])
    check_scores(content, scores, [suite for suite in suites.values() if suite.folder == content["suite"]])
    if not isinstance(content["learned"], list) or not all(map(is_number, (content["seconds"], *content["learned"]))):
        raise ValueError("its numbers are none")
    check_recipe(content, row)
    data, machine = content["data"], content["machine"]
    if not isinstance(data, dict) or not isinstance(machine, dict) or "ident" not in machine:
        raise ValueError("its data or its machine are none")
    if lacking := {"test", *({"train"} & set(data))} - set(scores):
        raise KeyError(*lacking)
    content |= {"scores": scores, "factors": tuple(factors)}
    result = Result(**content | {name: tuple(content[name]) for name in ("learned", "history")})
    if len(result.learned) not in (0, learns(row) * result.latents):
        raise ValueError("it has learned what its row does not")
    return result


def check_run(content: Mapping[str, Any], suites: Mapping[str, Suite]) -> Row:
    """The row that a result is of, if there is such a run."""
    suite, kind, seed = content["suite"], content["kind"], content["seed"]
    if not isinstance(suite, str) or not NAME.fullmatch(suite):
        raise ValueError(f"suite {suite!r}")
    if suite not in suites:
        raise Impossible(f"is of suite {suite}, which is none of {', '.join(suites)}; give its file by --suite")
    rows = {row.id: row for row in suites[suite].rows}
    if content["row"] not in rows:
        raise ValueError(f"nobody knows row {content['row']!r} of suite {suite}")
    row = rows[content["row"]]
    if kind not in row.kinds or type(seed) is not int or not 0 <= seed < 2**64:
        raise ValueError(f"kind {kind!r}, seed {seed!r}")
    if not is_name(content["own"]) or not re.fullmatch(NAME, content["tier"]):
        raise ValueError(f"own {content['own']!r}, tier {content['tier']!r}")
    return row


def checked_score(metric: str, score: Mapping[str, Any], dim: int) -> Score:
    """A score as it stands in a file, if it is one of so many factors by this metric."""
    ours = known(metric)
    low, high = ours.range
    numbers = Score(**{item.name: score[item.name] for item in fields(Score)})
    every = [numbers.value, numbers.low, numbers.high, numbers.chance, *numbers.per_latent]
    lengths = {True: (dim,), False: (0,), None: (0, dim)}[ours.per_factor]
    if not is_name(metric) or len(numbers.per_latent) not in lengths:
        raise ValueError(f"its {metric} is no score of {dim} latents")
    if not all(
        isinstance(number, float) and is_number(number) and low - 1e-6 <= number <= high + 1e-6 for number in every
    ):
        raise ValueError(f"its {metric} is no score from {low:g} to {high:g}")
    return replace(numbers, per_latent=tuple(numbers.per_latent))


def check_scores(
    content: Mapping[str, Any], scores: Mapping[str, Mapping[str, Score]], suites: Sequence[Suite]
) -> None:
    """Refuse scores without those that its suites report, or of splits or metrics that nobody knows."""
    if set(scores) - set(SPLITS):
        raise ValueError("its splits are others")
    lacking = {
        f"{suite.split} {metric}" for suite in suites for metric in set(suite.metrics) - set(scores[suite.split])
    }
    reported = {metric for suite in suites for metric in suite.metrics}
    others = {metric for split in scores.values() for metric in split} - {*METRICS, *CHECKS, *reported}
    if lacking or others:
        raise ValueError(f"it has no {', no '.join(sorted(lacking))}" if lacking else f"nobody knows {min(others)}")
    for point in content["history"]:
        for suite in suites:
            point[suite.metrics[0]]


def check_history(points: Any) -> None:
    """Refuse what is no list of looks at a training, each with the same numbers."""
    for point in points:
        point["loss"]
        if not all(map(is_name, point)) or not all(map(is_number, point.values())):
            raise ValueError("its history has what is no number")
        if set(point) != set(points[0]) or type(point["step"]) is not int or not 0 <= point["step"] < 2**53:
            raise ValueError("its history is none")


def check_recipe(content: Mapping[str, Any], row: Row) -> None:
    """Refuse a recipe that is none, or none of this row."""
    recipe = json.loads(content["recipe"])
    check_depth(recipe)
    if not isinstance(recipe, dict) or not all(is_name(recipe.get(name, "")) for name in ("objective", "encoder")):
        raise ValueError("its recipe is none")
    if plugins.is_one(recipe.get("objective", "")):
        read_slot(recipe["objective"])
    setting = json.loads(json.dumps(row.setting(content["kind"])))
    for name in setting:
        if name != "objective" and recipe[name] != setting[name]:  # which may be the user's
            raise ValueError(f"its {name} is {recipe[name]!r}, that of row {row.id} {setting[name]!r}")


def check_depth(value: Any, levels: int = DEEPEST) -> None:
    """Refuse lists and objects that lie deeper in each other than any result's."""
    if not levels:
        raise ValueError(f"it is deeper than {DEEPEST} levels")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_depth(one, levels - 1)


def is_name(value: Any) -> bool:
    """Whether a value may be the name of a loss, an encoder or a factor: a line of text."""
    return isinstance(value, str) and len(value) <= LONGEST and value.isprintable()


def is_number(value: Any) -> bool:
    """Whether a value is a number that plots can show."""
    return type(value) in (int, float) and abs(value) <= FURTHEST


def learns(row: Row) -> int:
    """How many precisions of each factor a row's objective has."""
    return {"aninfonce": 1, "tricl": 1, "ensemble": len(row.conditionals)}.get(row.objective.name, 0)
