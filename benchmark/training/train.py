"""The one training loop: batches that depend on their number alone, checkpoints that go on to the last bit."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import torch
from torch import Tensor, nn

from ident.benchmark.training import distributed
from ident.benchmark.training.schedule import Training
from ident.render.errors import Failed, Impossible
from ident.render.signals import later
from ident.render.store.files import open_plain, whole

FORMAT = 1
DIGEST = sha256().digest_size
"""Bytes before a checkpoint: its checksum."""
REPORT = 50
"""Steps between looks at the loss, at most: each waits for the device."""

MUON = 4.0
"""How much larger Muon's learning rate is, whose steps have the size of an orthogonal matrix."""

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of glibc's allocator: from how much on freed memory is given back, and how many blocks lie by themselves."""

Batch = Any
"""What a task draws, and what its loss takes."""

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Task(Protocol):
    """What is trained, on what, for what."""

    model: nn.Module

    def batches(self, first: int) -> Iterator[Batch]:
        """Batches from number `first` on, each the same whenever it is drawn."""

    def loss(self, batch: Batch) -> Tensor:
        """The loss of the model on a batch."""

    def look(self) -> dict[str, float]:
        """The scores of the model as it is."""


Tell = Callable[[int, dict[str, float]], object]
"""Is told how many steps are done, and the last loss and scores."""


@dataclass
class Progress:
    """How far a training is, and how it went: a point for each look."""

    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if type(self.step) is not int or self.step < 0 or not isinstance(self.seconds, float):
            raise ValueError(f"step {self.step!r} after {self.seconds!r} seconds")
        if not (isinstance(self.history, list) and all(isinstance(point, dict) for point in self.history)):
            raise TypeError("its history is no list of points")


def train(
    task: Task, training: Training, checkpoint: Path, recipe: str, tell: Tell, *, seconds_between: float = 30.0
) -> Progress:
    """Train the task's model to the end, from the checkpoint if there is one; it is kept up to date.

    `recipe`, a JSON object, has all that decides the run: a checkpoint of another recipe is refused.
    """
    keep_memory()
    state = State.of(task.model, training)
    first = distributed.rank() == 0  # which alone looks, tells and saves
    progress = load(checkpoint, recipe, state) if checkpoint.exists() else Progress()
    loss_of = distributed.parallel(Loss(task))
    distributed.agree(progress.step, f"{checkpoint}: is of other steps for other processes; give an --out that all see")
    every = max(1, training.steps // training.looks)
    losses, saved = list[Tensor](), time.monotonic()
    latest = {name: value for point in progress.history[-1:] for name, value in point.items() if name != "step"}
    batches = task.batches(progress.step)
    began = time.monotonic() - progress.seconds
    try:
        while progress.step < training.steps:
            with later(signal.SIGINT, signal.SIGTERM):  # a step is done or not
                for optimizer, highest in state.optimizers:
                    for group in optimizer.param_groups:
                        group["lr"] = highest * training.rate(progress.step)
                losses.append(step(loss_of, following(batches, checkpoint), state))
                progress.step += 1
                progress.seconds = time.monotonic() - began
                looking = progress.step % every == 0 or progress.step == training.steps
                due = time.monotonic() - saved > seconds_between or progress.step == training.steps
                if looking or due or len(losses) == REPORT:
                    latest["loss"] = last_finite(losses, progress.step, checkpoint)
                    losses.clear()
                if looking and first:
                    latest |= seen(task, progress.step, checkpoint)
                    progress.history.append({**latest, "step": progress.step})
                if not losses and first:
                    tell(progress.step, latest)
                if due:
                    if first:
                        save(checkpoint, recipe, state, progress)
                    saved = time.monotonic()
    except (KeyboardInterrupt, Lost):
        if losses:
            last_finite(losses, progress.step, checkpoint)
        if first:
            save(checkpoint, recipe, state, progress)
        raise
    return progress


def keep_memory() -> None:
    """Let the C library keep what a step frees for the next one: to get it from the system anew takes 0.3 of a step."""
    with suppress(AttributeError, OSError, TypeError):  # of other libraries than glibc
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, -1)


class Lost(Failed):
    """A batch could not be had; what was trained is kept."""


def following(batches: Iterator[Batch], checkpoint: Path) -> Batch:
    """The next batch."""
    try:
        return next(batches)
    except Failed as error:
        raise Lost(f"{error}; what is trained is kept: {checkpoint}") from error


class Loss(nn.Module):
    """A task's loss as a module, which several processes can share."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task, self.model = task, task.model

    def forward(self, batch: Batch) -> Tensor:
        """The loss on a batch."""
        return self.task.loss(batch)


Optimizers = list[tuple[torch.optim.Optimizer, float]]
"""With the highest learning rate of each."""


@dataclass(frozen=True)
class State:
    """What steps change: a model, and what moves it. In float16 losses are scaled, so that small gradients stay."""

    model: nn.Module
    optimizers: Optimizers
    scaler: torch.amp.GradScaler
    precision: str

    @classmethod
    def of(cls, model: nn.Module, training: Training) -> State:
        """As it is before the first step."""
        device = next(model.parameters()).device.type
        scaler = torch.amp.GradScaler(device, enabled=training.precision == "float16")
        return cls(model, optimizers_of(model, training), scaler, training.precision)

    @property
    def device(self) -> torch.device:
        """The model's."""
        return next(self.model.parameters()).device


def optimizers_of(model: nn.Module, training: Training) -> Optimizers:
    """What moves the model's parameters. Vectors of a module that has `times_the_rate` move so many times as fast."""
    rates = {
        parameter: float(getattr(module, "times_the_rate", 1))
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
        if parameter.requires_grad
    }
    matrices = [parameter for parameter in rates if parameter.ndim in (2, 4) and training.optimizer == "muon"]
    made: Optimizers = []
    if matrices:
        made.append((Muon(matrices), MUON * training.learning_rate))
    for rate in dict.fromkeys(rates.values()):
        others = [it for it in rates if rates[it] == rate and not any(it is matrix for matrix in matrices)]
        if others:
            made.append((torch.optim.Adam(others, fused=True), rate * training.learning_rate))  # one pass over them
    return made


class Muon(torch.optim.Muon):
    """Muon for matrices, and for kernels (out, in, h, w) as the matrices (out, in * h * w) that they are in memory."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self.weights = weights
        self.matrices = [nn.Parameter(as_matrix(weight.data, weight)) for weight in weights]
        super().__init__(self.matrices, weight_decay=0.0)

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: ARG002
        """Forget all gradients."""
        for one in (*self.weights, *self.matrices):
            one.grad = None

    def take(self) -> None:
        """Take over the gradients of the weights."""
        for weight, matrix in zip(self.weights, self.matrices, strict=True):
            matrix.grad = None if weight.grad is None else as_matrix(weight.grad, weight)


def as_matrix(x: Tensor, weight: Tensor) -> Tensor:
    """A kernel as a matrix, its elements in the order in which the weight's lie: of that itself, it is a view."""
    if x.ndim == 2:
        return x
    last = weight.is_contiguous(memory_format=torch.channels_last)
    return (x.permute(0, 2, 3, 1) if last else x).flatten(1)


def step(loss_of: nn.Module, batch: Batch, state: State) -> Tensor:
    """One step of the training; gives its loss."""
    loss_of.train()
    for optimizer, _ in state.optimizers:
        optimizer.zero_grad()
    with autocast(state.device, state.precision):
        loss: Tensor = loss_of(batch)
    state.scaler.scale(loss).backward()
    for optimizer, _ in state.optimizers:
        if isinstance(optimizer, Muon):
            optimizer.take()
        state.scaler.step(optimizer)
    state.scaler.update()
    return loss.detach()


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Products of matrices in less than float32, where that is wanted."""
    return torch.autocast(device.type, PRECISIONS[precision], enabled=PRECISIONS[precision] is not None)


def seen(task: Task, step: int, checkpoint: Path) -> dict[str, float]:
    """The scores as they are, of the model in evaluation mode."""
    task.model.eval()
    try:
        with torch.no_grad():
            return task.look()
    except Impossible as error:
        raise Failed(f"at step {step}: {error}; {kept(checkpoint)}") from error


def last_finite(losses: list[Tensor], step: int, checkpoint: Path) -> float:
    """The last of the losses, if all are finite."""
    values = torch.stack(losses)
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        at = step - len(losses) + int(bad[0]) + 1
        raise Failed(f"the loss is {float(values[bad[0, 0]])} at step {at}; {kept(checkpoint)}")
    return float(values[-1])


def kept(checkpoint: Path) -> str:
    """What is left of a training that fails."""
    return f"the last good checkpoint is kept: {checkpoint}" if checkpoint.exists() else "no checkpoint was written yet"


def save(checkpoint: Path, recipe: str, state: State, progress: Progress) -> None:
    """Write a checkpoint, whole or not at all; of a model that is finite, or the one before stays."""
    if not all(bool(weights.isfinite().all()) for weights in state.model.parameters()):
        raise Failed(f"a weight is not finite at step {progress.step}; {kept(checkpoint)}")
    written = {
        "format": FORMAT,
        "recipe": recipe,
        "model": state.model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer, _ in state.optimizers],
        "scaler": state.scaler.state_dict(),
        "progress": vars(progress),
    }
    content = BytesIO()
    torch.save(written, content)
    try:
        with whole(checkpoint) as part:
            part.write_bytes(sha256(content.getbuffer()).digest() + content.getbuffer())
    except OSError as error:
        raise Failed(f"{checkpoint}: {error.strerror}; {kept(checkpoint)}") from error


def differing(theirs: str, ours: str) -> str:
    """What a recipe has otherwise than another, both JSON objects; nothing where they are the same."""
    one, other = json.loads(theirs), json.loads(ours)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return "; ".join(f"of {name} {one.get(name)!r}, not {other.get(name)!r}" for name in names)


def load(checkpoint: Path, recipe: str, state: State) -> Progress:
    """Bring model and optimizers to where a checkpoint left them. Nothing in it is run."""
    try:
        with os.fdopen(open_plain(checkpoint), "rb") as file:
            content = file.read()
        digest, content = content[:DIGEST], content[DIGEST:]
        if sha256(content).digest() != digest:
            raise ValueError("its checksum is another")
        with ZipFile(BytesIO(content)) as archive:
            if any(member.compress_type != ZIP_STORED for member in archive.infolist()):
                raise ValueError("it is packed, and may be of any size")
        with warnings.catch_warnings(action="ignore"):  # of what is no checkpoint at all
            written: dict[str, Any] = torch.load(BytesIO(content), map_location=state.device, weights_only=True)
        version, other = written["format"], differing(written["recipe"], recipe)
    except Failed as error:
        raise Failed(f"{error}; delete it to begin that run anew") from error
    except (
        BadZipFile,
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        OSError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:
        raise Failed(f"{checkpoint}: is damaged ({type(error).__name__}); delete it to begin that run anew") from error
    if version != FORMAT:
        raise Impossible(f"{checkpoint}: is of format {version!r}, this version of ident reads {FORMAT}")
    if other:
        raise Impossible(f"{checkpoint}: belongs to another run, {other}; give another --out, or --force")
    try:
        state.model.load_state_dict(written["model"])
        for (optimizer, _), its in zip(state.optimizers, written["optimizers"], strict=True):
            optimizer.load_state_dict(its)
        state.scaler.load_state_dict(written["scaler"])
        return Progress(**written["progress"])
    except (RuntimeError, LookupError, AttributeError, TypeError, ValueError) as error:
        raise Failed(f"{checkpoint}: does not fit its run ({error}); delete it to begin that run anew") from error
