"""How large runs are: read from tiers.toml beside, or from a file of the user's, and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from ident.benchmark.latents.distributions import SCALE
from ident.benchmark.metrics.arrays import LEAST
from ident.benchmark.registry import ENCODERS, MIXED
from ident.benchmark.suites.toml import frozen, read_file, read_ours
from ident.benchmark.training.schedule import Training, is_number
from ident.render import plugins
from ident.render.blender.settings import PRESETS
from ident.render.errors import Impossible

TIERS = ("demo", "laptop", "afternoon", "paper")
MOST_LAYERS, WIDEST = 9, 65_536


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
class Model:
    """The encoder of a tier."""

    encoder: str = "mlp"
    """One of `registry.ENCODERS`, or module:function."""
    side: float = 1.0
    """The side of the model's box at the start of unsupervised trainings, from which it is learned."""
    whiten: bool = False
    """Whether encoders see observations whitened, and begin with outputs that are."""
    chunk: int = 0
    """How many observations are encoded at a time, if not all: what was on the way is computed again for gradients."""
    compile: bool = False
    """Whether PyTorch compiles the encoder: minutes at first, faster from then on."""
    latents: int = 0
    """How many latents are recovered without supervision, if not as many as there are factors."""
    projector: tuple[int, ...] | None = None
    """Widths of a perceptron between the encoder and the output: of what the encoder gives, then of each layer."""

    def __post_init__(self) -> None:
        for name in ("whiten", "compile"):
            if type(getattr(self, name)) is not bool:
                raise Impossible(f"{name} {getattr(self, name)!r}: give true or false")
        if not isinstance(self.encoder, str):
            raise Impossible(f"encoder {self.encoder!r}: give a name")
        ENCODERS.check(self.encoder)
        if not (is_number(self.side) and 1e-3 <= self.side <= 1e3):
            raise Impossible(f"side {self.side!r}: give a number from 0.001 to 1000")
        if self.projector is not None:
            check_projector(self.projector)
            if self.latents or self.whiten:
                raise Impossible("projector: its last width is the number of latents; leave out latents and whiten")
        for name in ("chunk", "latents"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise Impossible(f"{name} {getattr(self, name)!r}: give a whole number")


def check_projector(widths: object) -> None:
    """Refuse what are no widths of a perceptron with at least one layer."""
    numbers = widths if isinstance(widths, tuple) else ()
    if not 2 <= len(numbers) <= MOST_LAYERS or not all(type(one) is int and 1 <= one <= WIDEST for one in numbers):
        raise Impossible(
            f"projector {list(numbers) if numbers == widths else widths!r}: give the width of the encoder's output and "
            f"those of 1 to {MOST_LAYERS - 1} layers, up to {WIDEST}, like [512, 512, 256]; or leave it out"
        )


@dataclass(frozen=True)
class Tier:
    """How large runs are: trainings by kind, and how many samples a score is taken of."""

    name: str
    supervised: Training
    unsupervised: Training
    samples: int
    model: Model = field(default_factory=Model)
    pairs: Mapping[str, Any] = field(default_factory=dict)
    """What the rows' pairs are called with beside what the rows say: the scale of conditionals that give none, ..."""
    objective: Mapping[str, Any] = field(default_factory=dict)
    """What the rows' objectives are called with beside what the rows say, if they know it: softplus, ..."""
    render: Render | None = None
    """The datasets that `--render` makes."""
    decoder: Training | None = None
    """The training of the VAE whose decoder shows latents."""
    gpu_hours: float = 0.0
    """How long one GPU would have taken its authors for a training of images: what is said before it begins."""

    def __post_init__(self) -> None:
        if type(self.samples) is not int or self.samples < LEAST:
            raise Impossible(f"samples {self.samples!r}: give a whole number from {LEAST} on")
        if not (is_number(self.gpu_hours) and 0 <= self.gpu_hours < math.inf):
            raise Impossible(f"gpu_hours {self.gpu_hours!r}: give a number from 0 on")
        if "first" in self.pairs:
            raise Impossible(
                "pairs, first: groups of latents are gone, as no method may know what a latent is; leave it out, and "
                "give groups = 32, which are of images that are found alike"
            )
        if not (is_number(self.scale) and 0 < self.scale < math.inf):
            raise Impossible(f"scale {self.scale!r}: give a number above 0")

    @property
    def scale(self) -> float:
        """The scale of conditionals that give none, as in Table 4."""
        scale: float = self.pairs.get("scale", SCALE)
        return scale


def load_tier(
    name: str,
    observations: str = MIXED,
    *,
    encoder: str | None = None,
    trust: bool = False,
) -> Tier:
    """A tier by its name, for such observations as a source's traits name; or from a TOML file of one's own.

    With an encoder in place of its own. The module that a file names is refused, unless one trusts that file.
    """
    tier = read_tier(name, observations)
    if encoder is not None:
        return replace(tier, model=replace(tier.model, encoder=encoder))
    if plugins.is_one(tier.model.encoder) and not trust:
        raise Impossible(
            f"{name}: names the module of {tier.model.encoder}, which would be imported; if you trust it, add --trust"
        )
    return tier


def read_tier(name: str, observations: str) -> Tier:
    """A tier as it is written, for such observations."""
    if name.endswith(".toml"):
        stem = Path(name).stem
        if stem in TIERS or not re.fullmatch(r"\w[\w.-]*", stem):
            raise Impossible(f"{name}: its results would go to a folder {stem!r}; give it another name")
        content = read_file(Path(name), "tier", f"{', '.join(TIERS)}, or a file")
        try:
            return tier_of(stem, content)
        except Impossible as error:
            raise Impossible(f"{name}: {error}") from error
    if name not in TIERS:
        raise Impossible(f"tier {name!r}: choose from {', '.join(TIERS)}, or give a file that ends in .toml")
    ours = read_ours("tiers")[observations]
    if name not in ours:
        why = "is for images, these are latents" if observations == MIXED else f"there is none for {observations}"
        raise Impossible(f"tier {name!r}: {why}; choose from {', '.join(ours)}")
    return tier_of(name, ours[name])


def tier_of(name: str, content: dict[str, Any]) -> Tier:
    """A tier as it stands in a file."""
    if "name" in content:
        raise Impossible("tier: nobody knows name; it is that of the file")
    parts: dict[str, Any] = {"name": name}
    specifications = {
        "supervised": Training,
        "unsupervised": Training,
        "model": Model,
        "render": Render,
        "decoder": Training,
    }
    content = {"supervised": content.get("unsupervised"), **content}
    for key, of in specifications.items():
        if key in ("model", "render", "decoder") and key not in content:
            continue
        table = content.get(key)
        if not isinstance(table, dict):
            raise Impossible(f"{key} {table!r}: give a table, as in tiers.toml beside the suites")
        parts[key] = specified(key, of, table)
    for key in ("pairs", "objective"):
        if not isinstance(content.get(key, {}), dict):
            raise Impossible(f"{key} {content[key]!r}: give a table, as in tiers.toml beside the suites")
    return cast(Tier, specified("tier", Tier, {**content, **parts}))


def specified(key: str, of: type, table: dict[str, Any]) -> object:
    """A specification as it stands in a file, of fields that there are."""
    known = {item.name: item for item in fields(of)}
    unknown = sorted(set(table) - set(known))
    missing = [
        name for name, item in known.items() if name not in table and item.default is item.default_factory is MISSING
    ]
    if unknown or missing:
        wrong = f"nobody knows {', '.join(unknown)}" if unknown else f"lacks {', '.join(missing)}"
        raise Impossible(f"{key}: {wrong}; there are {', '.join(known)}")
    try:
        specification: object = of(**{name: frozen(value) for name, value in table.items()})
    except Impossible as error:
        raise Impossible(f"{key}: {error}") from error
    return specification
