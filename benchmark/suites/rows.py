"""Suites, their rows and the tiers: read from the TOML files beside, checked, chosen from."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from ident.benchmark import distributions, encoders, losses, metrics, plugins, spaces
from ident.benchmark.suites.curriculum import Curriculum
from ident.benchmark.train import Training, is_number
from ident.render.errors import Impossible
from ident.render.settings import PRESETS

KINDS = ("identity", "supervised", "unsupervised")
TIERS = ("demo", "laptop", "paper")
SUITES = ("table4", "table5", "table1", "table2", "marginals", "aninfonce")
AUGMENTATIONS = "augmentations"
"""In place of a conditional: two augmentations of one image are a positive pair."""
ANISOTROPIC = ("aninfonce", "ensemble")
"""Losses that learn Lambda: one for all positives, or one for each conditional."""
IMAGES_LACK = {"whiten": False, "spread": 0.0, "region": 1.0, "parts": 1}
MIXED_LACK = {"both": False, "compile": False, "chunk": 0, "first": ()}
"""What a tier has that is for mixed latents alone, and for images alone, and what leaves it out."""
FORMAT = 2
"""Of results."""


@dataclass(frozen=True)
class Row:
    """One setting of a table: how data come about, what the model assumes, and what the papers report."""

    number: int
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
        spaces.parse(self.latent_space, self.dim)
        for text in (self.marginal, self.conditional, *self.others, *filter(None, [self.hard])):
            if text != AUGMENTATIONS:
                distributions.parse(text, 1.0)
        losses.parse(self.model)
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
        return f"{self.number}: {data} -> {self.model_space}, {self.model}" + (
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

    @property
    def folder(self) -> str:
        """The suite that has the runs."""
        return self.runs or self.name


@dataclass(frozen=True)
class Render:
    """Datasets of a tier: so many images to train on and to test on, of this size and quality."""

    train: int
    test: int
    size: int
    quality: str

    def __post_init__(self) -> None:
        for name in ("train", "test", "size"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise Impossible(f"{name} {getattr(self, name)!r}: give a whole number from 1 on")
        if self.quality not in PRESETS:
            raise Impossible(f"quality {self.quality!r}: choose from {', '.join(PRESETS)}")


@dataclass(frozen=True)
class Tier:
    """How large runs are: trainings by kind, and how many samples a score is taken of."""

    name: str
    supervised: Training
    unsupervised: Training
    samples: int
    whiten: bool = False
    """Whether encoders see observations whitened, and begin with outputs that are."""
    curriculum: Curriculum = field(default_factory=Curriculum)
    """Of unsupervised trainings."""
    scale: float = 0.05
    """Of conditionals that give none, as in Table 4."""
    encoder: str = "mlp"
    """Or another of `encoders.ENCODERS`, or module:function."""
    chunk: int = 0
    """How many observations are encoded at a time, if not all: what was on the way is computed again for gradients."""
    both: bool = False
    """Whether each positive is an anchor in its turn, too: a loss is the mean of both. Of images."""
    compile: bool = False
    """Whether PyTorch compiles the encoder: minutes at first, faster from then on."""
    render: Render | None = None
    """The datasets that `--render` makes."""

    def __post_init__(self) -> None:
        if type(self.samples) is not int or self.samples < metrics.LEAST:
            raise Impossible(f"samples {self.samples!r}: give a whole number from {metrics.LEAST} on")
        for name in ("whiten", "both", "compile"):
            if type(getattr(self, name)) is not bool:
                raise Impossible(f"{name} {getattr(self, name)!r}: give true or false")
        if not (is_number(self.scale) and 0 < self.scale < math.inf):
            raise Impossible(f"scale {self.scale!r}: give a number above 0")
        if self.encoder not in encoders.ENCODERS and not plugins.is_one(self.encoder):
            raise Impossible(
                f"encoder {self.encoder!r}: choose from {', '.join(encoders.ENCODERS)}, or module:function"
            )
        if type(self.chunk) is not int or self.chunk < 0:
            raise Impossible(f"chunk {self.chunk!r}: give a whole number")


@dataclass(frozen=True)
class Data:
    """A dataset: where it lies, a digest of all that is in it, and the side of its images."""

    place: str
    digest: str
    size: int


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
        return "-".join([f"row{self.row.number:02d}", *self.own, self.kind, f"seed{self.seed}"])

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


def read(name: str) -> dict[str, Any]:
    """A TOML file beside this one."""
    return tomllib.loads(files("ident.benchmark.suites").joinpath(f"{name}.toml").read_text())


@cache
def load_suite(name: str) -> Suite:
    """A suite by its name."""
    if name not in SUITES:
        raise Impossible(f"suite {name!r}: choose from {', '.join(SUITES)}")
    content = read(name)
    if "runs" in content:
        content = read(content["runs"]) | content
    shared, papers = content.pop("every_row", {}), content.pop("papers", None)
    rows = tuple(row_of(number + 1, {**shared, **given}) for number, given in enumerate(content["rows"]))
    if papers:
        rows = tuple(replace(row, paper=frozen(paper)) for row, paper in zip(rows, papers, strict=True))
    content |= {"metrics": tuple(content["metrics"]), "rows": rows}
    return Suite(name, **content)


def row_of(number: int, given: Mapping[str, Any]) -> Row:
    """A row as it stands in a file."""
    unknown = set(given) - {item.name for item in fields(Row)}
    if unknown:
        raise Impossible(f"row {number}: nobody knows {', '.join(sorted(unknown))}")
    return Row(number, **{name: frozen(value) for name, value in given.items()})


def frozen(value: Any) -> Any:
    """A value of a TOML file with tuples for its lists, also in tables."""
    if isinstance(value, dict):
        return {name: frozen(one) for name, one in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def load_tier(name: str, *, images: bool = False) -> Tier:
    """A tier by its name, for images or for mixed latents; or from a TOML file of one's own."""
    if name.endswith(".toml"):
        stem = Path(name).stem
        if stem in TIERS or not re.fullmatch(r"\w[\w.-]*", stem):
            raise Impossible(f"{name}: its results would go to a folder {stem!r}; give it another name")
        try:
            return tier_of(stem, tomllib.loads(Path(name).read_text()))
        except OSError as error:
            raise Impossible(f"{name}: {error.strerror}; give {', '.join(TIERS)}, or a file") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise Impossible(f"{name}: is no tier ({error}); see tiers.toml beside the suites") from error
        except Impossible as error:
            raise Impossible(f"{name}: {error}") from error
    if name not in TIERS:
        raise Impossible(f"tier {name!r}: choose from {', '.join(TIERS)}, or give a file that ends in .toml")
    return tier_of(name, read("tiers")["images" if images else "synthetic"][name])


def tier_of(name: str, content: dict[str, Any]) -> Tier:
    """A tier as it stands in a file."""
    if "name" in content:
        raise Impossible("tier: nobody knows name; it is that of the file")
    made: dict[str, Any] = {"name": name}
    parts = {"supervised": Training, "unsupervised": Training, "curriculum": Curriculum, "render": Render}
    for key, of in parts.items():
        if key == "render" and key not in content:
            continue
        given = content.get(key, {} if key == "curriculum" else None)
        if not isinstance(given, dict):
            raise Impossible(f"{key} {given!r}: give a table, as in tiers.toml beside the suites")
        made[key] = checked(key, of, given)
    return cast(Tier, checked("tier", Tier, {**content, **made}))


def checked(key: str, of: type, given: dict[str, Any]) -> object:
    """A specification as it stands in a file, of fields that there are."""
    known = {item.name: item for item in fields(of)}
    unknown = sorted(set(given) - set(known))
    missing = [
        name for name, item in known.items() if name not in given and item.default is item.default_factory is MISSING
    ]
    if unknown or missing:
        wrong = f"nobody knows {', '.join(unknown)}" if unknown else f"lacks {', '.join(missing)}"
        raise Impossible(f"{key}: {wrong}; there are {', '.join(known)}")
    try:
        made: object = of(**{name: frozen(value) for name, value in given.items()})
    except Impossible as error:
        raise Impossible(f"{key}: {error}") from error
    return made


def select(suite: Suite, wanted: Mapping[str, str], numbers: tuple[int, ...] = ()) -> tuple[Row, ...]:
    """The rows of a suite that agree with what is wanted: `laplace` with `laplace(0.05)`, too."""
    there = {row.number for row in suite.rows}
    rows = (
        ()
        if set(numbers) - there
        else tuple(
            row
            for row in suite.rows
            if (not numbers or row.number in numbers)
            and all(agrees(getattr(row, name), text) for name, text in wanted.items())
        )
    )
    if not rows:
        asked = [f"{name.replace('_', '-')} {text}" for name, text in wanted.items()]
        asked += [f"row {number}" for number in numbers]
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
    setting = json.dumps(row.setting(kind))
    return next(other for other in suite.rows if kind in other.kinds and json.dumps(other.setting(kind)) == setting)
