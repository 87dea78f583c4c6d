"""A row of a suite: one setting, checked; and what tables say of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ident.benchmark import plugins
from ident.benchmark.suites.toml import frozen
from ident.render.errors import Impossible, unknown

KINDS = ("identity", "supervised", "unsupervised")
AUGMENTATIONS = "augmentations"
"""In place of a conditional: two augmentations of one image are a positive pair."""
ANISOTROPIC = ("aninfonce", "ensemble")
"""Losses that learn Lambda: one for all positives, or one for each conditional."""
ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
"""Of a row: folders of results begin with it."""
FIGURE = re.compile(r"[\w .-]{0,20}")
"""Of a paper: files of plots are named after it."""
TYPES = {"str": (str,), "bool": (bool,), "int": (int,), "float": (float, int)}
"""What a field may be."""
MOST_FACTORS = 256


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
        for item in fields(self):
            name, allowed = item.name, TYPES.get(str(item.type))
            if allowed and type(getattr(self, name)) not in allowed:
                raise Impossible(f"{name} {getattr(self, name)!r}: give {' or '.join(one.__name__ for one in allowed)}")
        for name, choices in (("mixing", ("mlp", "none")), ("positives", ("one", "among"))):
            if getattr(self, name) not in choices:
                raise Impossible(f"{name} {getattr(self, name)!r}: choose from {', '.join(choices)}")
        if not 1 <= self.dim <= MOST_FACTORS:
            raise Impossible(f"dim {self.dim}: give a number from 1 to {MOST_FACTORS}")
        if not isinstance(self.kinds, tuple) or not self.kinds or not all(kind in KINDS for kind in self.kinds):
            raise Impossible(f"kinds {self.kinds!r}: choose from {', '.join(KINDS)}")
        if not isinstance(self.others, tuple) or not all(isinstance(text, str) for text in self.others):
            raise Impossible(f"others {self.others!r}: give a list of conditionals")
        if bool(self.hard) != (self.hard_count > 0):
            raise Impossible(f"hard {self.hard!r} and hard_count {self.hard_count!r}: give both, or neither")
        if self.positives == "among" and self.loss != "infonce":
            raise Impossible(f"loss {self.loss!r} with positives among a batch: there is only infonce")
        if not FIGURE.fullmatch(self.figure) or not math.isfinite(self.x):
            raise Impossible(f"figure {self.figure!r} at {self.x}: give one like '4 A', and a finite x")
        tables = (self.groups, self.paper, *self.tiers.values()) if isinstance(self.tiers, Mapping) else (None,)
        if not all(isinstance(table, Mapping) for table in tables):
            raise Impossible("groups, paper, tiers: give tables, as in the suites' files")
        for name, some in self.groups.items():
            if not some or not isinstance(some, tuple) or not all(number in range(self.dim) for number in some):
                raise Impossible(f"groups, {name} {some!r}: give latents from 0 to {self.dim - 1}")
        for kind, scores in self.paper.items():
            if kind not in KINDS or not isinstance(scores, Mapping) or not all(map(is_score, scores.values())):
                raise Impossible(f"paper, {kind} {scores!r}: give a kind's mean and sd by each metric")

    def check(self) -> None:
        """Refuse spaces, distributions, models and settings of tiers that nobody knows.

        This takes PyTorch, and that seconds: what only reads results does without.
        """
        from ident.benchmark.latents import distributions, spaces
        from ident.benchmark.losses import contrastive as losses
        from ident.benchmark.losses import similarities
        from ident.benchmark.models import encoders
        from ident.benchmark.suites.curriculum import Curriculum
        from ident.benchmark.training.train import Training

        spaces.parse(self.latent_space, self.dim)
        for text in (self.marginal, self.conditional, *self.others, *filter(None, [self.hard])):
            if text != AUGMENTATIONS:
                distributions.parse(text, 1.0)
        similarities.parse(self.model)
        if self.model_space not in encoders.OUTPUTS:
            raise unknown("model_space", self.model_space, encoders.OUTPUTS)
        if self.loss not in (*losses.LOSSES, *ANISOTROPIC) and not plugins.is_one(self.loss):
            raise unknown("loss", self.loss, (*losses.LOSSES, *ANISOTROPIC), "module:name of yours")
        for tier in self.tiers:
            of_training = {item.name for item in fields(Training)}
            for names, known in (
                (self.training_in(tier), of_training),
                (self.curriculum_in(tier), {item.name for item in fields(Curriculum)}),
            ):
                if wrong := sorted(set(names) - known):
                    raise Impossible(f"tiers, {tier}: nobody knows {', '.join(wrong)}; there are {', '.join(known)}")

    @property
    def modules(self) -> tuple[str, ...]:
        """What it names of users' modules."""
        return (self.loss,) if plugins.is_one(self.loss) else ()

    def described(self) -> dict[str, str | int | bool]:
        """What it is, for tables as data and for records."""
        return {
            "latent_space": self.latent_space, "marginal": self.marginal, "conditional": self.conditional,
            "dim": self.dim, "model_space": self.model_space, "model": self.model, "loss": self.loss,
            "matches": self.matches,
        }  # fmt: skip

    def words(self, kind: str = "") -> dict[str, str]:
        """What it is, for tables that are read; or what rows agree in that share a score of a kind."""
        data = f"{self.latent_space.partition('(')[0]}, {self.marginal}"
        if kind:
            return {"data": data, "model": "" if kind == "identity" else self.model_space}
        if self.kinds == ("supervised",):
            return {"data": "", "model": f"supervised, {self.model_space}"}
        if self.kinds == ("identity",):
            return {"data": "", "model": "untrained"}
        model = [self.model_space, self.model, self.loss if self.loss != "infonce" else "", "itself" * self.itself]
        return {"data": f"{data}, {shortened(self.conditional)}", "model": ", ".join(filter(None, model))}

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

    def trained_by(self, loss: str) -> Row:
        """The row with a loss of the user's in place of its own."""
        return replace(self, loss=loss)

    def training_in(self, tier: str) -> dict[str, Any]:
        """What its training has otherwise than the tier's."""
        return {name: value for name, value in self.tiers.get(tier, {}).items() if name != "curriculum"}

    def curriculum_in(self, tier: str) -> dict[str, Any]:
        """What its curriculum has otherwise than the tier's."""
        curriculum = self.tiers.get(tier, {}).get("curriculum", {})
        if not isinstance(curriculum, Mapping):
            raise Impossible(f"tiers, {tier}, curriculum {curriculum!r}: give a table")
        return dict(curriculum)


def row_of(settings: Mapping[str, Any]) -> Row:
    """A row as it stands in a file."""
    known = [item.name for item in fields(Row)]
    if wrong := sorted(set(settings) - set(known)):
        raise Impossible(f"row {settings.get('id')}: nobody knows {', '.join(wrong)}; there are {', '.join(known)}")
    try:
        return Row(**{name: frozen(value) for name, value in settings.items()})
    except Impossible as error:
        raise Impossible(f"row {settings.get('id')}: {error}") from error
    except TypeError as error:  # of what it lacks
        raise Impossible(f"row {settings.get('id')}: {str(error).partition(' ')[2]}") from error


def is_score(numbers: object) -> bool:
    """Whether these are the mean and the sd of a paper's score."""
    return (
        isinstance(numbers, tuple)
        and len(numbers) == 2
        and all(type(number) in (int, float) and abs(number) <= 1e6 for number in numbers)
    )


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
    return tuple(row.trained_by(loss) for row in plain)
