"""Runs of a suite, each to its result: here, by Ray, or in several processes that share each batch."""

from __future__ import annotations

import os
import pickle
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from ident.benchmark.latents import distributions
from ident.benchmark.suites.results import DECODED, NEIGHBOURS, RECOVERED, RESULT, Result
from ident.benchmark.suites.rows import UNTRAINED
from ident.benchmark.suites.runs import Run, recipe_of, result_of
from ident.benchmark.suites.suite import Suite
from ident.benchmark.suites.task import RowTask
from ident.benchmark.training import distributed
from ident.benchmark.training.checkpoints import Progress
from ident.benchmark.training.train import train
from ident.render import children
from ident.render.errors import Failed, Impossible
from ident.render.stage import cluster
from ident.render.store import files
from ident.render.threads import cores

CHECKPOINT, MODEL, SCALARS = "checkpoint.pt", "model.pt", "tensorboard"
"""A run's checkpoint, its trained model, and the folder of TensorBoard's curves."""

MADE = re.compile(
    "|".join([files.TEMPORARY.pattern, *map(re.escape, (RESULT, RECOVERED, NEIGHBOURS, *DECODED, CHECKPOINT, MODEL))])
)
EVENTS = re.compile(r"events\.out\.tfevents\..+")
"""The names of a run's files, and of those that TensorBoard's writer makes."""

Watch = Callable[[Run, int, dict[str, float]], object]
"""Is told of a run how many steps are done, and the last loss and scores."""


ALONE = 2048
"""Mixed latents in a batch up to which one thread trains: threads gain little there, and wait for each other."""


@contextmanager
def threads_for(run: Run) -> Iterator[None]:
    """Let PyTorch use as many threads as suit a run. With one, the result is the same on any number of cores."""
    before = torch.get_num_threads()
    many = run.row.stored or run.row.pictures or run.training.batch_size > ALONE
    torch.set_num_threads(before if many else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def perform(run: Run, folder: Path, device: str, tell: Callable[[int, dict[str, float]], object]) -> Result | None:
    """Do a run, from its checkpoint if there is one, and write its result."""
    with threads_for(run):
        return performed(run, folder, device, tell)


def performed(run: Run, folder: Path, device: str, tell: Callable[[int, dict[str, float]], object]) -> Result | None:
    """`perform` with the threads that there are."""
    place = files.make_inside(folder, run.name)
    task, progress = RowTask(run, device), Progress()
    if run.kind not in UNTRAINED and any(True for _ in task.model.parameters()):
        made_by = recipe_of(run, device=torch.device(device).type)  # whose random numbers are others
        try:
            with scalars(place / SCALARS) as write:
                progress = train(
                    task, run.training, place / CHECKPOINT, made_by, lambda *far: (write(*far), tell(*far))
                )
        except Failed as error:
            raise Failed(f"{run.name}: {error}") from error
    if distributed.rank():  # the first process does the rest
        return None
    recovered = {split: task.recovered(split) for split in task.splits}
    result = Result(
        suite=run.suite,
        tier=run.tier.name,
        row=run.row.id,
        own=", ".join(run.own),
        kind=run.kind,
        seed=run.seed,
        recipe=recipe_of(run),
        factors=tuple(factor.name for factor in task.source.factors),
        scores={split: task.scores(split, *pair) for split, pair in recovered.items()},
        learned=tuple(task.objective.learned()),
        history=tuple(progress.history),
        seconds=progress.seconds,
        data={split: data.place for split, data in run.data.items()},
        machine=machine(device),
        folder=place,
    )
    factors, representation = recovered["test"]
    if run.kind != "identity" or not run.row.stored:  # whose pixels lie in the dataset
        with files.whole(place / RECOVERED) as part, part.open("wb") as file:
            np.savez(file, latents=factors.numpy(), recovered=representation.numpy())
    if (picture := task.source.picture(representation)) is not None:
        files.write(place / NEIGHBOURS, picture)
    for name, picture in zip(DECODED, task.decoded(representation) or (), strict=False):
        files.write(place / name, picture)
    if run.kind not in UNTRAINED:
        with files.whole(place / MODEL) as part, part.open("wb") as file:
            torch.save(task.model.state_dict(), file)
    files.write(place / RESULT, result.text().encode())
    (place / CHECKPOINT).unlink(missing_ok=True)
    return result


@contextmanager
def scalars(folder: Path) -> Iterator[Callable[[int, dict[str, float]], object]]:
    """Gives a function that writes losses and scores for TensorBoard."""
    if distributed.rank():
        yield lambda *_: None
        return
    from torch.utils.tensorboard import SummaryWriter  # here: it takes a second

    with ExitStack() as stack:
        writers = list[SummaryWriter]()

        def write(step: int, last: dict[str, float]) -> None:
            if not writers:
                files.make_inside(folder.parent, folder.name)
                # What was written after the checkpoint that this goes on from is written again.
                writers.append(stack.enter_context(SummaryWriter(folder, purge_step=step)))
            for name, value in last.items():
                writers[0].add_scalar(name, value, step)

        yield write


def machine(device: str) -> dict[str, Any]:
    """What ran, and on what."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "CPU"
    return {
        "ident": version("ident3d"),
        "torch": torch.__version__,
        "device": device,
        "name": name,
        "threads": torch.get_num_threads(),
    }


def without_scale(runs: Sequence[Run]) -> set[str]:
    """The conditionals of runs on datasets that give no scale, and get the tier's."""
    texts = {text for run in runs if run.kind == "unsupervised" for text in run.row.conditionals if run.row.stored}
    return {text for text in texts if distributions.parse(text, 1.0) != distributions.parse(text, 2.0)}


def devices() -> tuple[str, ...]:
    """What PyTorch can train on here."""
    return (
        "cpu",
        *(f"cuda:{number}" for number in range(torch.cuda.device_count())),
    )


def steps_of(run: Run) -> int:
    """What there is to do for a run, as progress counts it."""
    return run.training.steps if run.kind not in UNTRAINED else 1


def check_gpus(gpus: int) -> None:
    """Refuse more GPUs than there are."""
    there = torch.cuda.device_count()
    if gpus > there:
        raise Impossible(f"gpus {gpus}: PyTorch sees {there} here; give fewer, or none for the CPU")


def check_shared(processes: int, suite: Suite, runs: Sequence[Run]) -> None:
    """Refuse to share batches among processes, a GPU each, that do not divide, or that are not of images."""
    if not suite.stored and not suite.pictures and not suite.drawn:
        raise Impossible(
            f"{processes} processes share batches of images, {suite.name} has latents; give --parallel, a GPU for a run"
        )
    sizes = {run.training.batch_size for run in runs if run.kind not in UNTRAINED}
    uneven = sorted(size for size in sizes if size % processes)
    if uneven:
        raise Impossible(f"{processes} processes do not divide batch_size {uneven[0]}; give another number")


TORCHRUN = "import ident.benchmark; from torch.distributed.run import main; main()"
"""torchrun, with what keeps PyTorch from looking into the working directory while it is imported."""


def launch(gpus: int, command: Sequence[str]) -> NoReturn:
    """Become torchrun, which types a command anew in so many processes, a GPU each. What stops this stops them."""
    torchrun = [sys.executable, "-c", TORCHRUN, "--standalone", f"--nproc-per-node={gpus}"]
    torchrun.append(f"--log-dir={os.devnull}")  # else it leaves a folder
    os.execve(sys.executable, [*torchrun, *command], os.environ | children.SAFE_PATH)


def device_of(asked: str, address: str | None = None) -> str:
    """A device by what was asked for: `auto` is the first GPU, or the CPU; of a Ray cluster, if there is an address."""
    there = devices()
    if address is not None:
        there = ("cpu", "cuda:0") if cluster.gpus_there(address) else ("cpu",)
    if asked == "auto":
        return next((device for device in there if device != "cpu"), "cpu")
    if asked == "cuda" and "cuda:0" in there:
        return "cuda:0"
    if asked not in there:
        raise Impossible(f"device {asked!r}: there are {', '.join(there)}; leave out --device, or take one of these")
    return asked


def left_of(suite: Suite, runs: Sequence[Run], folder: Path, *, force: bool) -> list[Run]:
    """The runs that are not done, the same for all processes that share batches; all, if what was done is forgotten."""
    if force and distributed.rank() == 0:
        forget(runs, folder)
    distributed.wait()
    left = [run for run in runs if result_of(suite, run, folder) is None]
    distributed.wait()
    return left


def forget(runs: Sequence[Run], folder: Path) -> None:
    """Delete the files that these runs made."""
    for run in runs:
        place = folder / run.name
        try:
            if not place.is_symlink():
                files.remove_folder(place / SCALARS, EVENTS)
                files.remove_folder(place, MADE)
        except OSError as error:
            raise Failed(f"{place}: cannot be deleted ({error.strerror})") from error


def here(runs: Sequence[Run], folder: Path, device: str, tell: Watch) -> Iterator[tuple[Run, Result | None]]:
    """Do runs one after the other, in this process."""
    for run in runs:
        yield run, perform(run, folder, device, lambda step, last, run=run: tell(run, step, last))  # type: ignore[misc]


def by_ray(
    runs: Sequence[Run], folder: Path, device: str, tell: Watch, address: str | None
) -> Iterator[tuple[Run, Result | None]]:
    """Do runs as Ray tasks, on this machine or on the cluster at an address: a core each, or a GPU."""
    if not runs:
        return
    on_gpu = device != "cpu"
    with cluster.cluster(address, cores=cores(), gpus=torch.cuda.device_count() if on_gpu else 0) as ray:
        from ray.util.queue import Empty, Queue
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Else it is lost with whatever machine it is on.
        this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        told = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": this_node})
        start = ray.remote(num_cpus=1, num_gpus=int(on_gpu), max_retries=3)(remotely)
        given = folder.absolute(), "cuda:0" if on_gpu else "cpu", told, children.path(), versions()
        waiting = {start.remote(ray.cloudpickle.dumps(run), *given): run for run in runs}
        named = {run.name: run for run in runs}
        try:
            while waiting:
                done, _ = ray.wait(list(waiting), timeout=0.5)
                try:
                    for name, step, last in told.get_nowait_batch(told.qsize()):
                        tell(named[name], step, last)
                except Empty:
                    pass
                for reference in done:
                    run = waiting.pop(reference)
                    try:
                        result = ray.get(reference)
                    except ray.exceptions.RayTaskError as error:
                        raise error.cause from error
                    except ray.exceptions.RayError as error:
                        raise Failed(f"{run.name}: was lost: {' '.join(str(error).split())}") from error
                    if not (folder / run.name / RESULT).exists():  # made on a machine that does not see the folder
                        files.make_inside(folder, run.name)
                        files.write(folder / run.name / RESULT, result.text().encode())
                    yield run, result
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
            told.shutdown(force=True)


def versions() -> dict[str, str]:
    """The versions of what the scores depend on. Builds of PyTorch with and without CUDA are the same here."""
    return {"ident": version("ident3d"), "PyTorch": torch.__version__.partition("+")[0]}


def remotely(
    packed: bytes, folder: Path, device: str, told: Any, path: tuple[str, ...], expected: Mapping[str, str]
) -> Result | None:
    """`perform` of a pickled run in a worker of Ray that has the driver's versions, and finds modules where it does."""
    for name, installed in versions().items():
        if installed != expected[name]:
            node = os.uname().nodename
            raise Impossible(f"the worker on {node} has {name} {installed}, not {expected[name]}: install the same")
    children.follow(path)
    run: Run = pickle.loads(packed)
    torch.set_num_threads(1)
    last_told = 0.0

    def tell(step: int, last: dict[str, float]) -> None:
        nonlocal last_told
        if time.monotonic() - last_told > 1:
            told.actor.put_nowait.remote((run.name, step, last))  # put() would wait: Ray then lends the core to others
            last_told = time.monotonic()

    return perform(run, folder, device, tell)
