"""What a worker does with its engine, and what it leaves behind for the next."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ident.render.blender.settings import Settings
from ident.render.errors import Impossible
from ident.render.stage import worker as working
from ident.render.stage.worker import Beat, Hopeless, Job, Worker
from ident.render.store.manifest import Record
from ident.render.store.shards import Shard, Span
from ident.render.store.storage import Storage
from tests.processes import wait_for
from tests.render.engines import RECIPE, Painter, Slow, Troubled

SPAN = Span(0, 0, 8)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "out" / "shards").mkdir(parents=True)
    (tmp_path / "out" / ".lock").write_text("me")
    return Job(Storage(str(tmp_path / "out")), RECIPE, "me", engine=Painter)


def finish(job: Job, span: Span = SPAN) -> Record:
    *_, last = Worker(job).render(span)
    assert isinstance(last, Record)
    return last


def test_what_is_rendered_once_is_not_rendered_again(job: Job, tmp_path: Path) -> None:
    recycled = replace(job, recycle=3)
    assert [beat.rows for beat in Worker(recycled).render(SPAN) if isinstance(beat, Beat)] == [0]
    assert [beat.rows for beat in Worker(recycled).render(SPAN) if isinstance(beat, Beat)] == [3]
    record = finish(replace(job, engine=Troubled("fail", str(tmp_path), 5, 9)))  # row 5 is there already
    assert record == finish(replace(job, out=other(tmp_path)))


def other(tmp_path: Path) -> Storage:
    (tmp_path / "other" / "shards").mkdir(parents=True)
    return Storage(str(tmp_path / "other"))


def test_a_finished_shard_that_nobody_noted_is_taken_up(job: Job, tmp_path: Path) -> None:
    record = finish(job)
    broken = replace(job, engine=Troubled("fail", str(tmp_path), 0, 9))
    assert finish(broken) == record
    shard = tmp_path / "out" / "shards" / "00000.h5"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(RuntimeError, match="image 0: ValueError: the paint is out"):
        finish(broken)
    assert finish(job) == record
    shard.unlink()
    assert finish(job) == record


def test_a_shard_is_not_rendered_twice_whose_worker_was_only_cut_off(job: Job, tmp_path: Path) -> None:
    cut_off = Worker(job).render(SPAN)
    next(cut_off)
    journal = (tmp_path / "out" / ".parts" / "00000.part").stat().st_ino
    with ThreadPoolExecutor() as pool:
        other = pool.submit(finish, replace(job, engine=Troubled("fail", str(tmp_path), 0, 9)))
        waits = re.compile(rf"-> FLOCK .*:{journal} ")
        wait_for(lambda: waits.search(Path("/proc/locks").read_text()))
        *_, record = cut_off
        assert other.result() == record
    assert not list((tmp_path / "out" / ".parts").glob("*.part"))


def test_an_image_that_fails_three_times_is_named(job: Job, tmp_path: Path) -> None:
    failing = replace(job, engine=Troubled("fail", str(tmp_path), 5, 9))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="image 5: ValueError"):
            finish(failing)
    with pytest.raises(Hopeless, match=r"image 5 failed 3 times: ValueError: the paint is out; .* \[-?0\.\d+") as error:
        finish(failing)
    assert ", ".join(map(str, RECIPE.source(5, 1)[0])) in str(error.value)
    finish(replace(failing, owner="another run", engine=Painter))


def test_what_no_engine_can_do_is_not_tried_again(job: Job) -> None:
    def none(_: Settings) -> Painter:
        raise Impossible("no GPU")

    with pytest.raises(Impossible, match="no GPU"):
        finish(replace(job, engine=none))


def test_beats_tell_how_far_and_how_fast(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "SECONDS_BETWEEN_BEATS", 0.0)
    *beats, _ = Worker(replace(job, engine=Slow(0.01))).render(SPAN)
    assert all(isinstance(beat, Beat) for beat in beats)
    assert [beat.rows for beat in beats if isinstance(beat, Beat)] == list(range(9))
    assert all(beat.seconds >= 0.01 for beat in beats[1:] if isinstance(beat, Beat))


def test_passes_come_with_the_images(job: Job, tmp_path: Path) -> None:
    names = ("mask", "depth", "normal")
    finish(replace(job, recipe=replace(RECIPE, passes=names)))
    shard = Shard(tmp_path / "out" / "shards" / "00000.h5", replace(RECIPE, passes=names).columns, 8, 10)
    assert {shard.read(name, 2).dtype for name in names} == {np.dtype(np.uint8), np.dtype(np.float32)}
    shard.close()


def test_a_worker_that_does_not_see_the_output_says_so(job: Job, tmp_path: Path) -> None:
    Worker(job).hello()
    with pytest.raises(Impossible, match=f"{tmp_path}/out: the worker on .* does not see it; give a folder that all"):
        Worker(replace(job, owner="someone else")).hello()
    with pytest.raises(Impossible, match="does not see it"):
        Worker(replace(job, out=Storage(str(tmp_path / "elsewhere")))).hello()
    Worker(replace(job, out=Storage("memory://anywhere"))).hello()


def test_a_worker_that_renders_otherwise_says_so(job: Job) -> None:
    with pytest.raises(Impossible, match=r"has bpy 4\.5\.\d+, not 3\.0: install the same"):
        Worker(replace(job, versions={"bpy": "3.0"})).hello()


def test_a_journal_of_more_rows_is_not_taken_up(job: Job) -> None:
    list(Worker(replace(job, recycle=5)).render(SPAN))
    assert finish(job, Span(0, 0, 3)).n == 3
