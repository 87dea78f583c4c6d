"""Runs of a suite: which are done, which are left, here or by Ray; and their results, a JSON file each."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import version
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ident.benchmark import plugins, processes
from ident.benchmark.metrics import METRICS
from ident.benchmark.report.tables import Line
from ident.benchmark.suites.images import Images
from ident.benchmark.suites.rows import FORMAT, Data, Row, Run, Suite, Tier, shared_run
from ident.benchmark.suites.synthetic import Synthetic
from ident.benchmark.suites.task import RowTask
from ident.benchmark.train import Progress, is_number, train
from ident.render import cluster, storage
from ident.render.errors import Failed, Impossible

RESULT, CHECKPOINT, MODEL = "result.json", "checkpoint.pt", "model.pt"
RECOVERED, NEIGHBOURS, SCALARS = "recovered.npz", "neighbours.png", "tensorboard"
"""Latents and what is recovered of them; the nearest images; what TensorBoard shows."""

Result = dict[str, Any]
Tell = Callable[[Run, int, dict[str, float]], object]
"""Is told of a run how many steps are done, and the last loss and scores."""


def recipe_of(run: Run) -> str:
    """All that decides a run, as its files have it."""
    return json.dumps(run.recipe, sort_keys=True)


def result_of(run: Run, folder: Path) -> Result | None:
    """The result of a run, if it is done. Another run's result of that name is refused."""
    path = folder / run.name / RESULT
    if not path.exists():
        return None
    try:
        result = load(path, lambda _: run.row.dim)
    except Failed as error:
        raise Failed(f"{error}; delete it to run that again") from error
    except Impossible as error:
        raise Impossible(f"{error}; give another --out") from error
    if result["recipe"] != recipe_of(run):
        raise Impossible(f"{path}: belongs to another run, {result['recipe']}; give another --out, or --force")
    return result


def load(path: Path, dim_of: Callable[[Result], int]) -> Result:
    """A result as it lies in a file; damaged ones and those of other formats are refused.

    `dim_of` says of how many latents it is, or raises a ValueError that says why it is none.
    """
    try:
        result: Result = json.loads(path.read_text())
        made_by = result["format"]
        if type(made_by) is not int:
            raise ValueError(f"format {made_by!r}")
        if made_by == FORMAT:
            check(result, dim_of(result))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        raise Failed(f"{path}: is damaged ({error})") from error
    if made_by != FORMAT:
        raise Impossible(f"{path}: is of format {made_by!r}, this version of ident reads {FORMAT}")
    return result


def check(result: Result, dim: int) -> None:
    """Whether all is there that reports read, of the right kind."""
    for name, score in ((name, split[name]) for split in result["scores"].values() for name in METRICS):
        numbers = [score[key] for key in ("value", "low", "high", "chance")] + score["per_latent"]
        if len(score["per_latent"]) != dim or not all(
            isinstance(number, float) and isfinite(number) for number in numbers
        ):
            raise ValueError(f"its {name} is no score of {dim} latents")
    numbers = [
        result["seconds"],
        *result["learned"],
        *(value for point in result["history"] for value in point.values()),
    ]
    if not all(is_number(number) and isfinite(number) for number in numbers) or len(result["learned"]) % dim:
        raise ValueError("its history is none")
    result["scores"]["test"], result["machine"]["ident"]
    if not isinstance(json.loads(result["recipe"]), dict):
        raise ValueError("its recipe is none")
    for point in result["history"]:
        point["step"], point["loss"], point["r2"], point["mcc"]
        if set(point) != set(result["history"][0]):
            raise ValueError("its history is none")


def lines_of(suite: Suite, tier: Tier, folder: Path, data: Mapping[str, Data]) -> list[Line]:
    """All rows of a suite with what is done of them in a folder, as far as seeds go without a gap.

    Behind a row stand those that are like it but for a loss or an encoder of the user's.
    """
    lines = list[Line]()
    for row in suite.rows:
        found = dict[str, list[Result]]()
        for kind in row.kinds:
            for seed in count():
                result = None
                with suppress(Failed, Impossible, OSError):  # of rows that nobody asked for: those were refused before
                    result = result_of(shared_run(suite, row, kind, seed, tier, data), folder)
                if result is None:
                    break
                found.setdefault(kind, []).append(result)
        own = plugins.is_one(tier.encoder)  # then all is the user's
        lines += [*([] if own else [Line(row, found)]), *own_lines(row, folder)]
    return lines


def own_lines(row: Row, folder: Path) -> list[Line]:
    """What is done of a row with a loss or an encoder of the user's."""
    found = dict[str, dict[str, list[Result]]]()
    for path in sorted(folder.glob(f"row{row.number:02d}-*-*-seed*/{RESULT}")):
        with suppress(Failed, Impossible, LookupError, TypeError):
            result = load(path, lambda _: row.dim)
            if result["own"]:
                found.setdefault(str(result["own"]), {}).setdefault(result["kind"], []).append(result)
    return [Line(row, by_kind, own) for own, by_kind in found.items()]


def perform(run: Run, folder: Path, device: str, tell: Callable[[int, dict[str, float]], object]) -> Result:
    """Do a run, from its checkpoint if there is one, and write its result."""
    place = folder / run.name
    storage.make_folder(place)
    task, progress = task_of(run, device), Progress()
    if run.kind != "identity" and any(True for _ in task.model.parameters()):
        made_by = f"{recipe_of(run)} on {torch.device(device).type}"  # whose random numbers are others
        try:
            with scalars(place / SCALARS) as write:
                progress = train(
                    task, run.training, place / CHECKPOINT, made_by, lambda *far: (write(*far), tell(*far))
                )
        except Failed as error:
            raise Failed(f"{run.name}: {error}") from error
    if processes.rank():  # the first process does the rest
        return {}
    found = {split: task.recovered(split) for split in task.splits}
    scores = {
        split: {name: asdict(score) for name, score in task.scores(*both).items()} for split, both in found.items()
    }
    result: Result = {
        "format": FORMAT,
        "suite": run.suite,
        "row": run.row.number,
        "own": ", ".join(run.own),
        "kind": run.kind,
        "seed": run.seed,
        "tier": run.tier.name,
        "recipe": recipe_of(run),
        "scores": scores,
        "learned": task.learned(),
        "history": progress.history,
        "seconds": progress.seconds,
        "data": {split: data.place for split, data in run.data.items()},
        "machine": machine(device),
    }
    z, recovered = found["test"]
    with storage.whole(place / RECOVERED) as part, part.open("wb") as file:
        np.savez(file, latents=z.numpy(), recovered=recovered.numpy())
    if isinstance(task, Images):
        storage.write(place / NEIGHBOURS, task.neighbours(recovered))
    if run.kind != "identity":
        with storage.whole(place / MODEL) as part, part.open("wb") as file:
            torch.save(task.model.state_dict(), file)
    text = json.dumps(result, indent=1)
    storage.write(place / RESULT, text.encode())
    (place / CHECKPOINT).unlink(missing_ok=True)
    read: Result = json.loads(text)
    return read


@contextmanager
def scalars(folder: Path) -> Iterator[Callable[[int, dict[str, float]], object]]:
    """Gives a function that writes losses and scores for TensorBoard."""
    if processes.rank():
        yield lambda *_: None
        return
    from torch.utils.tensorboard import SummaryWriter  # here: it takes a second

    with SummaryWriter(folder) as writer:
        yield lambda step, last: [writer.add_scalar(name, value, step) for name, value in last.items()]


def task_of(run: Run, device: str) -> RowTask:
    """What is trained."""
    return Images(run, device) if run.data else Synthetic(run, device)


def machine(device: str) -> dict[str, Any]:
    """What ran, and on what."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "CPU"
    return {
        "ident": version("ident"),
        "torch": torch.__version__,
        "device": device,
        "name": name,
        "threads": torch.get_num_threads(),
    }


def devices() -> tuple[str, ...]:
    """What PyTorch can train on here."""
    return (
        "cpu",
        *(f"cuda:{number}" for number in range(torch.cuda.device_count())),
    )


def check_gpus(gpus: int) -> None:
    """Refuse to share batches among more GPUs than there are."""
    there = torch.cuda.device_count()
    if gpus > there:
        raise Impossible(f"--gpus {gpus}: PyTorch sees {there} here; give fewer, or none for the CPU")


def launch(gpus: int, command: Sequence[str]) -> int:
    """Type a command anew in so many processes, a GPU each, by torchrun; gives its exit code."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}"]
    return subprocess.run([*torchrun, *command], check=False).returncode


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


def forget(runs: Sequence[Run], folder: Path) -> None:
    """Delete what was made of these runs."""
    for run in runs:
        place = folder / run.name
        try:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        except OSError as error:
            raise Failed(f"{place}: cannot be deleted ({error.strerror})") from error


def here(runs: Sequence[Run], folder: Path, device: str, tell: Tell) -> Iterator[tuple[Run, Result]]:
    """Do runs one after the other, in this process."""
    for run in runs:
        yield run, perform(run, folder, device, lambda step, last, run=run: tell(run, step, last))  # type: ignore[misc]


def by_ray(
    runs: Sequence[Run], folder: Path, device: str, tell: Tell, address: str | None
) -> Iterator[tuple[Run, Result]]:
    """Do runs as Ray tasks, on this machine or on the cluster at an address: a core each, or a GPU."""
    if not runs:
        return
    on_gpu = device != "cpu"
    with cluster.cluster(address, cores=cluster.cores(), gpus=torch.cuda.device_count() if on_gpu else 0) as ray:
        from ray.util.queue import Empty, Queue

        told = Queue(actor_options={"num_cpus": 0})
        remote = ray.remote(num_cpus=1, num_gpus=int(on_gpu), max_retries=3)(task)
        waiting = {remote.remote(run, folder.absolute(), "cuda:0" if on_gpu else "cpu", told): run for run in runs}
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
                        storage.make_folder(folder / run.name)
                        storage.write(folder / run.name / RESULT, json.dumps(result, indent=1).encode())
                    yield run, result
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
            told.shutdown(force=True)


def task(run: Run, folder: Path, device: str, told: Any) -> Result:
    """A run in a worker of Ray."""
    torch.set_num_threads(1)
    last_told = 0.0

    def tell(step: int, last: dict[str, float]) -> None:
        nonlocal last_told
        if time.monotonic() - last_told > 1:
            told.actor.put_nowait.remote((run.name, step, last))  # put() would wait: Ray then lends the core to others
            last_told = time.monotonic()

    return perform(run, folder, device, tell)
