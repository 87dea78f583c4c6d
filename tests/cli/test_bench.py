"""`ident bench`: a table from nothing, again without work, in this process and by Ray, and refusals in one line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch

from ident.benchmark.suites.suite import load_suite, names
from ident.benchmark.training.checkpoints import DIGEST
from ident.render.store.recipe import Uniform
from tests.cli.test_terminal import on_terminal
from tests.conftest import Run, Start
from tests.processes import HANG, state, wait_for
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

IDENTITY = ("bench", "--suite", "table2", "--kind", "identity")


@pytest.fixture
def ident(ident: Run, ident_here: Run) -> Run:
    """Run `ident ARGUMENTS`: in this process, which has PyTorch already, but where another is what counts."""

    def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        apart = bool(options) or "--parallel" in arguments
        return ident(*arguments, **options) if apart else ident_here(*arguments)

    return run


def test_help_lists_the_suites_that_there_are(ident: Run) -> None:
    listed = "".join(ident("bench", "--help").stdout.split())
    assert f"Whichtable:{','.join(names())},orafileofyours." in listed
    assert "--kind[identity|untrained|supervised|unsupervised]" in listed


def test_a_table_is_made_once(ident: Run, tmp_path: Path) -> None:
    first = ident(*IDENTITY, "--seeds", 2, "--json")
    assert first.returncode == 0, first.stderr
    said = json.loads(first.stdout)
    assert [row["row"] for row in said["rows"]] == [row.id for row in load_suite("table2").rows]
    score = said["rows"][0]["identity"]["mcc"]
    assert score["seeds"] == 2
    assert score["ours"] == pytest.approx(46.55, abs=6)
    assert score["difference"] == pytest.approx(score["ours"] - 46.55, abs=0.011)
    folder = tmp_path / "results" / "table2" / "laptop"
    path = folder / "laplace-box-laplace-identity-seed0" / "result.json"
    before = path.stat().st_mtime_ns
    mcc = json.loads(path.read_text())["scores"]["test"]["mcc"]
    assert mcc["low"] <= mcc["value"] <= mcc["high"]
    assert mcc["chance"] < 0.1
    again = ident(*IDENTITY, "--seeds", 2)
    assert again.returncode == 0, again.stderr
    assert "2 runs of 2 done before" in again.stderr
    assert path.stat().st_mtime_ns == before
    assert again.stdout.count("(46.55)") == 1  # of the run that they share
    assert "laplace-box-laplace and 9 more  box, uniform         " in again.stdout
    assert (folder / "table.md").read_text().count("| 46.55 ± 1.34 |") == 1
    assert first.stderr.count("laplace-box-laplace-identity-seed1, shared by 10 rows: mcc ") == 1


ROWS = ("--row", "box-normal-normal", "--row", "box-laplace-gennorm3")


def test_rows_can_be_told_apart_on_a_pipe_and_on_a_terminal(
    ident: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.toml").write_text(TIER.replace("60,", "4,").replace("200,", "4,"))
    arguments = ("bench", "--suite", "table1", "--tier", "tiny.toml", *ROWS, "--device", "cpu")
    monkeypatch.delenv("COLUMNS", raising=False)
    piped = ident(*arguments)
    assert piped.returncode == 0, piped.stderr
    for row in (
        "box-normal-normal     box, uniform, normal(0.05)   unbounded, normal",
        "box-laplace-gennorm3  box, uniform, laplace(0.05)  unbounded, gennorm(3)",
    ):
        assert row in piped.stdout
    assert "as above" in piped.stdout
    shown = on_terminal("-m", "ident.cli", *arguments, cwd=tmp_path)
    table = re.sub(r"\x1b\[\d+m", "", shown).partition("the papers' in brackets")[2].splitlines()
    assert max(map(len, table)) <= 80
    normal, laplace = "\n".join(table).partition("\nbox-lap")[::2]
    assert " normal(0.05) " in normal
    assert " laplace(0.05) " in laplace
    assert " gennorm(3) " in laplace


def test_foreign_results_are_named_and_left_out(ident: Run, tmp_path: Path) -> None:
    assert ident(*IDENTITY).returncode == 0
    folder = tmp_path / "results" / "table2" / "laptop"
    ours = json.loads((folder / "laplace-box-laplace-identity-seed0" / "result.json").read_text())

    def changed(**changes: object) -> Callable[[Path], object]:
        return lambda path: path.write_text(json.dumps(ours | changes))

    foreign: dict[str, Callable[[Path], object]] = {
        "laplace-box-a-identity-seed0": os.mkfifo,
        "laplace-box-b-unsupervised-seed0": Path.mkdir,
        "laplace-box-c-identity-seed0": lambda path: path.write_bytes(b"\xff\xfe"),
        "laplace-box-d-identity-seed0": changed(own=3),
        "laplace-box-e-identity-seed0": changed(own="x", seed="x"),
        "laplace-box-f-identity-seed0": changed(own="x", suite="table1"),
        "laplace-box-g-identity-seed0": changed(own="x", format=2),
        "laplace-box-h-identity-seed0": changed(own="\x1b]0;owned\x07"),
        "laplace-box-i-identity-seed0": changed(own="x", row="sphere-vmf1-vmf"),
    }
    for name, make in foreign.items():
        (folder / name).mkdir()
        make(folder / name / "result.json")
    (folder / "laplace-box-laplace-x-identity-seed0").mkdir()
    (folder / "laplace-box-laplace-x-identity-seed0" / "result.json").write_text(json.dumps(ours | {"own": "[/red]"}))
    for arguments in (IDENTITY, ("report",)):
        done = ident(*arguments)
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stderr.splitlines() if line.endswith("; left out")]
        assert [next(name for name in foreign if name in line) for line in lines] == list(foreign)
        assert "\x1b" not in done.stderr
        if arguments == IDENTITY:
            assert "[/red]" in done.stdout
    (folder / "laplace-box-laplace-identity-seed0" / "result.json").unlink()
    (folder / "laplace-box-laplace-x-identity-seed0" / "result.json").unlink()
    done = ident("report")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "ident: results: none of its 9 results can be read; give a folder that ident bench wrote to, or type ident "
        "bench --out results"
    )


def test_by_ray_as_in_this_process(ident: Run, tmp_path: Path) -> None:
    scores = []
    for more in ((), ("--parallel",)):
        done = ident(*IDENTITY, "--seeds", 2, "--out", f"out{len(more)}", "--json", *more, "--device", "cpu")
        assert done.returncode == 0, done.stderr
        scores.append(json.loads(done.stdout)["rows"])
    assert scores[0] == scores[1]
    assert (tmp_path / "out1" / "table2" / "laptop" / "laplace-box-laplace-identity-seed1" / "result.json").exists()


TIER = """
samples = 512
model = { whiten = true }
supervised = { steps = 60, batch_size = 64, learning_rate = 1e-3, optimizer = "muon", looks = 6 }
unsupervised = { steps = 200, batch_size = 64, learning_rate = 1e-3, optimizer = "muon", looks = 8 }
"""


def test_mixed_latents_come_out_alike_on_any_number_of_cores(ident: Run, tmp_path: Path) -> None:
    """One thread trains them."""
    (tmp_path / "tiny.toml").write_text(TIER.replace("200", "20").replace("batch_size = 64", "batch_size = 512"))
    row = ("--suite", "table2", "--row", "laplace-box-laplace", "--kind", "unsupervised")
    arguments = ("bench", *row, "--tier", "tiny.toml")
    results = []
    for cores in ("1", "2"):
        done = ident(*arguments, "--out", cores, "--device", "cpu", env=os.environ | {"OMP_NUM_THREADS": cores})
        assert done.returncode == 0, done.stderr
        results.append(json.loads(next((tmp_path / cores).rglob("result.json")).read_text()))
    assert results[0]["history"] == results[1]["history"]
    assert [result["machine"]["threads"] for result in results] == [1, 1]


@pytest.mark.parametrize(("policy", "spins"), [({}, "0"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "30000000000")])
def test_threads_that_wait_sleep_unless_a_user_wants_another_way(
    ident: Run, policy: dict[str, str], spins: str
) -> None:
    """GNU's OpenMP says as it is loaded how often a waiting thread looks before it sleeps."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = ident(
        "bench", "--suite", "table2", "--device", "none", env=environment | policy | {"OMP_DISPLAY_ENV": "verbose"}
    )
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr


SIGNALLED = """
import os, signal, sys
from itertools import count
from ident.benchmark.training import train
from ident.cli.main import main

step, steps = train.step, count(1)

def counted(*arguments):
    if next(steps) == {step}:
        os.kill(os.getpid(), signal.{signal})
    return step(*arguments)

train.step = counted
train.train.__kwdefaults__["seconds_between"] = {seconds}
main(sys.argv[1:])
"""
"""The command, which a signal reaches as a step begins, and which writes a checkpoint every so many seconds."""


@pytest.mark.slow
def test_killed_and_typed_again_it_goes_on_to_the_same_end(ident: Run, start: Start, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TIER)
    row = ("--suite", "table1", "--row", "sphere-vmf10-vmf", "--kind", "unsupervised")
    arguments = ["bench", *row, "--tier", "tiny.toml"]
    alone = ident(*arguments, "--out", "alone", env=dict(os.environ))
    assert alone.returncode == 0, alone.stderr
    place = tmp_path / "out" / "table1" / "tiny" / "sphere-vmf10-vmf-unsupervised-seed0"
    child = start("-c", SIGNALLED.format(step=80, signal="SIGSTOP", seconds=30), *arguments, "--out", "out")
    wait_for(lambda: state(child.pid) == "T")
    busy = ident(*arguments, "--out", "out")
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGCONT)
    assert busy.returncode == 2
    assert "somebody works there" in busy.stderr
    _, errors = child.communicate(timeout=HANG)
    assert child.returncode == 130, errors
    assert "the same command goes on with what it has kept" in errors
    assert (place / "checkpoint.pt").exists()
    again = ident(*arguments, "--out", "out", env=dict(os.environ))
    assert again.returncode == 0, again.stderr
    one, two = (
        json.loads((tmp_path / name / "table1" / "tiny" / place.name / "result.json").read_text())
        for name in ("alone", "out")
    )
    assert one["history"] == two["history"]
    assert one["scores"] == two["scores"]
    assert len(one["history"]) == 8


@pytest.mark.slow
def test_a_tier_of_its_own_by_ray_with_curves(ident: Run, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TIER.replace("60,", "24,").replace("200,", "24,"))
    filters = ("--space", "box", "--conditional", "laplace")
    done = ident("bench", "--suite", "table2", *filters, "--tier", "tiny.toml", "--parallel")
    assert done.returncode == 0, done.stderr
    assert "(98.62)" in done.stdout
    folder = tmp_path / "results" / "table2" / "tiny"
    assert (folder / "curves.png").stat().st_size > 10_000
    names = {path.parent.name for path in folder.glob("*/result.json")}
    assert names == {
        "laplace-box-laplace-identity-seed0", "laplace-box-laplace-supervised-seed0",
        "laplace-box-laplace-unsupervised-seed0", "laplace-box-normal-unsupervised-seed0",
    }  # fmt: skip
    assert "tiny" in json.loads((folder / "laplace-box-laplace-identity-seed0" / "result.json").read_text())["tier"]


IMAGES = """
samples = 32
model = { encoder = "mine:encoder" }
pairs = { scale = 0.3 }
supervised = { steps = 4, batch_size = 8, learning_rate = 1e-3 }
unsupervised = { steps = 120, batch_size = 8, learning_rate = 1e-3, looks = 12 }
"""
MINE = """
from torch import nn

def encoder(dim):
    return nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.BatchNorm2d(4), nn.LeakyReLU(), nn.Flatten(), nn.Linear(64, dim))

def loss(anchor, positive):
    return (anchor - positive).square().mean() - anchor.var(0).mean()
"""


@pytest.fixture
def images(tmp_path: Path) -> tuple[str, ...]:
    """Small datasets, a tier and modules of a user's; gives the command that uses them."""
    for split in ("train", "test"):
        paint(tmp_path / split, replace(RECIPE, source=Uniform(0, split)), n=48)
    (tmp_path / "tiny.toml").write_text(IMAGES)
    (tmp_path / "mine.py").write_text(MINE)
    return ("bench", "--tier", "tiny.toml", "--trust", "--data", "train", "--test-data", "test", "--device", "cpu")


def test_killed_and_typed_again_a_run_of_images_has_the_same_curve(
    images: tuple[str, ...], ident: Run, start: Start, tmp_path: Path
) -> None:
    row = (*images, "--row", "box-normal", "--out")
    apart = {"env": dict(os.environ)}  # a process of its own: threads of another number add up in another order
    alone = ident(*row, "alone", **apart)
    assert alone.returncode == 0, alone.stderr
    name = "box-normal-mine.encoder-unsupervised-seed0"
    child = start("-c", SIGNALLED.format(step=50, signal="SIGKILL", seconds=0), *row, "out")
    _, errors = child.communicate(timeout=HANG)
    assert child.returncode == -signal.SIGKILL, errors
    checkpoint = tmp_path / "out" / "table4" / "tiny" / name / "checkpoint.pt"
    assert not checkpoint.with_name("result.json").exists()
    progress = torch.load(BytesIO(checkpoint.read_bytes()[DIGEST:]), weights_only=True)["progress"]
    assert progress["step"] == 49
    again = ident(*row, "out", **apart)
    assert again.returncode == 0, again.stderr
    one, two = (
        json.loads((tmp_path / folder / "table4" / "tiny" / name / "result.json").read_text())
        for folder in ("alone", "out")
    )
    assert one["history"] == two["history"]
    assert one["scores"] == two["scores"]
    assert len(one["history"]) == 12


def test_the_scale_of_the_tier_is_said(images: tuple[str, ...], ident: Run, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(IMAGES.replace("120", "4").replace("looks = 12", "looks = 1"))
    at = images.index("--data")
    as_argument = (*images[:at], "train", *images[at + 2 :], "--row", "box-laplace", "--kind")
    done = ident(*as_argument, "unsupervised")
    assert done.returncode == 0, done.stderr
    assert "tier tiny: its scale is 0.3, rows have laplace(0.3)\n" in done.stderr
    assert "its scale" not in ident(*as_argument, "identity").stderr


def test_a_loss_of_ones_own_gets_its_row(images: tuple[str, ...], ident: Run) -> None:
    done = ident(*images, "--row", "box-normal", "--loss", "mine:loss")
    assert done.returncode == 0, done.stderr
    assert "mine.loss" in done.stdout
    again = ident(*images, "--suite", "table5", "--row", "box-normal", "--json")
    assert again.returncode == 0, again.stderr
    plain, own = json.loads(again.stdout)["rows"]
    assert (plain["row"], plain["own"]) == ("box-normal", "mine.encoder")
    assert own["own"] == "mine.loss, mine.encoder"
    assert own["unsupervised"]["r2"]["paper"] is None


def test_two_processes_share_each_batch(images: tuple[str, ...], ident: Run, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(IMAGES.replace("120", "24"))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, "-m", "ident.cli", *images, "--row", "box-normal", "--out", "two"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Table 4") == 1
    alone = ident(*images, "--row", "box-normal", "--out", "one")
    assert alone.returncode == 0, alone.stderr
    one, two = (
        json.loads(next((tmp_path / folder).rglob("result.json")).read_text())["history"] for folder in ("one", "two")
    )
    for ours, theirs in zip(one, two, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--suite", "table2", "--gpus", "2"], "--gpus 2: PyTorch sees 0 here; give fewer, or none for the CPU"),
        (
            ["--suite", "table2", "--gpus", "2", "--parallel"],
            "--gpus share each batch, parallel has a run",
        ),
        (["--tier", "paper", "--render"], "--render: tier paper has nothing to render"),
        (["--suite", "table2", "--loss", "nowhere:loss"], "nowhere:loss: cannot be loaded (No module named 'nowhere')"),
        (["--suite", "table2", "--encoder", "resnet19"], "encoder 'resnet19': choose from mlp, conv, dense, "),
        (["--suite", "table2", "--encoder", "resnet18"], "encoder resnet18: table2 is of no images"),
        (["x", "--data", "y"], "DATA x and --data y: give one of them"),
        (["--suite", "table2", "x"], "--suite table2: has no images; leave out --data"),
        (["--suite", "table2", "--data", "x"], "--suite table2: has no images; leave out --data"),
        (
            ["--suite", "table2", "--space", "sphere"],
            "no row with space sphere. Its rows are laplace-box-laplace: ",
        ),
        (["--suite", "table2", "--row", "normal-box"], "row 'normal-box': choose from laplace-box-laplace"),
        (["--suite", "table2", "--tier", "desktop"], "'desktop': choose from demo, laptop, afternoon, paper"),
        (["--suite", "table2", "--tier", "none.toml"], "none.toml: No such file"),
        (["--suite", "table2", "--pairs", "exact"], "no row of table2 takes positives; leave it out"),
        (
            ["--render", "--pairs", "exact", "--row", "box-normal", "--row", "box-laplace"],
            "exact pairs of laplace(0.1), normal(0.1): a dataset has those of one; name rows by --row",
        ),
        (["--suite", "table9"], f"suite 'table9': choose from {', '.join(names())}, or"),
        (["--suite", "table2", "--device", "cuda"], "device 'cuda': there are cpu"),
        (["--suite", "aninfonce", "--kind", "supervised"], "--kind supervised: these rows have unsupervised"),
        (["--suite", "table2", "--seeds", "0"], "0 is not in the range"),
        (["--suite", "table2", "--parallel", "--ray-address", "localhost:1"], "nobody answers there"),
        (["--suite", "table2", "--out", "/proc/x"], "cannot be made"),
        (
            ["--suite", "table2", "--loss", "math:hypot", "--kind", "supervised"],
            "--kind supervised: --loss is of",
        ),
        (["--suite", "table2", "--parallel", "--device", "cuda:1"], "--device cuda:1: gpus, parallel"),
        (["--suite", "hard-negatives", "--row", "alone", "--loss", "math:hypot"], "none of these rows has pairs"),
    ],
)
def test_the_impossible_is_refused_in_one_line(ident_here: Run, arguments: list[str], says: str) -> None:
    done = ident_here("bench", *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
