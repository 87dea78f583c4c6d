"""Which runs the rows of a suite need: one for each kind and seed, shared by the rows that agree in what decides it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ident.benchmark import plugins
from ident.benchmark.latents import spaces
from ident.benchmark.suites.curriculum import Curriculum
from ident.benchmark.suites.data import Data
from ident.benchmark.suites.rows import Row, Suite
from ident.benchmark.suites.tiers import Tier
from ident.benchmark.training.train import Training
from ident.render.errors import Impossible

IMAGES_LACK = {"whiten": False, "spread": 0.0, "region": 1.0, "parts": 1}
MIXED_LACK = {"both": False, "compile": False, "chunk": 0, "first": ()}
"""What a tier has that is for mixed latents alone, and for images alone, and what leaves it out."""


@dataclass(frozen=True)
class Run:
    """One seed of one kind of a row, in a tier."""

    suite: str
    row: Row
    kind: str
    seed: int
    tier: Tier
    data: Mapping[str, Data] = field(default_factory=dict)
    """The dataset of each split, of a suite of images."""

    def __post_init__(self) -> None:
        if 2 * self.curriculum.parts > self.training.batch_size:
            raise Impossible(
                f"parts {self.curriculum.parts} of a batch_size of {self.training.batch_size}: each needs two"
            )

    @property
    def name(self) -> str:
        """Of the folder of its result."""
        return "-".join([self.row.id, *self.own, self.kind, f"seed{self.seed}"])

    @property
    def own(self) -> list[str]:
        """What is not the table's, but the user's: a loss, an encoder."""
        given = [self.row.loss, self.tier.encoder] if self.kind == "unsupervised" else [self.tier.encoder]
        return [re.sub(r"[^\w.]+", ".", text) for text in given if plugins.is_one(text)]

    @property
    def training(self) -> Training:
        """How it is trained."""
        if self.kind != "unsupervised":
            return self.tier.supervised
        return replace(self.tier.unsupervised, **self.row.training_in(self.tier.name))

    @property
    def curriculum(self) -> Curriculum:
        """Which its pairs have: regions are for a box with the same marginal in each, groups for our losses."""
        if self.kind != "unsupervised" or self.row.mixing == "none":
            return Curriculum()
        space = spaces.parse(self.row.latent_space, self.row.dim)
        alike = isinstance(space, spaces.Box) and self.row.marginal == "uniform"
        whole: dict[str, Any] = {} if alike else {"region": 1.0, "parts": 1}
        # A user's loss is called with anchors and a positive for each; and some outputs of a sphere are no sphere.
        if plugins.is_one(self.row.loss) or self.row.model_space == "sphere":
            whole["first"] = ()
        return replace(self.tier.curriculum, **{**whole, **self.row.curriculum_in(self.tier.name)})

    @property
    def recipe(self) -> dict[str, Any]:
        """All that decides the result."""
        trained = {} if self.kind == "identity" else {**asdict(self.training), "whiten": self.tier.whiten}
        if self.kind == "unsupervised":
            trained |= {**asdict(self.curriculum), "scale": self.tier.scale, "both": self.tier.both}
        shared: dict[str, Any] = {"seed": self.seed, "samples": self.tier.samples, "encoder": self.tier.encoder}
        names = [self.tier.encoder, *([self.row.loss] if self.kind == "unsupervised" else [])]
        shared["own"] = {name: plugins.digest(name) for name in names if plugins.is_one(name)}
        data = {split: f"{data.size} x {data.size}, {data.digest}" for split, data in self.data.items()}
        return {**self.row.setting(self.kind), **trained, **shared, "chunk": self.tier.chunk, "data": data}


def runs_of(
    suite: Suite,
    rows: tuple[Row, ...],
    kinds: tuple[str, ...],
    seeds: int,
    tier: Tier,
) -> list[Run]:
    """All runs that these rows need. What rows share is one run, under the name of the first row that has it."""
    if plugins.is_one(tier.encoder):
        plugins.load(tier.encoder)
    elif suite.images == (tier.encoder == "mlp"):
        what = "images" if suite.images else "no images"
        raise Impossible(f"encoder {tier.encoder}: {suite.name} is of {what}; give another")
    idle = IMAGES_LACK if suite.images else MIXED_LACK
    given = {**vars(tier), **vars(tier.curriculum)}
    for name, default in idle.items():
        if given[name] != default:
            raise Impossible(f"{name} {given[name]!r}: does nothing in {suite.name}; leave it out of the tier")
    found = dict[str, Run]()
    for seed in range(seeds):
        for row in rows:
            for kind in kinds:
                if kind in row.kinds:
                    run = shared_run(suite, row, kind, seed, tier)
                    found.setdefault(run.name, run)
    if not found:
        there = sorted({kind for row in rows for kind in row.kinds})
        raise Impossible(f"--kind {', '.join(kinds)}: these rows have {', '.join(there)}")
    return list(found.values())


def shared_run(suite: Suite, row: Row, kind: str, seed: int, tier: Tier, data: Mapping[str, Data] | None = None) -> Run:
    """The run that gives a row its score of a kind."""
    return Run(suite.folder, shared_row(suite, row, kind), kind, seed, tier, data or {})


def shared_row(suite: Suite, row: Row, kind: str) -> Row:
    """The row under whose name the run goes that gives a row its score of a kind: the first that has the same."""
    if kind == "unsupervised":
        return row
    return suite.row(sharing(suite, row, kind)[0])


def sharing(suite: Suite, row: Row, kind: str) -> list[str]:
    """The ids of the rows whose scores of a kind are of one run, that of a row."""
    if kind == "unsupervised":
        return [row.id]
    setting = json.dumps(row.setting(kind))
    return [other.id for other in suite.rows if kind in other.kinds and json.dumps(other.setting(kind)) == setting]
