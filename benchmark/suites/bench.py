"""From the rows that are asked for to their results: on which data and devices, what is left to train, what is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ident.benchmark.latents import distributions
from ident.benchmark.sources.data import Data
from ident.benchmark.suites import datasets, runner
from ident.benchmark.suites.results import Result, Warn
from ident.benchmark.suites.rows import UNTRAINED
from ident.benchmark.suites.runner import Watch
from ident.benchmark.suites.runs import Run, of_tier
from ident.benchmark.suites.suite import Suite
from ident.benchmark.suites.task import check
from ident.benchmark.suites.tiers import Tier
from ident.benchmark.training import distributed
from ident.render.errors import Impossible
from ident.render.store.files import LOCK, lock, make_inside


@dataclass(frozen=True)
class Where:
    """Where runs are trained: on one device; on GPUs that share each batch; or several at once, by Ray."""

    device: str = "auto"
    gpus: int = 0
    parallel: bool = False
    address: str | None = None

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cuda") and (self.gpus or (self.by_ray and self.device != "cpu")):
            raise Impossible(
                f"device {self.device}: gpus, parallel and a Ray address choose GPUs themselves; leave it out"
            )
        if (self.gpus or distributed.launched()) and self.by_ray:
            raise Impossible("gpus share each batch, parallel has a run on each GPU: give one of them")

    @property
    def by_ray(self) -> bool:
        """Whether Ray trains several runs at once."""
        return self.parallel or self.address is not None

    @property
    def launches(self) -> bool:
        """Whether each batch is to be shared by processes that are not there yet."""
        return bool(self.gpus) and not distributed.launched()


@dataclass(frozen=True)
class Bench:
    """Runs of rows of a suite in a tier, and the folder in which the results of all suites lie."""

    suite: Suite
    tier: Tier
    runs: Sequence[Run]
    where: Where
    out: Path
    data: Mapping[str, Data]

    @property
    def folder(self) -> Path:
        """Where the runs lie."""
        return self.out / self.suite.folder / self.tier.name

    def left(self, *, force: bool = False) -> list[Run]:
        """The runs that are not done."""
        return runner.left_of(self.suite, self.runs, self.folder, force=force)

    def launch(self, *, force: bool) -> None:
        """Become the processes that share each batch, if there shall be such: each types the same command."""
        if not self.where.launches:
            return
        if not force:
            self.left()  # what is impossible is said once, and not by each of them
        runner.launch(self.where.gpus, ["-m", "ident.cli", *sys.argv[1:]])

    def results(
        self,
        telling: Callable[[Sequence[Run]], AbstractContextManager[Watch]],
        done: Callable[[Run, Result], object],
        warn: Warn,
        *,
        force: bool,
    ) -> list[Result] | None:
        """Train what is left, and give all results of the suite in the tier.

        Of processes that share each batch only the first watches, tells and has results; the others have None.
        """
        device = runner.device_of(self.where.device, self.where.address)
        ways = partial(runner.by_ray, address=self.where.address) if self.where.by_ray else runner.here
        with distributed.joined(device) as device:
            first = distributed.rank() == 0
            make_inside(self.out, self.suite.folder, self.tier.name)
            with lock(self.folder / LOCK, f"{self.folder}: somebody works there") if first else nullcontext():
                left = self.left(force=force)
                with telling(left) if first else nullcontext(lambda *_: None) as watch:
                    trained: Iterator[tuple[Run, Result | None]] = ways(left, self.folder, device, watch)
                    for run, result in trained:
                        if result is not None:
                            watch(run, runner.steps_of(run), {})
                            done(run, result)
                return of_tier(self.suite, self.tier, self.folder, self.data, warn) if first else None


def prepare(
    suite: Suite,
    tier: Tier,
    runs: Sequence[Run],
    where: Where,
    out: Path,
    places: Mapping[str, str],
    warn: Warn,
) -> Bench:
    """The bench of these runs on the datasets, or the files of others', at these places, if all of it can be."""
    if where.gpus:
        runner.check_gpus(where.gpus)
    processes = distributed.started() or where.gpus
    if where.gpus or processes > 1:
        runner.check_shared(processes, suite, runs)
    device = runner.device_of(where.device, where.address)
    data = datasets.find(places) if places else {}
    runs = [replace(run, data=data) for run in runs]
    check(runs)
    if "train" in data and distributed.rank() == 0:
        if long := hours_of(tier, runs, where.gpus or int(device != "cpu")):
            warn(long)
        if larger := datasets.larger(data["train"], tier):
            warn(larger)
        if written := sorted({str(distributions.parse(text, tier.scale)) for text in runner.without_scale(runs)}):
            warn(f"tier {tier.name}: its scale is {tier.scale:g}, rows have {', '.join(written)}")
    return Bench(suite, tier, runs, where, out, data)


def hours_of(tier: Tier, runs: Sequence[Run], gpus: int) -> str:
    """What these runs will take on so many GPUs, by what one took its authors; nothing of a tier that is not theirs."""
    trained = [run for run in runs if run.kind not in UNTRAINED]
    if not tier.gpu_hours or not trained:
        return ""
    images = 2 * trained[0].training.steps * trained[0].training.batch_size
    hours, count = tier.gpu_hours / max(1, gpus), len(trained)
    here = f"on {gpus} of these {hours:g} hours" if gpus else "there is no GPU here"
    return (
        f"tier {tier.name}: {count} training{'s' * (count > 1)} of {images:,} images each; one took its authors "
        f"{tier.gpu_hours:g} hours of a GeForce RTX 2080 Ti, {here}" + (f", {hours * count:g} in all" if gpus else "")
    )
