"""The one training loop: batches that depend on their number alone, checkpoints that go on to the last bit."""

from __future__ import annotations

import ctypes
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ident.benchmark.training import distributed
from ident.benchmark.training.checkpoints import Progress, kept, load, save
from ident.benchmark.training.optimizers import Muon, State, autocast
from ident.benchmark.training.schedule import Training
from ident.render.errors import Failed, Impossible
from ident.render.signals import later

REPORT = 50
"""Steps between looks at the loss, at most: each waits for the device."""

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of glibc's allocator: from how much on freed memory is given back, and how many blocks lie by themselves."""

Batch = Any
"""What a task draws, and what its loss takes."""


class Task(Protocol):
    """What is trained, on what, for what."""

    model: nn.Module
    memory: nn.Module
    """What later batches depend on beside the model, as buffers; most tasks have an empty one."""

    def batches(self, first: int) -> Iterator[Batch]:
        """Batches from number `first` on, each the same by its number and what is remembered."""

    def loss(self, batch: Batch) -> Tensor:
        """The loss of the model on a batch."""

    def look(self) -> dict[str, float]:
        """The scores of the model as it is."""


TellStep = Callable[[int, dict[str, float]], object]
"""Is told how many steps are done, and the last loss and scores."""


def train(
    task: Task, training: Training, checkpoint: Path, recipe: str, tell: TellStep, *, seconds_between: float = 30.0
) -> Progress:
    """Train the task's model to the end, from the checkpoint if there is one; it is kept up to date.

    `recipe`, a JSON object, has all that decides the run: a checkpoint of another recipe is refused.
    """
    keep_memory()
    state = State.of(task.model, training, task.memory)
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
