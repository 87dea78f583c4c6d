"""Suites and their rows: read from the TOML files beside, checked, chosen from."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from ident.benchmark import plugins
from ident.benchmark.latents import distributions, spaces
from ident.benchmark.losses import contrastive as losses
from ident.benchmark.losses import similarities
from ident.benchmark.models import encoders
from ident.render.errors import Impossible

KINDS = ("identity", "supervised", "unsupervised")
SUITES = ("table4", "table5", "table1", "table2", "marginals", "aninfonce")
AUGMENTATIONS = "augmentations"
"""In place of a conditional: two augmentations of one image are a positive pair."""
ANISOTROPIC = ("aninfonce", "ensemble")
"""Losses that learn Lambda: one for all positives, or one for each conditional."""
ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
"""Of a row: folders of results begin with it."""


@dataclass(frozen=True)
class Row:
    """One setting of a table: how data come about, what the model assumes, and what the papers report."""

    id: str
    latent_space: str
    marginal: str
    conditional: str
    model_space: str
    model: str
    dim: int = 10
    loss: str = "infonce"
    mixing: str = "mlp"
    """Or `none`: the encoder is none either, and what is learned is the loss's."""
    positives: str = "one"
    """Or `among`: all pairs of a batch that rejection sampling accepts."""
    itself: bool = False
    """Whether an anchor is among its own negatives, as in the code of Zimmermann et al., 2021 but not in its eq. 1."""
    others: tuple[str, ...] = ()
    """Conditionals of further positives of the same anchors, for ensembles."""
    hard: str = ""
    """Conditional of hard negatives, and how many an anchor gets."""
    hard_count: int = 0
    matches: bool = False
    kinds: tuple[str, ...] = KINDS
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Latents whose scores are reported together."""
    paper: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """Mean and sd of each kind's scores by each metric, in percent."""
    tiers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What a tier has otherwise for this row: settings of its training, and a table of its curriculum's."""
    figure: str = ""
    """The paper's figure that it belongs to, on which curve, and where on that."""
    curve: str = ""
    x: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.id, str) and ID.fullmatch(self.id)):
            raise Impossible(f"id {self.id!r}: give small letters, digits, dots and hyphens, like box-normal")
        spaces.parse(self.latent_space, self.dim)
        for text in (self.marginal, self.conditional, *self.others, *filter(None, [self.hard])):
            if text != AUGMENTATIONS:
                distributions.parse(text, 1.0)
        similarities.parse(self.model)
        for name, allowed in (
            ("model_space", tuple(encoders.OUTPUTS)),
            ("loss", (*losses.LOSSES, *ANISOTROPIC)),
            ("mixing", ("mlp", "none")),
            ("positives", ("one", "among")),
        ):
            if getattr(self, name) not in allowed and not (name == "loss" and plugins.is_one(self.loss)):
                raise Impossible(f"{name} {getattr(self, name)!r}: choose from {', '.join(allowed)}")
        if not set(self.kinds) <= set(KINDS) or not self.kinds:
            raise Impossible(f"kinds {self.kinds!r}: choose from {', '.join(KINDS)}")
        if bool(self.hard) != (type(self.hard_count) is int and self.hard_count > 0):
            raise Impossible(f"hard {self.hard!r} and hard_count {self.hard_count!r}: give both, or neither")
        if self.positives == "among" and self.loss != "infonce":
            raise Impossible(f"loss {self.loss!r} with positives among a batch: there is only infonce")

    def __str__(self) -> str:
        data = f"{self.latent_space}, {self.marginal}, {shortened(self.conditional)}"
        return f"{self.id}: {data} -> {self.model_space}, {self.model}" + (
            f", {self.loss}" if self.loss != "infonce" else ""
        )

    def setting(self, kind: str) -> dict[str, Any]:
        """What decides the score of a kind: rows that agree in it share it."""
        names = ["latent_space", "marginal", "dim", "mixing"]
        if kind != "identity":
            names += ["model_space"]
        if kind == "unsupervised":
            names += ["conditional", "model", "loss", "positives", "itself", "others", "hard", "hard_count"]
        return {"kind": kind, **{name: getattr(self, name) for name in names}}

    def training_in(self, tier: str) -> dict[str, Any]:
        """What its training has otherwise than the tier's."""
        return {name: value for name, value in self.tiers.get(tier, {}).items() if name != "curriculum"}

    def curriculum_in(self, tier: str) -> dict[str, Any]:
        """What its curriculum has otherwise than the tier's."""
        return dict(self.tiers.get(tier, {}).get("curriculum", {}))


@dataclass(frozen=True)
class Suite:
    """A table of rows."""

    name: str
    title: str
    metrics: tuple[str, ...]
    """The first is the one that is told on the way."""
    rows: tuple[Row, ...]
    images: bool = False
    """Whether observations are images of a dataset, or latents mixed by a network."""
    split: str = "test"
    """Where its scores are taken: on what the model has not seen, or on what it was trained on (`train`)."""
    runs: str = ""
    """The suite whose runs it shows, if they are not its own."""

    def __post_init__(self) -> None:
        for name, count in Counter(row.id for row in self.rows).items():
            if count > 1:
                raise Impossible(f"{self.name}: {count} rows have the id {name}; give each its own")

    @property
    def folder(self) -> str:
        """The suite that has the runs."""
        return self.runs or self.name

    def row(self, name: str) -> Row:
        """The row with an id."""
        for row in self.rows:
            if row.id == name:
                return row
        ids = [row.id for row in self.rows]
        nearest = "".join(f"; did you mean {one}?" for one in get_close_matches(name, ids, 1)) or "."
        raise Impossible(f"{self.name} has no row {name!r}{nearest} Its rows are {', '.join(ids)}")


def read(name: str) -> dict[str, Any]:
    """A TOML file beside this one."""
    return tomllib.loads(files("ident.benchmark.suites").joinpath(f"{name}.toml").read_text())


@cache
def load_suite(name: str) -> Suite:
    """A suite by its name."""
    if name not in SUITES:
        raise Impossible(f"suite {name!r}: choose from {', '.join(SUITES)}")
    content = read(f"tables/{name}")
    if "runs" in content:
        content = read(f"tables/{content['runs']}") | content
    shared, papers = content.pop("every_row", {}), content.pop("papers", None)
    rows = tuple(row_of({**shared, **settings}) for settings in content["rows"])
    if papers is not None:
        rows = tuple(replace(row, paper=frozen(papers.get(row.id, {}))) for row in rows)
    content |= {"metrics": tuple(content["metrics"]), "rows": rows}
    suite = Suite(name, **content)
    for unknown in papers or ():
        suite.row(unknown)
    return suite


def row_of(settings: Mapping[str, Any]) -> Row:
    """A row as it stands in a file."""
    unknown = set(settings) - {item.name for item in fields(Row)}
    if unknown:
        raise Impossible(f"row {settings.get('id')}: nobody knows {', '.join(sorted(unknown))}")
    return Row(**{name: frozen(value) for name, value in settings.items()})


def frozen(value: Any) -> Any:
    """A value of a TOML file with tuples for its lists, also in tables."""
    if isinstance(value, dict):
        return {name: frozen(one) for name, one in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def select(suite: Suite, wanted: Mapping[str, str], ids: Sequence[str] = ()) -> tuple[Row, ...]:
    """The rows of a suite that agree with what is wanted: `laplace` with `laplace(0.05)`, too."""
    named = [suite.row(name) for name in ids]
    rows = tuple(
        row
        for row in suite.rows
        if (not ids or row in named) and all(agrees(getattr(row, name), text) for name, text in wanted.items())
    )
    if not rows:
        asked = [f"{name.replace('_', '-')} {text}" for name, text in wanted.items()]
        asked += [f"row {name}" for name in ids]
        listed = "; ".join(map(str, suite.rows))
        raise Impossible(f"{suite.name} has no row with {', '.join(asked)}. Its rows are {listed}")
    return rows


def agrees(has: str, wanted: str) -> bool:
    """Whether a text of a row is the wanted one, or begins with it as its name."""
    plain, asked = canonical(has), canonical(wanted)
    return asked in (plain, plain.partition("(")[0])


def canonical(text: str) -> str:
    """A distribution or space with numbers in one way, without their names: normal(sigma=.050) is normal(0.05)."""
    bare = re.sub(r"\w+=", "", "".join(text.lower().split()))
    return re.sub(r"(?<![\w.])[\d.]+(e-?\d+)?", lambda found: number(found[0]), bare)


def number(text: str) -> str:
    """A number in one way, if it is one."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def shortened(text: str) -> str:
    """A distribution with runs of equal numbers counted: anisotropic(5 x5, 25 x5)."""
    name, _, numbers = text.partition("(")
    parts = [part.strip() for part in numbers.rstrip(")").split(",")]
    if len(parts) < 4:
        return text
    counted = list[list[Any]]()
    for part in parts:
        if counted and counted[-1][0] == part:
            counted[-1][1] += 1
        else:
            counted.append([part, 1])
    return f"{name}({', '.join(f'{part} x{count}' if count > 1 else part for part, count in counted)})"


def with_loss(rows: tuple[Row, ...], loss: str) -> tuple[Row, ...]:
    """The unsupervised rows with a loss of the user's in place of theirs."""
    if not plugins.is_one(loss):
        raise Impossible(f"--loss {loss}: give module:name of a loss of yours; those of the rows are chosen by --row")
    plugins.load(loss)
    plain = [
        row
        for row in rows
        if "unsupervised" in row.kinds
        and row.mixing != "none"
        and row.positives == "one"
        and not (row.others or row.hard)
    ]
    if not plain:
        raise Impossible(f"--loss {loss}: none of these rows has pairs to train it on")
    return tuple(replace(row, loss=loss) for row in plain)
