"""The stage with a real Ray: whatever happens to workers and nodes, the bytes are the same."""

from __future__ import annotations

import errno
import logging
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import ray
from ray.cluster_utils import Cluster

from ident.render.errors import Failed, Impossible
from ident.render.stage import stage
from ident.render.stage.cluster import cluster
from ident.render.stage.plan import Plan
from ident.render.store.dataset import Dataset
from ident.render.store.files import lock
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from ident.render.worlds.threedident import Scene
from tests.processes import MARK, wait_for
from tests.render.engines import RECIPE, Painter, Troubled, memory_group
from tests.render.store.test_dataset import WANTED, N, paint
from tests.servers import serving


def start_ray() -> None:
    """Ray with four cores and four made-up GPUs, which outlives the test that starts it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(MARK, raising=False)
        ray.init(
            "local",
            num_cpus=4,
            num_gpus=4,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            object_store_memory=80 * 2**20,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )


@pytest.fixture(scope="module")
def started() -> Iterator[None]:
    """The same for all tests here."""
    start_ray()
    yield
    ray.shutdown()


def plan(folder: Path | str, **changes: Any) -> Plan:
    return replace(Plan(Storage(str(folder)), RECIPE, N, workers=2, engine=Painter), **changes)


@pytest.mark.parametrize("place", ["shards", ".parts", ".lock"])
def test_no_link_in_an_output_is_followed(tmp_path: Path, place: str) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("00000.h5", "00000.part", ".ident-01234567"):
        (precious / name).write_text("precious")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / place).symlink_to(precious / "00000.part" if place == ".lock" else precious)
    with pytest.raises(Impossible, match=rf"d/{place}: is a link, and nothing goes where it leads; remove it"):
        stage.render(plan(tmp_path / "d"), force=True, tell=lambda _: None)
    assert {path.read_text() for path in precious.iterdir()} == {"precious"}
    assert len(list(precious.iterdir())) == 3


def run(made: Plan, **options: Any) -> list[stage.Status]:
    told = list[stage.Status]()
    stage.render(made, tell=told.append, **options)
    return told


def content(folder: Path) -> dict[str, bytes]:
    """All that a reader could see."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The dataset as one worker makes it without Ray."""
    folder = tmp_path_factory.mktemp("wanted") / "d"
    paint(folder)
    made = content(folder)
    return {name: data for name, data in made.items() if not name.startswith(".parts")}


pytestmark = pytest.mark.usefixtures("started")


def test_the_same_bytes_for_any_number_of_workers(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    for workers in (1, 2, 3):
        told = run(plan(tmp_path / str(workers), workers=workers))
        assert content(tmp_path / str(workers)) == wanted
        assert (told[0].done, told[0].workers) == (0, 0)
        assert max(far.workers for far in told) <= workers
        assert (told[-1].done, told[-1].total) == (N, N)
        assert [far.done for far in told] == sorted(far.done for far in told)


@pytest.mark.parametrize("trouble", ["die", "fail", "eat_memory"])
def test_a_worker_in_trouble_is_replaced(tmp_path: Path, wanted: dict[str, bytes], trouble: str) -> None:
    engine = Troubled(trouble, str(tmp_path), index=11, times=2)
    run(plan(tmp_path / "d", engine=engine))
    assert content(tmp_path / "d") == wanted
    troubles = list(tmp_path.glob("trouble-*"))
    assert len(troubles) == 2
    with suppress(FileNotFoundError):
        for path in troubles:
            memory_group(int(path.read_text())).rmdir()


@pytest.mark.parametrize("trouble", ["hang", "hang_in_c", "freeze"])
def test_a_worker_that_hangs_is_replaced(tmp_path: Path, wanted: dict[str, bytes], trouble: str) -> None:
    engine = Troubled(trouble, str(tmp_path), index=11, times=1)
    # Others may be silent for as long on a busy machine: to replace them takes time, and loses nothing.
    run(plan(tmp_path / "d", engine=engine, patience=4.0, max_failures=100))
    assert content(tmp_path / "d") == wanted
    assert len(list(tmp_path.glob("trouble-*"))) == 1


@pytest.mark.parametrize("trouble", ["die", "fail"])
def test_an_image_that_fails_three_times_stops_the_run(tmp_path: Path, wanted: dict[str, bytes], trouble: str) -> None:
    engine = Troubled(trouble, str(tmp_path), index=11, times=3)
    with pytest.raises(Failed, match=r"image 11 failed 3 times: .*; its raw latents are \[.*\]. What is done is kept"):
        run(plan(tmp_path / "d", engine=engine))
    assert not Manifest.read(Storage(str(tmp_path / "d"))).complete
    told = run(plan(tmp_path / "d", engine=engine))  # the trouble is over
    assert told[0].done >= 8
    assert content(tmp_path / "d") == wanted


def test_what_went_wrong_first_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, before = Storage.write, list[str]()

    def away(self: Storage, name: str, data: bytes) -> None:
        before.append(name)
        if len(before) > 1:
            raise Failed("the bucket is away")
        write(self, name, data)

    monkeypatch.setattr(Storage, "write", away)
    monkeypatch.setattr(stage, "SECONDS_BETWEEN_MANIFESTS", math.inf)  # one at the start, one as it fails
    engine = Troubled("fail", str(tmp_path), index=11, times=3)
    with pytest.raises(Failed, match="image 11 failed 3 times"):
        run(plan(tmp_path / "d", workers=1, engine=engine))
    assert before == ["dataset.json"] * 2


def test_too_many_failures_stop_the_run(tmp_path: Path) -> None:
    def broken(_: object) -> Painter:
        os._exit(1)

    with pytest.raises(Failed, match="2 workers failed with no shard finished in between"):
        run(plan(tmp_path / "d", workers=1, engine=broken, max_failures=1))


def test_workers_are_recycled(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    engine = Counted(str(tmp_path))
    run(plan(tmp_path / "d", workers=1, engine=engine, recycle=7))
    assert content(tmp_path / "d") == wanted
    assert len(list(tmp_path.glob("engine-*"))) == -(-N // 7)


class Counted:
    """Makes painters that leave a file each."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, settings: Any) -> Painter:
        (Path(self.folder) / f"engine-{os.getpid()}").touch()
        return Painter(settings)


def test_more_images_are_added_to_what_is_there(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    engine = Troubled("die", str(tmp_path), index=3, times=9)
    run(plan(tmp_path / "d", n=11))
    before = Dataset(tmp_path / "d").images(range(11))
    assert np.array_equal(before, WANTED[:11])
    run(plan(tmp_path / "d", engine=engine))  # which would die if it rendered the first shard again
    assert content(tmp_path / "d") == wanted
    with pytest.raises(Impossible, match=r"holds another dataset \(n is 20, not 11\): give --force"):
        run(plan(tmp_path / "d", n=11))


def test_another_dataset_is_not_overwritten(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    run(plan(tmp_path / "d"))
    (tmp_path / "d" / "notes.txt").write_text("mine")
    other = replace(RECIPE, source=replace(RECIPE.source, seed=1), codec="fast")
    with pytest.raises(Impossible, match=r'codec is "compact", not "fast"; source.seed is 0, not 1\): give --force'):
        run(plan(tmp_path / "d", recipe=other))
    assert content(tmp_path / "d") == wanted | {"notes.txt": b"mine"}
    run(plan(tmp_path / "d", recipe=other, n=9), force=True)
    assert sorted(content(tmp_path / "d")) == ["dataset.json", "notes.txt", "shards/00000.h5", "shards/00001.h5"]
    assert len(Dataset(tmp_path / "d")) == 9


def test_a_forced_run_that_was_stopped_goes_on(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    paint(tmp_path / "d", replace(RECIPE, codec="fast"), 9)
    engine = Troubled("fail", str(tmp_path), index=11, times=3)
    with pytest.raises(Failed, match="image 11 failed 3 times"):
        run(plan(tmp_path / "d", workers=1, engine=engine), force=True)
    engine = Troubled("die", str(tmp_path), index=3, times=9)  # were the first shard rendered again
    told = run(plan(tmp_path / "d", engine=engine), force=True)
    assert told[0].done >= 8
    assert content(tmp_path / "d") == wanted
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "d").rglob("*.*") if path.name != ".lock"}
    assert len(run(plan(tmp_path / "d", engine=engine), force=True)) == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_damaged_shard_is_rendered_again(tmp_path: Path, wanted: dict[str, bytes], damage: str) -> None:
    run(plan(tmp_path / "d"))
    shard = tmp_path / "d" / "shards" / "00001.h5"
    data = bytearray(shard.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    shard.write_bytes(data[:-1] if damage == "truncate" else data)
    if damage == "remove":
        shard.unlink()
    told = run(plan(tmp_path / "d"))
    assert told[0].done == 12
    assert content(tmp_path / "d") == wanted


def test_a_damaged_manifest_is_not_overwritten(tmp_path: Path) -> None:
    run(plan(tmp_path / "d"))
    manifest = tmp_path / "d" / "dataset.json"
    manifest.write_text(manifest.read_text()[:-20])
    with pytest.raises(Failed, match=r"dataset\.json: not JSON, or cut short .*: give --force to make"):
        run(plan(tmp_path / "d"))
    run(plan(tmp_path / "d"), force=True)
    assert len(Dataset(tmp_path / "d")) == N


def test_what_is_not_ours_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "d" / "shards").mkdir(parents=True)
    for name in ("1-mine.h5", "00000.h5"):
        (tmp_path / "d" / "shards" / name).write_text("mine")
    with pytest.raises(Impossible, match=r"dataset\.json is missing, but shards are; give --force"):
        run(plan(tmp_path / "d"))
    assert (tmp_path / "d" / "shards" / "00000.h5").read_text() == "mine"
    run(plan(tmp_path / "d"), force=True)
    assert (tmp_path / "d" / "shards" / "1-mine.h5").read_text() == "mine"
    assert len(Dataset(tmp_path / "d")) == N


def test_outputs_that_do_not_last() -> None:
    for url in ("memory://new", "http://127.0.0.1:9/d"):
        with pytest.raises(Impossible, match=f"{url}: nothing that lasts can be written there"):
            run(plan(url))


def test_two_runs_do_not_share_an_output(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with (
        lock(tmp_path / "d" / ".lock"),
        pytest.raises(Impossible, match=f"another run is writing there .process {os.getpid()}"),
    ):
        run(plan(tmp_path / "d"))


def test_what_is_left_of_a_killed_run_goes(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    (tmp_path / "d" / "shards").mkdir(parents=True)
    for name in (".ident-abcd0123", "shards/.ident-_e_f4567"):
        (tmp_path / "d" / name).write_text("half")
    (tmp_path / "d" / ".parts").mkdir()
    (tmp_path / "d" / ".parts" / "00000.part").write_text("half")
    (tmp_path / "d" / ".parts" / "00001.json").write_text('{"start": 8}')
    run(plan(tmp_path / "d"))
    assert content(tmp_path / "d") == wanted


@pytest.mark.parametrize("size", ["12k", "20k", "48k"])
def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path, wanted: dict[str, bytes], size: str) -> None:
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
    try:
        made = plan(disk / "d")
        (disk / "d" / "shards").mkdir(parents=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stage, "check_disk", lambda *_: None)  # it would not have let us start
            with pytest.raises(OSError, match="No space left") as error:
                run(made)
        assert error.value.errno == errno.ENOSPC
        assert str(disk) in str(error.value.filename)
        kept = {name for name in content(disk / "d") if name.startswith(("shards", ".parts"))}
        assert kept
        with pytest.raises(Impossible, match=f"{disk}/d: .* images take about .* GB, .* GB are free there"):
            run(made)
        subprocess.run(["mount", "-o", "remount,size=300M", disk], check=True)
        run(made)
        assert content(disk / "d") == wanted
    finally:
        subprocess.run(["umount", disk], check=True)


def test_every_worker_has_a_gpu_of_its_own(tmp_path: Path) -> None:
    on_gpus = replace(RECIPE, settings=RECIPE.settings.on(4), shard_size=2)
    run(plan(tmp_path / "d", recipe=on_gpus, gpus=4, workers=None, engine=Devices(str(tmp_path))))
    assert sorted(path.name for path in tmp_path.glob("gpu-*")) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    manifest = Manifest.read(Storage(str(tmp_path / "d")))
    assert manifest.render is not None
    assert manifest.render["device"] == "gpu"


class Devices:
    """Makes painters that say which GPU they were given, once each worker has one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, settings: Any) -> Painter:
        assert settings.gpus == 1
        (Path(self.folder) / f"gpu-{os.environ['CUDA_VISIBLE_DEVICES']}").touch()
        wait_for(lambda: len(list(Path(self.folder).glob("gpu-*"))) == 4)
        return Painter(settings)


def test_what_ray_has_not(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match=r"--gpus 5: Ray sees 4, and Cycles \d+ on this machine; give --gpus 4"):
        run(plan(tmp_path / "d", gpus=5, workers=None))
    with pytest.raises(Impossible, match="--workers 99: Ray has 4 cores; give 4 or fewer"):
        run(plan(tmp_path / "d", workers=99))
    for workers in (None, 2):
        with pytest.raises(Impossible, match="Ray has no cores: wait until the cluster's machines have joined"):
            stage.how_many({"memory": 1.0}, plan(tmp_path / "d", workers=workers))


@pytest.fixture
def three_nodes() -> Iterator[Cluster]:
    """A cluster of three nodes in the place of the single one; its workers find the tests' engines by our path."""
    ray.shutdown()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()  # type: ignore[no-untyped-call]
    start_ray()


def test_a_cluster_that_loses_a_node(tmp_path: Path, wanted: dict[str, bytes], three_nodes: Cluster) -> None:
    nodes = list[Any](three_nodes.worker_nodes)

    def kill_a_node(far: stage.Status) -> None:
        if far.workers == 3 and len(list(tmp_path.glob("image-*"))) == 6 and len(nodes) == 2:
            three_nodes.remove_node(nodes.pop(), allow_graceful=False)
            (tmp_path / "lost").touch()

    made = plan(tmp_path / "d", workers=None, engine=Held(str(tmp_path)))
    stage.render(made, address=three_nodes.address, tell=kill_a_node)
    assert len(nodes) == 1
    assert content(tmp_path / "d") == wanted


class Held:
    """Makes painters that paint two images each, and go on once a node is lost."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def __call__(self, settings: Any) -> Painter:
        held = Painter(settings)
        paint, numbers = held.image, count()

        def image(scene: Scene) -> npt.NDArray[np.uint8]:
            if (number := next(numbers)) < 2:
                (self.folder / f"image-{os.getpid()}-{number}").touch()
            else:
                wait_for((self.folder / "lost").exists)
            return paint(scene)

        held.image = image  # type: ignore[method-assign]
        return held


def test_a_cluster_that_is_not_there() -> None:
    for address, said in (
        ("127.0.0.1:9", "nobody answers there"),
        ("ray://127.0.0.1:10001", "give HOST:PORT"),
        ("nonsense", "give HOST:PORT"),
        ("127.0.0.1:99999", "give HOST:PORT"),
    ):
        with pytest.raises(Impossible, match=f"--ray-address {address}: {said}"), cluster(address, cores=1, gpus=0):
            pass


def test_a_port_that_is_not_of_ray(tmp_path: Path) -> None:
    """Ray waits for minutes there."""
    with serving(tmp_path) as web:
        address = web.url.removeprefix("http://")
        said = f"--ray-address {address}: what answers there is not Ray; give HOST:PORT of the head node"
        with pytest.raises(Impossible, match=said), cluster(address, cores=1, gpus=0):
            pass


LISTENERS = """
import os
from contextlib import suppress
from pathlib import Path
from tests.processes import below
from ident.render.stage.cluster import cluster

def listeners():
    rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
    return {f"socket:[{row[9]}]": row[1] for row in rows if row[3] == "0A"}

def sockets():
    for pid in below({os.getpid()}):
        with suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    yield os.readlink(link)

with cluster(None, cores=2, gpus=0) as ray:
    assert ray.get(ray.remote(lambda: os.nice(0)).remote()) == os.nice(0)
    there = listeners()
    print(*{there[socket] for socket in sockets() if socket in there})
"""


def test_a_local_run_listens_to_this_machine_alone() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", LISTENERS], capture_output=True, text=True, check=True, env=environment
    )
    loopback = ("0100007F:", "0000000000000000FFFF00000100007F:")
    found = done.stdout.split()
    assert len(found) >= 4
    assert all(address.startswith(loopback) for address in found), found
    assert done.stderr == ""
