"""The Ray stage: hand out shards to workers that may die, hang or lose their node, until the dataset is complete.

The driver plans, waits and writes dataset.json; it never touches a pixel. What a worker does is in `worker`.
"""

from __future__ import annotations

import errno
import statistics
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ident.render import children
from ident.render.errors import Failed, Impossible
from ident.render.stage.cluster import check_temporary, cluster, cycles_gpus
from ident.render.stage.plan import Plan, check_disk, take_up
from ident.render.stage.worker import Beat, Hopeless, Job, Worker
from ident.render.store.files import LOCK, cache_folder, check_folder, lock, make_inside, remove_folder
from ident.render.store.inventory import clear, tidy
from ident.render.store.manifest import MANIFEST, Manifest, Record
from ident.render.store.shards import Span
from ident.render.threads import cores

SECONDS_BETWEEN_MANIFESTS = 5.0
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_START = 300.0
PATIENCE, PATIENCE_GPU = 300.0, 1800.0
"""Seconds without a sign of life after which a worker hangs; Cycles may compile its kernels for a GPU at first."""

HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR)
"""What the system says of an output that no other worker could write to either."""


@dataclass(frozen=True)
class Status:
    """How far a run is."""

    done: int
    total: int
    workers: int
    troubles: tuple[str, ...] = ()
    """Why workers were replaced, so far."""


TellStatus = Callable[[Status], object]


def render(plan: Plan, *, address: str | None = None, force: bool = False, tell: TellStatus) -> Manifest:
    """Render a dataset, or what is missing of it."""
    out = plan.out
    out.check_output()
    if out.folder:
        check_folder(out.folder)
    if out.size(MANIFEST) is None:  # nothing was begun, and so nothing is to be left where that cannot be
        check_disk(plan, plan.n)
        if address is None:
            check_temporary()
    if out.folder:
        make_inside(out.folder, "shards")
    locks = out.folder or cache_folder("locks", out.key)
    with lock(locks / LOCK, f"{out}: another run is writing there") as owner:
        job = Job(out.absolute, plan.recipe, owner, plan.recycle, plan.engine)
        tidy(out)
        records = take_up(plan, force=force)
        if records is None:
            clear(out)
            records = {}
        manifest = plan.manifest(records)
        check_disk(plan, plan.n - manifest.done)
        tell(Status(manifest.done, plan.n, 0))
        if not manifest.complete:
            make_inside(job.parts.parent, job.parts.name)
            with cluster(address, cores=max(plan.workers or 0, cores()), gpus=None if plan.gpus else 0) as ray:
                records = Stage(ray, plan, job, records, tell).run()
            manifest = plan.manifest(records)
            out.write(MANIFEST, manifest.to_json().encode())
        remove_folder(job.parts)
    return manifest


def first_sentence(error: BaseException) -> str:
    """What went wrong, in a line."""
    return " ".join(str(error).split()).partition(". ")[0][:200] or type(error).__name__


def how_many(resources: dict[str, float], plan: Plan) -> int:
    """How many workers there are to be; an error if Ray has not what they need."""
    has, name = ("GPU", "GPUs") if plan.gpus else ("CPU", "cores")
    seen = int(resources.get(has, 0))
    if plan.gpus > seen:
        instead = f"give --gpus {seen}" if seen else "give --gpus 0 to render on the CPU; `ident doctor` says more"
        raise Impossible(f"--gpus {plan.gpus}: Ray sees {seen}, and Cycles {cycles_gpus()} on this machine; {instead}")
    if not seen:
        raise Impossible("Ray has no cores: wait until the cluster's machines have joined, `ray status` lists them")
    wanted = plan.workers or plan.gpus or seen
    if not 1 <= wanted <= seen:
        raise Impossible(f"--workers {wanted}: Ray has {seen} {name}; give {seen} or fewer")
    return wanted


@dataclass
class Hand:
    """A worker as the driver sees it."""

    actor: Any
    waiting: Any
    """What Ray will have next from it: its hello, then the beats of its shard."""
    alive: bool = False
    span: Span | None = None
    rows: int = 0
    seconds: float = 0.0
    heard: float = field(default_factory=time.monotonic)


class Stage:
    """One run: the shards to do, and the workers that do them."""

    def __init__(self, ray: Any, plan: Plan, job: Job, records: dict[int, Record], tell: TellStatus) -> None:
        self._ray, self._plan, self._tell = ray, plan, tell
        self._records = dict(records)
        manifest = plan.manifest(records)
        self._todo = deque(manifest.span(i) for i in range(manifest.count) if i not in records)
        self._wanted = how_many(ray.cluster_resources(), plan)
        self._hands: list[Hand] = []
        self._failures = 0
        self._troubles: list[str] = []
        self._saved, self._saved_at = -1, 0.0
        needs = {"num_cpus": 1, **({"num_gpus": 1} if plan.gpus else {})}
        self._make = ray.remote(Worker).options(max_restarts=0, max_task_retries=0, **needs)
        self._job, self._path = ray.put(ray.cloudpickle.dumps(job)), children.path()

    def run(self) -> dict[int, Record]:
        """Render what is missing; gives all shards."""
        self._save()
        try:
            while self._todo or self._busy():
                while len(self._hands) < min(self._wanted, len(self._todo) + self._busy()):
                    actor = self._make.remote(self._job, self._path)
                    self._hands.append(Hand(actor, actor.hello.remote()))
                self._listen()
                self._give_up_hung()
                if time.monotonic() - self._saved_at > SECONDS_BETWEEN_MANIFESTS:
                    self._save()
                self._say()
        except BaseException:
            with suppress(OSError, Failed, Impossible):  # a full disk, a bucket away: what went wrong first counts
                self._save()
            raise
        finally:
            for hand in self._hands:
                self._ray.kill(hand.actor)  # not asked to end: Blender may hang as it does
        return self._records

    def _busy(self) -> int:
        return sum(hand.span is not None for hand in self._hands)

    def _listen(self) -> None:
        """Wait for the workers to say something, and act on it."""
        hands = {hand.waiting: hand for hand in self._hands}
        ready, _ = self._ray.wait(list(hands), timeout=SECONDS_BETWEEN_LOOKS, fetch_local=False)
        for waiting in ready:
            hand = hands[waiting]
            try:
                if hand.alive:
                    self._hear(hand, self._ray.get(next(waiting), timeout=60))
                else:
                    self._ray.get(waiting, timeout=60)
                    hand.alive = True
                    self._assign(hand)
            except StopIteration:
                if hand.span is None:
                    self._assign(hand)
                else:  # it has rendered as many images as a worker may
                    self._dismiss(hand)
            except self._ray.exceptions.RayError as error:
                self._lose(hand, error)

    def _assign(self, hand: Hand) -> None:
        """Give a worker the next shard, if there is one."""
        if not self._todo:
            self._dismiss(hand)
            return
        hand.span, hand.rows, hand.heard = self._todo.popleft(), 0, time.monotonic()
        hand.waiting = hand.actor.render.options(num_returns="streaming").remote(hand.span)

    def _hear(self, hand: Hand, said: Beat | Record) -> None:
        hand.heard = time.monotonic()
        assert hand.span is not None
        if isinstance(said, Record):
            self._records[hand.span.number] = said
            self._failures = 0
            hand.span, hand.rows = None, 0
        else:
            hand.rows, hand.seconds = said.rows, said.seconds

    def _dismiss(self, hand: Hand) -> None:
        """Part with a worker; its shard, if it has not finished it, is the next to be given out."""
        self._ray.kill(hand.actor)
        self._hands.remove(hand)
        if hand.span:
            self._todo.appendleft(hand.span)

    def _lose(self, hand: Hand, error: BaseException) -> None:
        """A worker failed or is gone: another takes its shard, unless there is no hope that it fares better."""
        cause = getattr(error, "cause", None)
        self._dismiss(hand)
        if isinstance(cause, Impossible | Hopeless) or (isinstance(cause, OSError) and cause.errno in HOPELESS):
            raise cause
        self._failures += 1
        self._troubles.append(first_sentence(cause or error))
        if self._failures > self._plan.max_failures:
            raise Failed(
                f"{self._failures} workers failed with no shard finished in between; the last: {self._troubles[-1]}. "
                "What is done is kept; type the same command to go on"
            )

    def _give_up_hung(self) -> None:
        """Replace workers that gave no sign of life for far longer than images take."""
        times = [hand.seconds for hand in self._hands if hand.seconds]
        deadline = max(
            self._plan.patience or (PATIENCE_GPU if self._plan.gpus else PATIENCE),
            20 * statistics.median(times) if times else 0.0,
        )
        now = time.monotonic()
        for hand in [hand for hand in self._hands if hand.alive and now - hand.heard > deadline]:
            self._lose(hand, TimeoutError(f"no sign of life for {deadline:.0f} seconds"))
        if self._hands and all(not hand.alive and now - hand.heard > SECONDS_TO_START for hand in self._hands):
            raise Failed(f"no worker could start within {SECONDS_TO_START:.0f} seconds: Ray has no room for one")

    def _save(self) -> None:
        if len(self._records) != self._saved:
            self._plan.out.write(MANIFEST, self._plan.manifest(self._records).to_json().encode())
            self._saved, self._saved_at = len(self._records), time.monotonic()

    def _say(self) -> None:
        done = sum(record.n for record in self._records.values()) + sum(hand.rows for hand in self._hands)
        alive = sum(hand.alive for hand in self._hands)
        self._tell(Status(done, self._plan.n, alive, tuple(self._troubles)))
