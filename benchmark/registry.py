"""What can stand in the slots of a row, by name, and how a row writes it: name(arguments), as in the papers' tables.

A family's names are listed without importing what they stand for, and `module:name` of a user's is as good as a name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ident.render import plugins
from ident.render.errors import Impossible, unknown

Argument = int | float | str

LONGEST = 2000
"""Characters of a slot."""


@dataclass(frozen=True)
class Slot:
    """What a row has in a slot: `infonce(gennorm(3))`, `drawn(laplace(0.05))`, `my_pairs:close(0.1)`."""

    name: str
    arguments: tuple[Argument, ...] = ()
    keywords: tuple[tuple[str, Argument], ...] = ()

    def __str__(self) -> str:
        parts = [written(value) for value in self.arguments]
        parts += [f"{name}={written(value)}" for name, value in self.keywords]
        return f"{self.name}({', '.join(parts)})" if parts else self.name


def written(value: Argument) -> str:
    """An argument as a text; numbers as short as they are exact."""
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


def read_slot(text: str) -> Slot:
    """A slot as it is written."""
    outer = re.fullmatch(r"\s*([\w.:/-]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL) if len(text) <= LONGEST else None
    if outer is None:
        raise Impossible(f"{text[:80]!r}: write it like infonce(normal)")
    values, named = list[Argument](), dict[str, Argument]()
    for part in split_outside_brackets(outer[2] or "", text):
        key = re.match(r"([A-Za-z_]\w*)\s*=\s*", part)
        if key and key[1] in named:
            raise Impossible(f"{text!r}: {key[1]} is there twice")
        if key:
            named[key[1]] = argument(part[key.end() :])
        elif named:
            raise Impossible(f"{text!r}: {part!r} follows what has a name")
        else:
            values.append(argument(part))
    return Slot(outer[1], tuple(values), tuple(named.items()))


def split_outside_brackets(text: str, whole: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise Impossible(f"{whole!r}: its brackets do not close")
    parts = [part.strip() for part in parts]
    if "" in parts and parts != [""]:
        raise Impossible(f"{whole!r}: nothing stands between two commas")
    return [part for part in parts if part]


def argument(text: str) -> Argument:
    """A number where it is one, else the text."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text.strip()


@dataclass(frozen=True)
class Family:
    """All that can stand in one kind of slot: by name, the "module:attribute" that is imported when it is used."""

    noun: str
    entries: Mapping[str, str]
    example: str

    def check(self, name: object) -> None:
        """Refuse what nobody knows and, as module:name, is nothing of the user's. Nothing is imported."""
        if isinstance(name, str) and (name in self.entries or plugins.is_one(name)):
            return
        raise unknown(self.noun, name, self.entries, "module:name of yours")

    def load(self, name: str) -> Callable[..., Any]:
        """What a name stands for."""
        self.check(name)
        return plugins.load_callable(self.entries.get(name, name))

    def make(self, slot: Slot, *context: Any, **available: Any) -> Any:
        """Call what a slot names by its context and arguments, and by those of the available keywords that it takes."""
        entry = self.load(slot.name)
        values, named = [*context, *slot.arguments], dict(slot.keywords)
        named |= {name: value for name, value in available.items() if name in takes(entry) and name not in named}
        try:
            bound = inspect.signature(entry).bind(*values, **named)
        except TypeError as error:
            raise Impossible(f"{self.noun} {slot}: {error}; it takes {', '.join(takes(entry))}") from error
        return entry(*bound.args, **bound.kwargs)


def takes(entry: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters that something can be called with by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(name for name, one in inspect.signature(entry).parameters.items() if one.kind in kinds)


HERE = "ident.benchmark"

MIXED = "mixed"
"""The tiers of latents that a network mixes."""


@dataclass(frozen=True)
class Traits:
    """What is known of a source without importing it."""

    entry: str = ""
    """The "module:attribute" that is imported when it is used."""
    images: str = ""
    """Where its images come from: they are `stored` in a dataset, `drawn`, `decoded` from latents, or `pictures` with
    classes, of which no other factor is known; nothing of latents.
    """
    observations: str = MIXED
    """The table of `tiers.toml` that says how long it is trained on."""
    latents: bool = False
    """Whether its first arguments are the space of its latents and how they lie there."""
    files: bool = False
    """Whether it reads files of others', in the folder that `--data` names, and can give their `digest`."""
    classes: bool = False
    """Whether it has classified images, and views of them, see `Metric.views`."""
    discrete: bool = False
    """Whether all its factors have values that recur."""


TRAITS: Mapping[str, Traits] = {
    "dataset": Traits(f"{HERE}.sources.dataset:Images", "stored", "dataset"),
    "mixed": Traits(f"{HERE}.sources.mixed:Mixed", latents=True),
    "latents": Traits(f"{HERE}.sources.mixed:Latents", latents=True),
    "opposite": Traits(f"{HERE}.sources.mixed:Opposite", latents=True, classes=True),
    "decoded": Traits(f"{HERE}.sources.decoded:Decoded", "decoded", "digits", latents=True, files=True, classes=True),
    "dsprites": Traits(f"{HERE}.sources.dsprites:DSprites", "drawn", "sprites", discrete=True),
    "natural-sprites": Traits(f"{HERE}.sources.tracks:NaturalSprites", "drawn", "sprites", files=True),
    "smooth-tracks": Traits(f"{HERE}.sources.tracks:SmoothTracks", "drawn", "sprites"),
    "kitti-masks": Traits(f"{HERE}.sources.masks:KittiMasks", "drawn", "sprites", files=True),
    "walkers": Traits(f"{HERE}.sources.masks:Walkers", "drawn", "sprites"),
    "cifar10": Traits(f"{HERE}.sources.pictures:CIFAR10", "pictures", "cifar10", files=True, classes=True),
    "image-folder": Traits(
        f"{HERE}.sources.pictures:ImageFolder", "pictures", "image-folder", files=True, classes=True
    ),
}
SOURCES = Family("source", {name: traits.entry for name, traits in TRAITS.items()}, example="dataset")


def traits_of(source: str) -> Traits:
    """What is known of a source: of a user's, that it gives something like mixed latents."""
    return TRAITS.get(source, Traits())


PAIRS = Family(
    "pairs",
    {
        "around": f"{HERE}.pairs.of_images:Around",
        "augmented": f"{HERE}.pairs.of_images:Augmented",
        "augmented-or-not": f"{HERE}.pairs.of_images:AugmentedOrNot",
        "drawn": f"{HERE}.pairs.drawn:Drawn",
        "among": f"{HERE}.pairs.drawn:Among",
        "labelled": f"{HERE}.pairs.labelled:Labelled",
        "uniform-change": f"{HERE}.pairs.changes:UniformChange",
        "laplace-change": f"{HERE}.pairs.changes:LaplaceChange",
        "tracks": f"{HERE}.pairs.changes:Tracks",
        "temporal": f"{HERE}.pairs.changes:Temporal",
    },
    example="drawn(laplace(0.05))",
)
OBJECTIVES = Family(
    "objective",
    {
        "infonce": f"{HERE}.objectives.contrastive:InfoNCE",
        "decoupled": f"{HERE}.objectives.contrastive:Decoupled",
        "align-uniform": f"{HERE}.objectives.contrastive:AlignUniform",
        "au": f"{HERE}.objectives.contrastive:AU",
        "aninfonce": f"{HERE}.objectives.contrastive:AnInfoNCE",
        "ensemble": f"{HERE}.objectives.contrastive:Ensemble",
        "tricl": f"{HERE}.objectives.contrastive:TriCL",
        "supervised": f"{HERE}.objectives.supervised:Supervised",
        "told": f"{HERE}.objectives.supervised:Told",
        "beta-vae": f"{HERE}.objectives.variational:BetaVAE",
        "slow-vae": f"{HERE}.objectives.variational:SlowVAE",
        "ada-gvae": f"{HERE}.objectives.variational:AdaGVAE",
        "factor-vae": f"{HERE}.objectives.variational:FactorVAE",
    },
    example="infonce(normal)",
)
AUGMENTATIONS = ("crop", "flip", "brightness", "contrast", "saturation", "hue", "jitter", "grey", "blur", "all")
"""What is done to views of images; `jitter` is what is done to brightness, contrast, saturation and hue."""
NEIGHBOURS = (1, 5, 20, 200)
"""That vote for a class."""
METRICS = Family(
    "metric",
    {
        "r2": f"{HERE}.metrics.r2:R2",
        "mcc": f"{HERE}.metrics.mcc:MCC",
        "spearman": f"{HERE}.metrics.mcc:SPEARMAN",
        "beta-vae": f"{HERE}.metrics.beta_vae:BETA_VAE",
        "factor-vae": f"{HERE}.metrics.factor_vae:FACTOR_VAE",
        "mig": f"{HERE}.metrics.mig:MIG",
        "dci": f"{HERE}.metrics.dci:DCI",
        "dci-completeness": f"{HERE}.metrics.dci:COMPLETENESS",
        "dci-informativeness": f"{HERE}.metrics.dci:INFORMATIVENESS",
        "dci-explicitness": f"{HERE}.metrics.explicitness:EXPLICITNESS",
        "modularity": f"{HERE}.metrics.modularity:MODULARITY",
        "sap": f"{HERE}.metrics.sap:SAP",
        "infom": f"{HERE}.metrics.infomec:INFOM",
        "infoe": f"{HERE}.metrics.infomec:INFOE",
        "infoc": f"{HERE}.metrics.infomec:INFOC",
        "readout": f"{HERE}.metrics.readout:READOUT",
        "kernel-readout": f"{HERE}.metrics.readout:KERNEL_READOUT",
        "classes": f"{HERE}.metrics.classifier:CLASSES",
        **{f"knn({k})": f"{HERE}.metrics.knn:KNN{k}" for k in NEIGHBOURS},
        **{f"augmentation({name})": f"{HERE}.metrics.classifier:{name.upper()}" for name in AUGMENTATIONS},
    },
    example="r2",
)
CHECKS = Family(
    "check",
    {
        "distances": f"{HERE}.metrics.distances:DISTANCES",
        "orthogonality": f"{HERE}.metrics.orthogonality:ORTHOGONALITY",
        "leakage": f"{HERE}.metrics.leakage:LEAKAGE",
        "critic": f"{HERE}.metrics.critic:CRITIC",
        "precisions": f"{HERE}.metrics.precisions:PRECISIONS",
    },
    example="distances",
)
"""Metrics that say how far a training is from what a theorem says: 0 is best."""
ENCODERS = Family(
    "encoder",
    {
        "mlp": f"{HERE}.models.dense:mlp",
        "conv": f"{HERE}.models.convolutional:conv",
        "dense": f"{HERE}.models.dense:dense",
        "resnet18": f"{HERE}.models.resnets:resnet18",
        "resnet18-narrow": f"{HERE}.models.resnets:resnet18_narrow",
        "resnet18-small": f"{HERE}.models.resnets:resnet18_small",
        "resnet50": f"{HERE}.models.resnets:resnet50",
        "resnet18-pooled": f"{HERE}.models.resnets:resnet18_pooled",
        "resnet50-pooled": f"{HERE}.models.resnets:resnet50_pooled",
        "resnet101": f"{HERE}.models.resnets:resnet101",
    },
    example="resnet18",
)
