"""`ident render`, `verify` and `info` as a user types them, and killed as users' runs are."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import h5py
import numpy as np
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from ident.render.stage.cluster import cycles_gpus
from ident.render.store.dataset import Dataset
from ident.render.worlds.threedident import WORLD
from tests.conftest import Run, Start
from tests.processes import HANG, below, gone, running, wait_for
from tests.servers import as_s3

SMALL = ("--size", 16, "--quality", "draft", "--shard-size", 8, "--gpus", 0)


def sums(folder: Path) -> dict[str, str]:
    files = [folder / "dataset.json", *(folder / "shards").iterdir()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty images by Blender."""
    folder = tmp_path_factory.mktemp("rendered") / "d"
    command = [sys.executable, "-m", "ident.cli", "render", "--n", 20, "--out", folder, "--json", *SMALL]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["images"] == 20
    assert "rendering: 20/20" in done.stderr
    return folder


def test_what_is_rendered_is_there(data: Path) -> None:
    rendered = Dataset(data)
    assert np.array_equal(rendered.latents, WORLD.draw(seed=0, split="train", start=0, n=20))
    images = rendered.images(range(20))
    assert images.std(axis=(1, 2)).min() > 1
    assert len({image.tobytes() for image in images}) == 20
    assert sorted(path.name for path in data.iterdir()) == [".lock", "dataset.json", "shards"]


def test_the_same_command_again_does_nothing(data: Path, ident: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in (data / "shards").iterdir()}
    done = ident("render", "--n", 20, "--out", data, *SMALL)
    assert done.returncode == 0
    assert "20 images" in done.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (data / "shards").iterdir()}


def test_verify_and_info(data: Path, ident: Run) -> None:
    done = ident("verify", data, "--rerender", 4)
    assert (done.returncode, done.stdout) == (
        0, f"{data}: clean; 20 images in 3 shards, 4 of 4 identical when rendered again\n",
    )  # fmt: skip
    done = ident("info", data)
    assert done.returncode == 0
    for said in ("20 of 16 x 16, complete", "3 of 3", "compact", "kind uniform, seed 0, split train", "on the cpu"):
        assert said in done.stdout
    assert json.loads(ident("info", data, "--json").stdout)["n"] == 20


def test_a_dry_run_says_what_it_would_take_and_leaves_nothing(ident: Run, tmp_path: Path) -> None:
    done = ident("render", "--n", 20, "--dry-run", "--json", *SMALL)
    found = json.loads(done.stdout)
    assert (found["missing"], found["shards"], found["free"] > 0) == (20, 3, True)
    assert found["seconds"] > 0
    assert 2_000 < found["bytes"] < 40_000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--n", 0), "--n 0: give a whole number from 1"),
        (("--n", -1), "--n -1: give a whole number from 1"),
        (("--n", "many"), "'many' is not a valid integer"),
        (("--shard-size", 0), "shard size 0: give a whole number from 1"),
        (("--size", 3), "size 3: give a whole number of pixels from 16"),
        (("--seed", -1), "seed -1: give a whole number from 0"),
        (("--workers", 0), "--workers 0: give a whole number from 1"),
        (("--gpus", -1), "'--gpus': -1 is not in the range x>=0"),
        (("--gpus", 4), "--gpus 4: this machine has 0; give --gpus 0 to render on the CPU, or --ray"),
        (("--recycle", 0), "--recycle 0: give a whole number from 1"),
        (("--max-failures", -1), "--max-failures -1: give a whole number from 0"),
        (("--out", ""), "names no place"),
        (("--split", "../x"), "split '../x': give a name of letters"),
        (("--out", "memory://d"), "nothing that lasts can be written there"),
        (("--passes", "mask,colour"), "pass 'colour': choose from mask, depth, normal"),
        (("--codec", "zip"), "'zip' is not one of 'compact', 'fast'"),
        (("--out", "foo://bar"), "nobody knows foo://; give a folder"),
        (("--out", "/proc/nowhere"), "/proc/nowhere"),
        (("--ray-address", "127.0.0.1:9"), "--ray-address 127.0.0.1:9: nobody answers there"),
        (("--n", 10**12), "more than 100000 files; give a larger --shard-size"),
        (("--n", 10**8), "images take about .* GB, and .* GB are free there"),
    ],
)
def test_what_cannot_be(ident_here: Run, arguments: tuple[object, ...], said: str) -> None:
    if "Cycles" in said and cycles_gpus():
        pytest.skip("there is a GPU here")
    done = ident_here("render", *arguments)
    assert done.returncode == 2
    assert re.search(said, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((), "or fewer, like RAY_TMPDIR=/tmp"), (("--n", 10**9, "--shard-size", 10**6), "images take about")],
)
def test_what_is_refused_leaves_nothing(
    ident_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], said: str
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", f"/tmp/{'x' * 99}")
    done = ident_here("render", "--n", 4, "--out", "d", *SMALL, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_another_dataset_is_there(data: Path, ident: Run) -> None:
    before = sums(data)
    for changed, said in (
        (("--seed", 1), "source.seed is 0, not 1"),
        (("--split", "test"), 'source.split is "train", not "test"'),
        (("--size", 32), "size is 16, not 32"),
        (("--quality", "high"), "render.exposures is "),
        (("--passes", "mask"), "columns.mask is null, not "),
        (("--n", 5), "n is 20, not 5"),
    ):
        done = ident("render", "--n", 20, "--out", data, *SMALL, *changed)
        assert done.returncode == 2
        assert said in done.stderr
        assert "give --force to overwrite it, or another --out" in done.stderr
    assert sums(data) == before


def test_damage_is_found_named_and_mended(data: Path, ident: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", data, copy], check=True)
    shards = [copy / "shards" / f"0000{i}.h5" for i in range(3)]
    shards[0].write_bytes(shards[0].read_bytes()[:-1])
    flipped = bytearray(shards[1].read_bytes())
    flipped[-100] ^= 1
    shards[1].write_bytes(flipped)
    shards[2].unlink()
    done = ident("verify", copy)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "checking" not in line]
    assert [f"0000{i}.h5" in lines[i] for i in range(3)] == [True] * 3
    assert ("bytes and not" in lines[0], "sha256 is" in lines[1], "is missing" in lines[2]) == (True, True, True)
    assert ident("render", "--n", 20, "--out", copy, *SMALL).returncode == 0
    assert sums(copy) == sums(data)
    assert ident("verify", copy).returncode == 0


def claim(folder: Path, **changes: object) -> None:
    """Let a dataset and its one shard say something else of how they were made."""
    made = json.loads((folder / "dataset.json").read_text())
    made["render"] |= changes
    shard = folder / "shards" / "00000.h5"
    with h5py.File(shard, "r+") as file:
        file.attrs["recipe"] = json.dumps({name: made[name] for name in json.loads(file.attrs["recipe"])})
    made["shards"][0] |= {"bytes": shard.stat().st_size, "sha256": hashlib.sha256(shard.read_bytes()).hexdigest()}
    (folder / "dataset.json").write_text(json.dumps(made))


def test_images_that_were_not_rendered_as_the_dataset_says(data: Path, ident: Run, tmp_path: Path) -> None:
    draft, copy = json.loads((data / "dataset.json").read_text())["render"], tmp_path / "copy"
    assert ident("render", "--n", 4, "--out", copy, *SMALL, "--quality", "reference").returncode == 0
    whole = (copy / "dataset.json").read_text()
    (copy / "dataset.json").write_text(json.dumps(json.loads(whole) | {"render": draft}))
    assert "00000.h5: it was made by another recipe than dataset.json says" in ident("verify", copy).stderr
    claim(copy, **draft)
    done = ident("verify", copy, "--rerender", 2)
    assert done.returncode == 1
    assert "2 of 2 images differ, rendered again on the same engine" in done.stderr
    claim(copy, bpy="4.4.0", device="gpu")
    done = ident("verify", copy, "--rerender", 2, "--json")
    assert 20 < json.loads(done.stdout)["psnr"] < 60
    (copy / "dataset.json").write_text(json.dumps(json.loads(whole) | {"seed": 3}))
    done = ident("verify", copy)
    assert done.returncode == 1
    assert "unknown in dataset.json: 'seed'" in done.stderr


def processes_of(driver: int) -> dict[str, list[int]]:
    """The processes below a driver, by what they are; but for Ray's agents, which take a minute to notice."""
    rows, found = running(), dict[str, list[int]]()
    family = below({driver})
    for pid, _, arguments in rows:
        for kind in ("raylet/raylet", "ray::Worker", "gcs_server"):
            if pid in family and kind in arguments:
                found.setdefault(kind, []).append(pid)
    return found


def start_render(start: Start, folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return start("-m", "ident.cli", "render", "--out", folder, *arguments)


def size_of(folder: Path) -> int:
    """Bytes of a dataset so far, with those of unfinished shards."""
    size = 0
    for path in folder.rglob("*.*"):
        with suppress(FileNotFoundError):  # it may get its name in this moment
            size += path.stat().st_size
    return size


def all_gone(family: dict[str, list[int]]) -> bool:
    return all(gone(pid) for pids in family.values() for pid in pids)


@pytest.mark.slow
def test_killed_at_random_and_continued_gives_the_same_bytes(tmp_path: Path, ident: Run, start: Start) -> None:
    """The driver, a worker, the raylet: each killed with -9 at a random moment of a run of 256 images."""
    run = ("--n", 256, "--size", 64, "--shard-size", 32, "--gpus", 0, "--workers", 2)
    for workers in (1, 2):
        assert ident("render", "--out", tmp_path / str(workers), *run, "--workers", workers).returncode == 0
    killed, chance, whole = tmp_path / "killed", random.Random(), size_of(tmp_path / "1")
    for victim in ("driver", "ray::Worker", "raylet/raylet"):
        going, kept = start_render(start, killed, *run), size_of(killed)
        wait_for(lambda pid=going.pid: "ray::Worker" in processes_of(pid))  # type: ignore[misc]
        moment = kept + chance.uniform(0, 0.25) * whole
        wait_for(lambda moment=moment: size_of(killed) >= moment)  # type: ignore[misc]
        assert going.poll() is None
        family = processes_of(going.pid)
        os.kill(going.pid if victim == "driver" else chance.choice(family[victim]), signal.SIGKILL)
        said = going.communicate(timeout=HANG)[1]
        if victim == "ray::Worker":  # replaced: the run finishes, and is not to be killed a third time
            assert going.returncode == 0, said
            for shard in random.Random(0).sample(sorted((killed / "shards").iterdir()), 4):
                shard.unlink()
        elif victim == "raylet/raylet":
            assert going.returncode in (0, 1), said  # 0 if all was done before anybody missed it
            assert going.returncode == 0 or "ident: " in said
        wait_for(partial(all_gone, family))
    assert ident("render", "--out", killed, *run).returncode == 0
    assert sums(killed) == sums(tmp_path / "1") == sums(tmp_path / "2")
    assert "8 of 8 identical" in ident("verify", killed, "--rerender", 8).stdout
    assert ident("render", "--out", tmp_path / "1", *run, "--n", 320).returncode == 0
    both = Dataset(tmp_path / "1").images(range(256)), Dataset(tmp_path / "2").images(range(256))
    assert np.array_equal(*both)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_and_keeps_what_is_done(tmp_path: Path, start: Start, number: signal.Signals) -> None:
    folder = tmp_path / "d"
    going = start_render(start, folder, "--n", 100_000, *SMALL)
    wait_for(lambda: list((folder / "shards").glob("*.h5")))
    family = processes_of(going.pid)
    going.send_signal(number)
    said = going.communicate(timeout=HANG)[1]
    assert going.returncode == 128 + number
    assert said.splitlines()[-1] == "ident: stopped; typed again, the same command goes on with what it has kept"
    assert all(line.startswith(("rendering: ", "ident: ")) or not line for line in said.splitlines()), said
    wait_for(partial(all_gone, family))
    kept = {f"shards/{path.name}" for path in (folder / "shards").glob("*.h5")}
    listed = {shard["file"] for shard in json.loads((folder / "dataset.json").read_text())["shards"]}
    assert listed <= kept  # whose last ones the driver may not have heard of
    assert 0 < len(kept) < 12_500


def test_ctrl_c_while_ray_starts_leaves_nobody(tmp_path: Path, start: Start) -> None:
    going = start_render(start, tmp_path / "d", "--n", 100_000, *SMALL)
    wait_for(lambda: processes_of(going.pid).get("gcs_server"))
    going.send_signal(signal.SIGINT)
    said = going.communicate(timeout=HANG)[1]
    assert going.returncode == 130
    assert said.splitlines()[-1].startswith("ident: stopped")
    wait_for(lambda: not [typed for _, _, typed in running() if "ident" in typed and str(tmp_path) in typed])


def test_without_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ident.cli", "render", "--out", tmp_path / "d", "--n", 4, *SMALL]
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *map(str, command)], capture_output=True, text=True, check=False, timeout=HANG
    )
    assert done.returncode == 0
    assert len(Dataset(tmp_path / "d")) == 4


def test_a_killed_worker_leaves_stdout_alone(tmp_path: Path, start: Start) -> None:
    going = start_render(start, tmp_path / "d", "--n", 400, *SMALL, "--workers", 2, "--json")
    wait_for(lambda: list((tmp_path / "d" / "shards").glob("*.h5")))
    os.kill(processes_of(going.pid)["ray::Worker"][0], signal.SIGKILL)
    out, said = going.communicate(timeout=HANG)
    assert going.returncode == 0, said
    assert json.loads(out)["images"] == 400
    troubles = [line for line in said.splitlines() if not line.startswith("rendering: ")]
    assert [line.startswith("a worker is replaced: The actor died") for line in troubles] == [True], said


class Moody:
    """An S3 server of which every third answer is an error."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock, self.asked, self.errors = threading.Lock(), 0, 0
        self.moody = False

    def __call__(self, environment: Any, answer: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            self.asked += 1
            fails = self.moody and self.asked % 3 == 0
            self.errors += fails
        if fails:
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
            answer("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        return self._app(environment, answer)  # type: ignore[no-any-return]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Moody]:
    app = Moody()
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path / "cache"))
    with as_s3(make_server("127.0.0.1", 0, app, threaded=True), monkeypatch):
        boto3.client("s3").create_bucket(Bucket="bucket")
        yield app


@pytest.mark.slow
def test_an_s3_that_answers_500_now_and_then(s3: Moody, data: Path, ident: Run, tmp_path: Path) -> None:
    s3.moody = True
    done = ident("render", "--n", 20, "--out", "s3://bucket/d", *SMALL)
    assert done.returncode == 0, done.stderr
    assert s3.errors >= 2
    client = boto3.client("s3")
    names = [found["Key"] for found in client.list_objects_v2(Bucket="bucket")["Contents"]]
    assert names == ["d/dataset.json", *(f"d/shards/0000{i}.h5" for i in range(3))]
    for name in names:
        stored = client.get_object(Bucket="bucket", Key=name)["Body"].read()
        assert stored == (data / name.removeprefix("d/")).read_bytes()
    assert not list((tmp_path / "cache" / "parts").iterdir())
    assert "clean" in ident("verify", "s3://bucket/d").stdout
    assert np.array_equal(Dataset("s3://bucket/d").image(11), Dataset(data).image(11))
    assert "complete" in ident("info", "s3://bucket/d").stdout
    client.delete_object(Bucket="bucket", Key="d/shards/00001.h5")
    assert ident("render", "--n", 20, "--out", "s3://bucket/d", *SMALL).returncode == 0
    assert client.head_object(Bucket="bucket", Key="d/shards/00001.h5")["ContentLength"] > 1000


def test_to_s3_and_back(s3: Moody, data: Path, ident: Run, tmp_path: Path) -> None:
    s3.moody = True
    done = ident("push", data, "s3://bucket/pushed")
    assert done.returncode == 0, done.stderr
    done = ident("pull", "s3://bucket/pushed", "--out", tmp_path / "pulled")
    assert done.returncode == 0, done.stderr
    assert s3.errors >= 2
    assert sums(tmp_path / "pulled") == sums(data)
    done = ident("push", data, "s3://no-such-bucket/pushed")
    assert done.returncode == 2
    assert re.search("s3://no-such-bucket/pushed/.*; give another DEST", done.stderr), done.stderr
