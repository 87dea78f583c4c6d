"""Which runs the rows of a suite need, and what is done of them.

There is one for each kind and seed, shared by the rows that agree in what decides it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from ident.benchmark.latents import distributions
from ident.benchmark.metrics import lookup
from ident.benchmark.registry import OBJECTIVES, PAIRS, SOURCES, Slot, takes
from ident.benchmark.sources.data import FILES, Data
from ident.benchmark.suites.results import RESULT, Result, Warn, folder_name, known_suites, load, load_all, safe
from ident.benchmark.suites.rows import UNTRAINED, Row
from ident.benchmark.suites.suite import BACKBONE, Suite
from ident.benchmark.suites.tiers import Tier
from ident.benchmark.training.checkpoints import differing
from ident.benchmark.training.schedule import Training
from ident.render import plugins
from ident.render.errors import Failed, Impossible

PIXELS = 4096
"""Images of which the identity's score is taken, a regression on all their pixels: as the authors' code has it."""


@dataclass(frozen=True)
class Run:
    """One seed of one kind of a row, in a tier."""

    suite: str
    row: Row
    kind: str
    seed: int
    tier: Tier
    data: Mapping[str, Data] = field(default_factory=dict)
    """The dataset of each split, of a suite of images; of published files where these lie."""
    reports: tuple[str, ...] = ()
    """The metrics of its suite."""
    checks: tuple[str, ...] = ()
    """What its suite tells of how far trainings are from theory."""

    @property
    def name(self) -> str:
        """The name of the folder of its result."""
        return folder_name(self.row.id, self.own, self.kind, self.seed)

    @property
    def own(self) -> list[str]:
        """What is not the table's, but the user's: an objective, an encoder."""
        names = [self.row.own * (self.kind == "unsupervised"), self.tier.model.encoder]
        return [safe(name) for name in names if plugins.is_one(name)]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of its scores; of pictures, of which no factors are known, those of its suite alone."""
        return self.reports if self.row.pictures else lookup.of_run(self.reports)

    @property
    def looks(self) -> tuple[str, ...]:
        """The metrics that are taken on the way."""
        return self.reports[:1] if self.row.pictures else lookup.on_the_way(self.reports)

    @property
    def training(self) -> Training:
        """How it is trained."""
        if self.kind != "unsupervised":
            return self.tier.supervised
        return replace(self.tier.unsupervised, **self.row.training_in(self.tier.name))

    @property
    def pairs(self) -> Slot:
        """What it is trained on."""
        return self.row.pairs if self.kind == "unsupervised" else Slot("labelled")

    @property
    def options(self) -> dict[str, Any]:
        """What its pairs take beside what the row says: of the tier's, those that they know."""
        known = takes(PAIRS.load(self.pairs.name))
        options = {name: value for name, value in self.tier.pairs.items() if name in known}
        own = self.row.pairs_in(self.tier.name) if self.kind == "unsupervised" else {}
        if unknown := sorted(set(own) - set(known)):
            where = f"row {self.row.id}, tiers, {self.tier.name}, pairs"
            raise Impossible(f"{where}: {self.pairs.name} takes no {', '.join(unknown)}; leave it out")
        return options | own

    @property
    def objective_options(self) -> dict[str, Any]:
        """What its objective takes of the tier's beside what the row says."""
        slot = self.row.slot(self.kind)
        if self.kind != "unsupervised" or not self.tier.objective or plugins.is_one(slot.name):
            return {}
        known, own = takes(OBJECTIVES.load(slot.name)), dict(slot.keywords)
        return {name: value for name, value in self.tier.objective.items() if name in known and name not in own}

    @property
    def samples(self) -> int:
        """How many samples its scores are taken of, if there are so many."""
        return PIXELS if self.kind == "identity" and self.row.stored else self.tier.samples

    @property
    def positives(self) -> str:
        """Where its positives come from: `exact`, `nearest`, `auto`; nothing of pairs that have no such choice."""
        named = dict(self.row.pairs.keywords)
        chosen = named.get("positives", self.options.get("positives")) if self.kind == "unsupervised" else None
        return str(chosen or ("auto" if "positives" in takes(PAIRS.load(self.pairs.name)) else ""))

    @property
    def side(self) -> float:
        """The side of the model's box at the start."""
        return self.tier.model.side if self.kind == "unsupervised" and self.row.source.name != "latents" else 1.0

    @property
    def projector(self) -> tuple[int, ...]:
        """The widths of what is between its encoder and its output, if there is such: the encoder's first."""
        return (self.tier.model.projector or ()) if self.kind != "supervised" else ()

    @property
    def has_backbone(self) -> bool:
        """Whether it is scored before its projector, too."""
        return bool(self.projector) and self.kind != "identity"

    @property
    def digest(self) -> str:
        """That of the files of others' that its source reads."""
        slot = self.row.source
        source: Any = SOURCES.load(slot.name)
        digest: str = source.digest(*slot.arguments, **dict(slot.keywords), data=self.data)
        return digest

    @property
    def recipe(self) -> dict[str, Any]:
        """All that decides the result."""
        model = self.tier.model
        trained: dict[str, Any] = {}
        if self.kind not in UNTRAINED:
            trained = {**self.training.described(), "whiten": model.whiten, "side": self.side}
        if self.kind == "unsupervised":
            trained |= {"options": self.options, **({"positives": self.positives} if self.positives else {})}
        shared: dict[str, Any] = {"seed": self.seed, "samples": self.samples, "encoder": model.encoder}
        names = [model.encoder, self.row.source.name]
        names += [self.row.pairs.name, self.row.objective.name] if self.kind == "unsupervised" else []
        names += self.reports
        shared["own"] = {name: plugins.digest(name) for name in names if plugins.is_one(name)}
        if self.kind == "unsupervised" and model.latents:
            trained["latents"] = model.latents
        if options := self.objective_options:
            trained["objective options"] = options
        if self.projector:
            shared["projector"] = self.projector
        data = {split: f"{one.size} x {one.size}, {one.digest}" for split, one in self.data.items() if split != FILES}
        if self.row.traits.files:
            data["file"] = self.digest
        if self.row.decoded and self.tier.decoder is not None:
            shared["decoder"] = asdict(self.tier.decoder)
        return {**self.row.setting(self.kind), **trained, **shared, "chunk": model.chunk, "data": data}


def runs_of(
    suite: Suite,
    rows: tuple[Row, ...],
    kinds: tuple[str, ...],
    seeds: int,
    tier: Tier,
) -> list[Run]:
    """All runs that these rows need. What rows share is one run, under the name of the first row that has it."""
    encoder = tier.model.encoder
    if plugins.is_one(encoder):
        plugins.load_callable(encoder)
    elif suite.images == (encoder == "mlp"):
        what = "no images" if encoder != "mlp" else "images"
        raise Impossible(f"encoder {encoder}: {suite.name} is of {what}; give another")
    if tier.model.projector and not suite.images:
        raise Impossible(f"projector: is put behind an encoder of images, and {suite.name} has none; leave it out")
    lookup.check(suite.metrics, set.intersection(*(set(row.has) for row in suite.rows)), suite.name)
    runs = dict[str, Run]()
    for seed in range(seeds):
        for row in rows:
            for kind in kinds:
                if kind in row.kinds:
                    run = shared_run(suite, row, kind, seed, tier)
                    runs.setdefault(run.name, run)
    if not runs:
        others = sorted({kind for row in rows for kind in row.kinds})
        raise Impossible(f"kind {', '.join(kinds)}: these rows have {', '.join(others)}")
    if suite.split == BACKBONE and not all(run.has_backbone for run in runs.values()):
        what = f"kind {', '.join(kinds)}" if tier.model.projector else f"tier {tier.name}"
        raise Impossible(
            f"{what}: {suite.name} scores what comes before a projector; give unsupervised runs, and a tier with one, "
            "like projector = [512, 512, 256]"
        )
    check_slots(suite, list(runs.values()), tier)
    return list(runs.values())


def exact_conditional(runs: Sequence[Run]) -> str | None:
    """The one conditional of the exact positives that these runs are to have; None if they have none."""
    texts = {
        str(distributions.parse(run.row.conditionals[0], run.tier.scale))
        for run in runs
        if run.kind == "unsupervised" and run.row.pairs.name == "around" and run.positives == "exact"
    }
    if len(texts) > 1:
        listed = ", ".join(sorted(texts))
        raise Impossible(f"exact pairs of {listed}: a dataset has those of one; name rows by --row, or --pairs nearest")
    return texts.pop() if texts else None


def check_slots(suite: Suite, runs: Sequence[Run], tier: Tier) -> None:
    """Refuse, before anything is trained, what cannot be imported, and what a tier gives to pairs that none takes."""
    known = set[str]()
    for run in runs:
        SOURCES.load(run.row.source.name)
        OBJECTIVES.load(run.row.slot(run.kind).name) if run.kind not in UNTRAINED else None
        known |= set(takes(PAIRS.load(run.pairs.name)))
    for row in suite.rows:
        if not plugins.is_one(row.pairs.name):
            known |= set(takes(PAIRS.load(row.pairs.name)))
    if tier.objective:
        objectives = (OBJECTIVES.load(name) for name in OBJECTIVES.entries)
        if unknown := sorted(set(tier.objective) - {name for one in objectives for name in takes(one)}):
            raise Impossible(f"objective of tier {tier.name}: none takes {', '.join(unknown)}; leave it out")
    if unknown := sorted(set(tier.pairs) - known):
        raise Impossible(f"pairs of tier {tier.name}: no row of {suite.name} takes {', '.join(unknown)}; leave it out")


def shared_run(suite: Suite, row: Row, kind: str, seed: int, tier: Tier, data: Mapping[str, Data] | None = None) -> Run:
    """The run that gives a row its score of a kind."""
    return Run(suite.folder, suite.sharing(row, kind)[0], kind, seed, tier, data or {}, suite.metrics, suite.checks)


def recipe_of(run: Run, **more: str) -> str:
    """All that decides a run, and more, as its files have it."""
    return json.dumps({**run.recipe, **more}, sort_keys=True)


def result_of(suite: Suite, run: Run, folder: Path) -> Result | None:
    """The result of a run of a suite, if it is done. Another run's result of that name is refused."""
    path = folder / run.name / RESULT
    if not path.exists():
        return None
    try:
        result = load(path, known_suites([suite]))
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
    return "" if result.recipe == recipe else f"belongs to another run, {differing(result.recipe, recipe)}"


def of_tier(suite: Suite, tier: Tier, folder: Path, data: Mapping[str, Data], warn: Warn) -> list[Result]:
    """What is done of a suite by a tier and on these data, of each kind as far as seeds go without a gap.

    And what is there with a loss or an encoder of the user's, whatever else it was made by. What lies there and is
    none of these is left out with a warning.
    """
    plain, results = dict[tuple[object, ...], Result](), list[Result]()
    for result in load_all(sorted(folder.glob(f"*/{RESULT}")), warn, known_suites([suite])):
        if (result.suite, result.tier) != (suite.folder, tier.name):
            warn(f"{result.folder}: is of {result.suite}, tier {result.tier}; left out")
        elif result.own:
            results.append(result)
        else:
            plain[result.row, result.kind, result.seed] = result
    own_runs = [(row, kind) for row in suite.rows for kind in row.kinds if suite.sharing(row, kind)[0] is row]
    for row, kind in own_runs:
        for seed in count():
            run = shared_run(suite, row, kind, seed, tier, data)
            if run.own or (row.id, kind, seed) not in plain:
                break
            result = plain[row.id, kind, seed]
            if other := difference(result, run):
                warn(f"{result.folder}: {other}; left out")
                break
            results.append(result)
    return results
