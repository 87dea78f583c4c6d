"""A row of a suite: what is seen, by which pairs and objective it is learned; and what tables say of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ident.benchmark.latents import notation
from ident.benchmark.metrics.metric import CLASSIFIED
from ident.benchmark.registry import OBJECTIVES, PAIRS, SOURCES, Argument, Slot, Traits, read_slot, traits_of, written
from ident.benchmark.suites.toml import frozen
from ident.benchmark.training.schedule import Training
from ident.render import plugins
from ident.render.errors import Impossible, unknown

KINDS = ("identity", "untrained", "supervised", "unsupervised")
UNTRAINED = ("identity", "untrained")
"""Scores of observations as they are, and of an encoder that has learned nothing."""
USUAL = ("identity", "supervised", "unsupervised")
"""Those of a row that names none."""
SLOTS = {"source": SOURCES, "pairs": PAIRS, "objective": OBJECTIVES}
DIM = 10
"""Dimensions of a space that gives none, as in the papers' tables."""
SPACES = ("sphere", "learned-sphere", "box", "unbounded")
"""That an encoder's output may be brought to."""
ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
"""What the id of a row looks like, with which folders of results begin."""
FIGURE = re.compile(r"[\w .-]{0,20}")
"""What the name of a paper's figure looks like, after which files of plots are named."""
TYPES = {"str": (str,), "bool": (bool,), "float": (float, int)}
"""What a field may be."""
MOST_FACTORS = 256


@dataclass(frozen=True)
class Row:
    """One setting of a table: what is seen, by which pairs and objective it is learned, and what the papers report."""

    id: str
    source: Slot
    pairs: Slot
    objective: Slot
    space: str
    """That the encoder's output is brought to."""
    matches: bool = False
    """Whether the model assumes the conditional that the pairs follow."""
    kinds: tuple[str, ...] = USUAL
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Latents whose scores are reported together."""
    paper: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """Mean and sd of each kind's scores by each metric, in percent; the mean alone where the paper has no sd."""
    tiers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What a tier has otherwise for this row: settings of its training, and a table of those of its pairs."""
    figure: str = ""
    """The paper's figure that it belongs to, on which curve, and where on that."""
    curve: str = ""
    x: float = 0.0
    followed: bool = False
    """Whether the scores of its groups are taken on the way, and the loss is compared with that of the truth."""
    own: str = ""
    """The user's objective that stands here in place of the table's."""

    def __post_init__(self) -> None:
        if not (isinstance(self.id, str) and ID.fullmatch(self.id)):
            raise Impossible(f"id {self.id!r}: give small letters, digits, dots and hyphens, like box-normal")
        for name, family in SLOTS.items():
            slot = getattr(self, name)
            if isinstance(slot, str):
                slot = read_slot(slot)
                object.__setattr__(self, name, slot)
            if not isinstance(slot, Slot):
                raise Impossible(f"{name} {slot!r}: give a text, like {family.example}")
            family.check(slot.name)
        for item in fields(self):
            name, allowed = item.name, TYPES.get(str(item.type))
            if allowed and type(getattr(self, name)) not in allowed:
                raise Impossible(f"{name} {getattr(self, name)!r}: give {' or '.join(one.__name__ for one in allowed)}")
        if self.space not in SPACES:
            raise unknown("space", self.space, SPACES)
        if self.dim is not None and self.dim > MOST_FACTORS:
            raise Impossible(f"{self.source}: has {self.dim} dimensions; give at most {MOST_FACTORS}")
        if not isinstance(self.kinds, tuple) or not self.kinds or not all(kind in KINDS for kind in self.kinds):
            raise Impossible(f"kinds {self.kinds!r}: choose from {', '.join(KINDS)}")
        if not FIGURE.fullmatch(self.figure) or not math.isfinite(self.x):
            raise Impossible(f"figure {self.figure!r} at {self.x}: give one like '4 A', and a finite x")
        tables = (self.groups, self.paper, *self.tiers.values()) if isinstance(self.tiers, Mapping) else (None,)
        if not all(isinstance(table, Mapping) for table in tables):
            raise Impossible("groups, paper, tiers: give tables, as in the suites' files")
        for name, some in self.groups.items():
            least = range(self.dim or MOST_FACTORS)
            if not some or not isinstance(some, tuple) or not all(number in least for number in some):
                raise Impossible(f"groups, {name} {some!r}: give latents from 0 to {least.stop - 1}")
        for kind, scores in self.paper.items():
            if kind not in KINDS or not isinstance(scores, Mapping) or not all(map(is_score, scores.values())):
                raise Impossible(f"paper, {kind} {scores!r}: give a kind's mean and sd by each metric")
        of_training = [item.name for item in fields(Training)]
        for tier in self.tiers:
            self.pairs_in(tier)
            if wrong := sorted(set(self.training_in(tier)) - set(of_training)):
                raise Impossible(f"tiers, {tier}: nobody knows {', '.join(wrong)}; there are {', '.join(of_training)}")

    @property
    def modules(self) -> tuple[str, ...]:
        """What it names of users' modules."""
        return tuple(name for name in (getattr(self, slot).name for slot in SLOTS) if plugins.is_one(name))

    def __str__(self) -> str:
        return f"{self.id}: {self.data} -> {self.model}"

    def described(self) -> dict[str, str | bool]:
        """What it is, for tables as data and for records."""
        slots = {name: str(getattr(self, name)) for name in SLOTS}
        return {**slots, "space": self.space, "matches": self.matches}

    def words(self, kind: str = "") -> dict[str, str]:
        """What it is, for tables that are read; or what rows agree in that share a score of a kind."""
        if kind:
            return {"data": self.seen, "model": "" if kind == "identity" else self.space}
        if self.kinds == ("supervised",):
            return {"data": "", "model": f"supervised, {self.space}"}
        if self.kinds in (("identity",), ("untrained",)):
            return {"data": "", "model": self.kinds[0]}
        return {"data": self.data, "model": self.model}

    @property
    def seen(self) -> str:
        """What is seen, in words: of latents the space and the marginal."""
        if self.drawn or self.pictures:
            return str(self.source)
        if self.source.arguments:
            return ", ".join([self.latent_space.partition("(")[0], *map(shortened, [self.marginal])])
        return "" if self.stored else self.source.name

    @property
    def data(self) -> str:
        """What is seen, and which pairs of that, in words."""
        if self.drawn or self.pictures:
            return f"{self.source}, {self.pairs}"
        return ", ".join(
            filter(None, [self.seen, *(map(shortened, self.conditionals) if self.conditionals else [self.pairs.name])])
        )

    @property
    def model(self) -> str:
        """What is assumed, in words."""
        if self.drawn or self.pictures:
            return f"{self.space}, {self.objective}"
        how = [self.objective.name] if self.objective.name != "infonce" else []
        how += [name for name, value in self.objective.keywords if value]
        return ", ".join([self.space, *map(written, self.objective.arguments), *how])

    @property
    def traits(self) -> Traits:
        """What is known of its source without importing it."""
        return traits_of(self.source.name)

    @property
    def stored(self) -> bool:
        """Whether it is trained on a dataset."""
        return self.traits.images == "stored"

    @property
    def drawn(self) -> bool:
        """Whether it is trained on images that are drawn, or that a single file has."""
        return self.traits.images == "drawn"

    @property
    def decoded(self) -> bool:
        """Whether it is trained on digits, or on images that a decoder of digits makes."""
        return self.traits.images == "decoded"

    @property
    def pictures(self) -> bool:
        """Whether it is trained on pictures with classes, of which no other factor is known."""
        return self.traits.images == "pictures"

    @property
    def has(self) -> tuple[str, ...]:
        """What its source has for metrics beside factors: interventions, where all factors have values that recur."""
        discrete = self.traits.discrete or "discrete" in self.source.arguments
        return ("interventions",) * discrete + (CLASSIFIED,) * self.traits.classes

    @property
    def latent_space(self) -> str:
        """The space of the latents of a source that is drawn; nothing of a dataset."""
        return "".join(map(written, self.source.arguments[:1])) or written(self.named("space"))

    @property
    def marginal(self) -> str:
        """How latents lie there."""
        return "".join(map(written, self.source.arguments[1:2])) or written(self.named("marginal")) or "uniform"

    def named(self, keyword: str) -> Argument:
        """What its source is given by name; nothing where it is not."""
        return dict(self.source.keywords).get(keyword, "")

    @property
    def conditionals(self) -> tuple[str, ...]:
        """How positives lie around their anchors: an ensemble has several."""
        named = dict(self.pairs.keywords).get("conditional")
        texts = (value for value in (*self.pairs.arguments, named) if isinstance(value, str))
        return () if plugins.is_one(self.pairs.name) or self.pairs.name == "augmented" else tuple(texts)

    @property
    def hard(self) -> str:
        """The conditional of hard negatives, if there are such."""
        return written(dict(self.pairs.keywords).get("hard", ""))

    @property
    def dim(self) -> int | None:
        """How many latents there are, where that does not depend on a dataset."""
        if not self.traits.latents:
            return None
        factors = notation.parse(self.latent_space or "sphere", notation.GEOMETRIES, "space", {"dim": DIM})
        return sum(notation.whole(dim) for dim, *_ in factors)

    def slot(self, kind: str) -> Slot:
        """The objective of a kind of score."""
        return self.objective if kind == "unsupervised" else Slot(kind)

    def setting(self, kind: str) -> dict[str, Any]:
        """What decides the score of a kind: rows that agree in it share it."""
        slots: dict[str, Any] = {"kind": kind, "source": str(self.source)}
        if kind != "identity":
            slots["space"] = self.space
        if kind == "unsupervised":
            slots |= {"pairs": str(self.pairs), "objective": str(self.objective)}
        return slots

    def trained_by(self, objective: str) -> Row:
        """The row with an objective of the user's in place of its own."""
        return replace(self, objective=read_slot(objective), own=objective)

    def training_in(self, tier: str) -> dict[str, Any]:
        """What its training has otherwise than the tier's."""
        return {name: value for name, value in self.tiers.get(tier, {}).items() if name != "pairs"}

    def pairs_in(self, tier: str) -> dict[str, Any]:
        """What its pairs have otherwise than the tier's."""
        options = self.tiers.get(tier, {}).get("pairs", {})
        if not isinstance(options, Mapping):
            raise Impossible(f"tiers, {tier}, pairs {options!r}: give a table")
        return dict(options)


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
    """Whether these are the mean of a paper's score and its sd, if the paper has one."""
    return (
        isinstance(numbers, tuple)
        and len(numbers) in (1, 2)
        and all(type(number) in (int, float) and abs(number) <= 1e6 for number in numbers)
    )


def agrees(has: str, wanted: str) -> bool:
    """Whether a text of a row is the wanted one, or begins with it as its name."""
    plain, asked = canonical(has), canonical(wanted)
    return asked in (plain, plain.partition("(")[0])


def canonical(text: str) -> str:
    """A distribution or space with numbers in one way, without their names: normal(sigma=.050) is normal(0.05)."""
    bare = re.sub(r"\w+=", "", "".join(text.lower().split()))
    return re.sub(r"(?<![\w.])[\d.]+(e-?\d+)?", lambda match: number(match[0]), bare)


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


PARTS: Mapping[str, Callable[[Row], Sequence[str]]] = {
    "space": lambda row: [row.space],
    "source": lambda row: [str(row.source)],
    "pairs": lambda row: [str(row.pairs)],
    "objective": lambda row: [str(row.objective)],
    "latent_space": lambda row: [row.latent_space],
    "marginal": lambda row: [row.marginal],
    "figure": lambda row: [row.figure],
    "conditional": lambda row: [*row.conditionals, row.pairs.name],
    "model": lambda row: [*map(written, row.objective.arguments), row.objective.name],
}
"""What rows can be chosen by, and where each has it."""


def with_objective(rows: tuple[Row, ...], objective: str) -> tuple[Row, ...]:
    """The unsupervised rows with an objective of the user's in place of theirs."""
    if not plugins.is_one(objective):
        raise Impossible(f"{objective}: give module:name of a loss of yours; those of the rows are chosen by their ids")
    OBJECTIVES.load(read_slot(objective).name)
    # A loss of anchors and a positive for each has no place for several conditionals, or for hard negatives.
    plain = [
        row
        for row in rows
        if "unsupervised" in row.kinds
        and row.source.name != "latents"
        and row.pairs.name != "among"
        and len(row.pairs.arguments) < 2
        and {name for name, _ in row.pairs.keywords} <= {"positives", "both"}
    ]
    if not plain:
        raise Impossible(f"{objective}: none of these rows has pairs to train it on")
    return tuple(row.trained_by(objective) for row in plain)
