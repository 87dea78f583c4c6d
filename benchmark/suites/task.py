"""A run as what `train` trains: a source, pairs, an objective and an encoder, and the scores of what is recovered."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ident.benchmark import metrics
from ident.benchmark.metrics import Score, classifier
from ident.benchmark.models import encoders
from ident.benchmark.objectives.contrastive import OwnLoss
from ident.benchmark.objectives.objective import Encode, Objective
from ident.benchmark.pairs.augmentations import views
from ident.benchmark.pairs.bank import Bank
from ident.benchmark.pairs.batch import Batch, Pairs
from ident.benchmark.pairs.own import OwnPairs
from ident.benchmark.registry import AUGMENTATIONS, OBJECTIVES, PAIRS, SOURCES
from ident.benchmark.sources.dataset import Images
from ident.benchmark.sources.decoded import Decoded
from ident.benchmark.sources.mixed import Latents
from ident.benchmark.sources.pictures import Pictures
from ident.benchmark.sources.source import Source
from ident.benchmark.suites import decodings, theory
from ident.benchmark.suites.digits_vae import decoder_of
from ident.benchmark.suites.rows import UNTRAINED
from ident.benchmark.suites.runs import Run
from ident.benchmark.suites.suite import BACKBONE
from ident.benchmark.training import distributed
from ident.benchmark.training.optimizers import autocast
from ident.benchmark.training.seeds import Stream, generator_of, seeded, stream
from ident.render.aliases import Float64s
from ident.render.errors import Impossible
from ident.render.threads import in_order
from ident.render.worlds.factors import Category, Kind

FEW = 256
"""Anchors of a batch that only shows whether an objective takes such pairs."""
LEAST = 20
"""Batches that the loss of the truth is the mean of."""


def source_of(run: Run, device: torch.device) -> Source:
    """The source of a run."""
    available = {"seed": run.seed, "device": device, "data": run.data, "decoders": partial(decoder_of, run.tier)}
    source = SOURCES.make(run.row.source, **available)
    if not isinstance(source, Source):
        raise Impossible(
            f"source {run.row.source}: gave {type(source).__name__}; give what inherits {Source.__module__}.Source"
        )
    return source


def pairs_of(run: Run, source: Source) -> Pairs:
    """What a run is trained on, of its source."""
    if isinstance(source, Images | Pictures):
        source.checked(run.training.batch_size)
    entry = PAIRS.load(run.pairs.name)
    if run.pairs.name not in PAIRS.entries and not isinstance(entry, type):
        if not isinstance(source, Images):
            raise Impossible(f"pairs {run.pairs}: choose among stored images; give a row whose source is dataset")
        return OwnPairs(source, run.pairs.name, entry, *run.pairs.arguments, **dict(run.pairs.keywords))
    training = run.training
    context = {"seed": run.seed, "steps": training.steps, "batch_size": training.batch_size}
    context["dim"] = latents_of(run, source)
    pairs = PAIRS.make(run.pairs, source, **context, **run.options)
    if not isinstance(pairs, Pairs):
        raise Impossible(f"pairs {run.pairs}: gave {type(pairs).__name__}; give what inherits {Pairs.__module__}.Pairs")
    return pairs


def latents_of(run: Run, source: Source) -> int:
    """How many latents a run recovers."""
    if run.projector:
        return run.projector[-1]
    return (run.tier.model.latents if run.kind == "unsupervised" else 0) or source.dim


def objective_of(run: Run, source: Source) -> Objective:
    """What a run is trained for."""
    slot = run.row.slot(run.kind)
    entry = OBJECTIVES.load(slot.name)
    with seeded(stream(run.seed, Stream.OBJECTIVE)):
        if slot.name in OBJECTIVES.entries or (isinstance(entry, type) and issubclass(entry, Objective)):
            context = {"dim": latents_of(run, source), "conditionals": len(run.row.conditionals), "seed": run.seed}
            context |= run.objective_options
            objective: Objective = OBJECTIVES.make(slot, **context, shape=source.shape)
            return objective
        return OwnLoss(slot.name, entry(*slot.arguments) if isinstance(entry, type) else entry)


def check(runs: Sequence[Run]) -> None:
    """Refuse, before anything is trained, what cannot be: each source, its pairs and objective are made once.

    Where pairs are drawn in no time the objective has a batch of the last ones, of outputs that mean nothing.
    """
    checked = set[str]()
    for run in runs:
        setting = json.dumps(run.row.setting(run.kind))
        if run.kind in UNTRAINED or setting in checked:
            continue
        checked.add(setting)
        source = source_of(run, torch.device("cpu"))
        pairs, objective = pairs_of(run, source), objective_of(run, source)
        ours = run.pairs.name in PAIRS.entries and run.row.slot(run.kind).name in OBJECTIVES.entries
        if ours and not isinstance(source, Images | Pictures | Decoded):
            last = pairs.batch(run.training.steps - 1, min(FEW, run.training.batch_size))
            objective(at_random(objective.outputs * latents_of(run, source)), last)


def at_random(width: int) -> Encode:
    """An encoder whose outputs (n, width) have nothing to do with what it sees."""
    return lambda observations: torch.randn(len(observations), width, generator=torch.Generator().manual_seed(0))


def fitted(encoder: nn.Sequential, source: Source, *, whiten: bool, kind: str) -> nn.Sequential:
    """An encoder that sees a source's observations normalised; of the identity, none: images as numbers."""
    if kind == "identity" and source.moments is not None:
        return nn.Sequential(nn.Flatten())
    if source.moments is not None:
        return encoders.for_images(encoder, source.moments)
    if not source.encoded or kind == "identity":
        return nn.Sequential()
    return encoders.whitened(encoder, source.measured()) if whiten else encoder


class RowTask:
    """The task of a run. Its batches follow from the source, the seed and their number."""

    def __init__(self, run: Run, device: str) -> None:
        self.run, self.device = run, torch.device(device)
        self.source = source_of(run, self.device)
        self.splits = self.source.splits + (BACKBONE,) * run.has_backbone
        model = run.tier.model
        self.objective, self.memory = Objective(), nn.Module()
        if run.kind not in UNTRAINED:
            self.objective = objective_of(run, self.source)
            self.pairs = pairs_of(run, self.source)
            self.memory = self.pairs.bank or self.memory
        with seeded(stream(run.seed, Stream.ENCODER)):
            encoder = encoders.encoder(
                latents_of(run, self.source),
                run.row.space,
                run.side,
                model.encoder,
                outputs=self.objective.outputs,
                shape=self.source.shape,
                projector=run.projector,
            )
        encoder.to(self.device)
        self.encoder = fitted(encoder, self.source, whiten=model.whiten, kind=run.kind)
        distributed.with_shared_norms(self.encoder)
        if model.compile:
            self.encoder.compile()
        self.model: nn.Module = nn.ModuleDict({"encoder": self.encoder, "objective": self.objective}).to(self.device)

    def batches(self, first: int) -> Iterator[Batch]:
        """Batches from number `first` on. Of images several are decoded ahead by threads, while the encoder works."""
        self.pairs.ready()
        choices: Iterator[tuple[int, Tensor | None]] = ((number, None) for number in count(first))
        if isinstance(self.memory, Bank):
            choices = self.memory.choices(first, self.critic)
        drawn = (self.batch(*choice) for choice in choices)
        if ahead := self.source.ahead:
            drawn = (batch for _, batch in in_order(lambda choice: self.batch(*choice), choices, ahead=ahead))
        for batch in drawn:
            yield batch.to(self.device)

    def batch(self, number: int, anchors: Tensor | None = None) -> Batch:
        """The share that this process has of batch `number`, of these anchors if some were chosen."""
        chosen = {} if anchors is None else {"anchors": anchors}
        return replace(self.pairs.batch(number, self.run.training.batch_size, **chosen), number=number)

    def loss(self, batch: Batch) -> Tensor:
        """The loss of the objective on a batch."""
        batch = self.pairs.prepare(batch)
        if not isinstance(self.memory, Bank) or batch.images is None:
            loss: Tensor = self.objective(self.encode, batch)
            return loss
        points = list[Tensor]()

        def encode(observations: Tensor) -> Tensor:
            points.append(self.encode(observations))
            return points[-1]

        loss = self.objective(encode, batch)
        with torch.no_grad():
            self.memory.remember(batch.images, distributed.gather(points[-1])[: len(batch.images)])
        return loss

    def encode(self, observations: Tensor) -> Tensor:
        """Representations (n, k) of observations (n, ...): of all at once, or of as many at a time as the tier says."""
        chunk = self.run.tier.model.chunk
        if not chunk or not torch.is_grad_enabled():
            representations: Tensor = self.encoder(observations)
            return representations
        parts = observations.split(chunk)

        def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
            return nullcontext(), standing(self.encoder)

        return torch.cat([checkpoint(self.encoder, part, use_reentrant=False, context_fn=contexts) for part in parts])

    def critic(self, a: Tensor, b: Tensor) -> Tensor:
        """How alike (m, n) representations (m, k) and (n, k) are to the objective as it is, on the CPU."""
        with torch.no_grad():
            similarities: Tensor = self.objective.critic(a.to(self.device), b.to(self.device))
        return similarities.cpu()

    def represent(self, observations: Tensor) -> Tensor:
        """What stands for the factors (n, k) of observations (n, ...)."""
        return self.objective.latents(self.encode(observations.to(self.device)))

    def decoded(self, representation: Tensor) -> tuple[bytes, ...] | None:
        """PNGs of reconstructions, of walks along latents, and of views, where the objective has a decoder."""
        decode = self.objective.decode
        if decode is None:
            return None
        self.model.eval()
        with torch.no_grad():
            shown = decodings.decoded(self.source, self.represent, decode, representation)
            if self.pairs.augmentations is None:
                return shown
            image = self.source.pictures.images(np.zeros(1, np.int64))
            augmented = decodings.views(image, self.pairs.augmentations, seed=self.run.seed)
            return (*shown, decodings.projected(augmented, self.represent, decode))

    def before_projector(self, observations: Tensor) -> Tensor:
        """What the projector takes (n, k) of observations (n, ...)."""
        layers: Any = self.encoder
        normalise, (network, *_) = layers
        features: Tensor = network(normalise(observations.to(self.device)))
        return features

    def recovered(self, split: str) -> tuple[Tensor, Tensor]:
        """Factors (samples, d) of a split and the representation (samples, k) of the model as it is, on the CPU."""
        factors, observations = self.source.samples("test" if split == BACKBONE else split, self.run.samples)
        return factors.cpu(), self.represented(observations, split)

    def represented(self, observations: Iterable[Tensor], split: str) -> Tensor:
        """The representation (samples, k) of observations by the model as it is, or what its projector takes."""
        self.model.eval()
        layer = self.before_projector if split == BACKBONE else self.represent
        precision = "float32" if self.run.kind in UNTRAINED else self.run.training.precision
        with torch.no_grad(), autocast(self.device, precision):
            parts = [layer(part).float().cpu() for part in observations]
        return torch.cat(parts)

    def classified(self, augmentation: str, split: str) -> tuple[Tensor, Tensor, Sequence[Kind]]:
        """Classes (n, 1) of pictures and their representation (n, k); or whether they have an augmentation, and theirs.

        Of a random half of them they do. What classifiers are fitted on comes first, see `classifier`.
        """
        source = self.source.pictures
        fitted, tested = classifier.split(classifier.most(self.run.samples, *source.counts()))
        labels, images = source.classified(fitted, tested)
        kinds = [Category(source.classes)]
        if augmentation:
            number = Stream.VIEWS, AUGMENTATIONS.index(augmentation)
            labels = torch.randint(2, labels.shape, generator=generator_of(self.run.seed, *number)).float()
            generator = generator_of(self.run.seed, *number, 1, device=self.device)
            images = views(images, labels[:, 0] > 0, augmentation, generator=generator)
            kinds = [Category(("without", "with"))]
        return labels, self.represented(images, split), kinds

    def look(self) -> dict[str, float]:
        """The scores that are taken on the way, and what the objective has learned."""
        followed = self.run.row.followed and self.run.kind == "unsupervised"
        recovered = self.recovered("test") if followed else None
        alike = self.alike(self.run.looks, "test", recovered)
        values = {name: metrics.value(name, *pair, **more) for names, pair, more in alike for name in names}
        scores = {name: values[name] for name in self.run.looks}
        if recovered is not None:
            latents = metrics.load("r2")(*recovered)
            scores |= {f"r2 {name}": float(latents[list(some)].mean()) for name, some in self.run.row.groups.items()}
            scores |= {"loss of the truth": self.least} if self.least is not None else {}
        return scores | {f"lambda {i}": value for i, value in enumerate(self.objective.learned())}

    @cached_property
    def least(self) -> float | None:
        """The loss of the true latents and precisions, on batches of the size that is trained on."""
        precisions = theory.optimum_of(self.run.row)
        if not precisions or not isinstance(self.source, Latents):
            return None
        space, marginal = self.run.row.latent_space, self.run.row.marginal
        pairs: Pairs = pairs_of(self.run, Latents(space, marginal, seed=self.run.seed, device=self.device))
        slot = self.run.row.slot(self.run.kind)
        slot = replace(slot, keywords=tuple(pair for pair in slot.keywords if pair[0] != "softplus"))
        true: Any = OBJECTIVES.make(slot, dim=self.source.dim, conditionals=len(self.run.row.conditionals))
        for module, values in zip(true.losses, np.reshape(precisions, (-1, self.source.dim)), strict=True):
            module.log_precisions.data.copy_(torch.from_numpy(values).log())
        true.to(self.device)
        after, size = self.run.training.steps, self.run.training.batch_size
        with torch.no_grad():
            losses = [float(true(lambda z: z, pairs.batch(after + number, size))) for number in range(LEAST)]
        return float(np.mean(losses))

    def scores(self, split: str, factors: Tensor, representation: Tensor) -> dict[str, Score]:
        """All scores of what is recovered of a split, and its suite's checks, with intervals and chance."""
        known, scores = self.facts(), dict[str, Score]()
        checks = (name for name in self.run.checks if not metrics.load(name).lacks(known))
        reported = (*self.run.metrics, *checks)
        for names, pair, more in self.alike(reported, split, (factors, representation)):
            outcomes = metrics.score_each(names, *pair, **(more | known))
            for name, (_, outcome) in zip(names, outcomes, strict=True):
                if isinstance(outcome, Impossible):
                    raise outcome
                scores[name] = outcome
        return {name: scores[name] for name in reported}

    def alike(
        self, names: Iterable[str], split: str, recovered: tuple[Tensor, Tensor] | None = None
    ) -> Iterator[tuple[Sequence[str], tuple[Tensor, Tensor], dict[str, Any]]]:
        """Names of metrics, the factors (n, d) and representation (n, k) that these share, and what else they take."""
        of_views = defaultdict[str | None, list[str]](list)
        for name in names:
            of_views[metrics.load(name).views].append(name)
        for augmentation, alike in of_views.items():
            if augmentation is None:
                factors, representation = recovered or self.recovered(split)
                kinds: Sequence[Kind] = [factor.kind for factor in self.source.factors]
            else:
                factors, representation, kinds = self.classified(augmentation, split)
            yield alike, (factors, representation), {"seed": stream(self.run.seed, Stream.RESAMPLES), "kinds": kinds}

    def facts(self) -> dict[str, Any]:
        """What checks can be given: what theory says of the row, and what the objective has learned and compares by."""
        if self.run.kind != "unsupervised" or not self.run.checks:
            return {}
        known = theory.facts(self.run.row)
        if learned := self.objective.learned():
            known["learned"] = learned
        if self.run.row.objective.name in theory.WITH_CRITIC:

            def critic(points: Float64s) -> Float64s:
                here = torch.from_numpy(points)
                return self.critic(here, here).double().numpy()

            known["critic"] = critic
        return known


@contextmanager
def standing(model: nn.Module) -> Iterator[None]:
    """Let the running means and variances of batch norms stand as they are: what is computed again counts once."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
