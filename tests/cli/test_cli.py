"""The command line: exit codes, one-line errors, stdout for results alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ident.cli import doctor as doctoring
from ident.cli.commands import COMMANDS
from ident.cli.commands import ident as command
from ident.cli.main import interrupt_again
from ident.render.stage.cluster import cycles_gpus
from ident.render.worlds.threedident import WORLD
from tests.conftest import Run, Start
from tests.processes import HANG, wait_for
from tests.render.store.test_dataset import paint

QUICK = ("--size", 16, "--samples", 1)


@pytest.fixture
def raw_file(tmp_path: Path) -> Path:
    np.save(tmp_path / "z.npy", WORLD.draw(seed=0, split="test", start=0, n=3))
    return tmp_path / "z.npy"


def test_version(ident: Run) -> None:
    done = ident("--version")
    assert (done.returncode, done.stdout) == (0, f"ident, version {version('ident3d')}\n")


NAMES = [name for section in COMMANDS.values() for name in section]


@pytest.mark.parametrize("name", [None, *NAMES])
def test_help_fits_a_terminal(name: str | None) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(command, [name, "--help"] if name else ["--help"])
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_the_list_says_and_ends_with_examples(name: str) -> None:
    said = {name: line for section in COMMANDS.values() for name, line in section.items()}[name]
    shown = CliRunner(env={"COLUMNS": "100"}).invoke(command, [name, "--help"]).output
    assert f"\n\n  {said}" in shown
    examples = shown.partition("\n  Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert 2 <= len(examples) <= 4
    assert all(line.startswith(f"    ident {name}") for line in examples)


def test_an_interrupt_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where h5py gives an object back, and Python ignores what is raised there."""

    class Losing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys, "unraisablehook", interrupt_again)
    lost = Losing()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        del lost
        time.sleep(60)


def test_help_is_there_at_once() -> None:
    code = "import sys, ident.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "rich", "h5py", "ray", "torch", "bpy"} & set(loaded)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str) -> None:
    word = "pu" if shell == "fish" else "1"  # fish gives the word itself, the others its number
    there = os.environ | {"_IDENT_COMPLETE": f"{shell}_complete", "COMP_WORDS": "ident pu", "COMP_CWORD": word}
    done = subprocess.run([sys.executable, "-m", "ident.cli"], env=there, capture_output=True, text=True, check=False)
    assert {"pull", "push"} <= set(done.stdout.replace(",", " ").split())


def test_shells_complete_in_silence_what_nobody_knows() -> None:
    there = os.environ | {"_IDENT_COMPLETE": "bash_complete", "COMP_WORDS": "ident shwo ", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-m", "ident.cli"], env=there, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def stopped(folder: Path, number: signal.Signals, command: str, *arguments: str) -> tuple[int, list[str]]:
    """The exit code and the lines of stderr of a command that gets a signal as soon as its work begins."""
    once = (
        "import importlib, os, sys, time; from ident.cli.main import main\n"
        f"module = importlib.import_module({command!r})\n"
        "def work(*_, **__):\n    print('go', flush=True)\n    time.sleep(600)\n"
        "setattr(module, sys.argv[1], work)\nmain(sys.argv[2:])"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", once, *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline() == "go\n"
    run.send_signal(number)
    _, said = run.communicate()
    return run.returncode, said.splitlines()


STOPPED = "ident: stopped"
GOES_ON = "ident: stopped; typed again, the same command goes on with what it has kept"


@pytest.mark.parametrize(
    ("module", "work", "arguments", "says"),
    [
        ("ident.render.stage.stage", "render", ("render", "--n", "8", "--gpus", "0"), GOES_ON),
        ("ident.render.stage.plan", "estimate", ("render", "--n", "8", "--gpus", "0", "--dry-run"), STOPPED),
        ("ident.render.store.verify", "verify", ("--debug", "verify", "nowhere"), STOPPED),
        ("ident.cli.doctor", "examine", ("doctor",), STOPPED),
        ("ident.cli.import_", "import_path", ("import", ".", "--from", "mds", "--out", "d"), GOES_ON),
        ("ident.render.exchange.push", "push", ("push", "a", "b"), GOES_ON),
    ],
)
def test_only_what_goes_on_says_so(
    tmp_path: Path, module: str, work: str, arguments: tuple[str, ...], says: str
) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        returned, lines = stopped(tmp_path, number, module, work, *arguments)
        assert (returned, lines[-1]) == (code, says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("render", "--n", "250000", "--gpus", "4"),
            "--gpus 4: this machine has 0; give --gpus 0 to render on the CPU, or --ray-address of a cluster",
        ),
        (
            ("pairs", "--conditional", "laplace"),
            "data/3dident: no dataset; type ident render --n 1000 or ident pull 3dident",
        ),
        (
            ("pairs", "my data", "--conditional", "laplace"),
            "my data: no dataset; type ident render --n 1000 --out 'my data' or ident pull 3dident --out 'my data'",
        ),
        (
            ("bench", "--space", "box"),
            "data/3dident: no dataset to train on; type ident render --n 30000 or ident pull 3dident;"
            " or give another --data, or --render for small ones",
        ),
    ],
)
def test_in_an_empty_folder_it_says_at_once_what_to_type(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    """At once: before what takes seconds to load is loaded, or started."""
    if cycles_gpus():
        pytest.skip("there is a GPU here")
    code = "import sys; from ident.cli.main import main\ntry: main(sys.argv[1:])\nfinally: print(*sys.modules)"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"ident: {says}\n")
    assert not {"torch", "ray", "faiss", "matplotlib", "bpy"} & set(done.stdout.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (("show", "--out", "/proc/x.png"), "/proc"),
        (("show", "--raw-latents", "z.npy", "--out", "/proc/x"), "/proc/x"),
        (("render", "--gpus", "0", "--out", "/proc/x"), "/proc/x"),
        (("pairs", "d", "--conditional", "laplace(0.1)", "--out", "/proc/x.h5"), "/proc"),
        (("bench", "--render", "--out", "/proc/x"), "/proc/x"),
        (("report", "--out", "/proc/x"), "/proc/x"),
        (("pull", "3dident", "--out", "/proc/x"), "/proc/x"),
        (("push", "d", "/proc/x"), "/proc/x"),
        (("export", "d", "--to", "mds", "--out", "/proc/x"), "/proc/x"),
        (("import", "published", "--from", "3dident", "--out", "/proc/x"), "/proc/x"),
    ],
)
@pytest.mark.usefixtures("raw_file")
def test_where_nothing_can_be_written_no_work_begins(
    ident_here: Run, tmp_path: Path, arguments: tuple[str, ...], out: str
) -> None:
    """Not even where root may write, by the system's permissions."""
    if arguments[0] in ("pairs", "push", "export"):
        paint(tmp_path / "d", n=8)
    if arguments[0] == "import":
        (tmp_path / "published" / "images").mkdir(parents=True)
        np.save(tmp_path / "published" / "raw_latents.npy", WORLD.draw(seed=0, split="test", start=0, n=1))
    files = set(tmp_path.rglob("*"))
    done = ident_here(*arguments)
    instead = "DEST" if arguments[0] == "push" else "--out"
    cannot = "nothing can be written there" if out == "/proc" else "cannot be made"
    assert done.stderr == f"ident: {out}: {cannot} (No such file or directory); give another {instead}\n"
    assert (done.returncode, done.stdout) == (2, "")
    assert set(tmp_path.rglob("*")) == files


def test_no_command_shows_help(ident: Run) -> None:
    done = ident()
    assert (done.returncode, done.stdout) == (2, "")
    assert "From latents to a table:" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["shwo"], "no command 'shwo'; did you mean show?"),
        (["x"], "no command 'x': ident --help has them"),
        (["show", "--nope"], "--nope"),
        (["show", "--quality", "best"], "'best' is not one of 'draft', 'balanced', 'high', 'reference'"),
        (["show", "--passes", "mask,albedo"], "'albedo': choose from mask, depth, normal"),
        (["show", "--size", "0"], "size 0: give a whole number of pixels from 16 to 4096"),
        (["show", "--grid", "1x1", "--size", "100000"], "size 100000"),
        (["show", "--samples", "0"], "samples 0"),
        (["show", "--gpus", "-1"], "-1 is not in the range"),
        (["show", "--gpus", "2", "--grid", "1x1"], "2 GPUs asked for, Cycles sees 0"),
        (["show", "--grid", "0x3"], "'0x3' is not COLUMNSxROWS"),
        (["show", "--grid", "6"], "'6' is not"),
        (["show", "--grid", "2x2", "--seed", "-1"], "seed -1"),
        (["show", "--grid", "2x2", "--raw-latents", "z.npy"], "give one of the two"),
        (["show", "--samples", "2", "--quality", "high"], "give one of the two"),
        (["show", "--seed", "5"], "--seed 5: only --grid"),
        (["show", "--out", "fig.jpg", "--size", "16"], "fig.jpg: give a name that ends in .png"),
        (["show", "--grid", "2x2", "--out", "a\nb.jpg"], "a b.jpg: give"),
        (["show", "--raw-latents", "z.npy"], "without --out"),
        (["show", "--raw-latents", "nowhere.npy", "--out", "d"], "nowhere.npy: No such file"),
        (["show", "--raw-latents", "z.npy", "--out", "z.npy"], "z.npy: is a file"),
        (["show", "--raw-latents", "z.npy", "--out", "/proc/x"], "/proc/x: cannot be made"),
        (["show", "--grid", "1x1", "--out", "z.npy/g.png"], "is a file or lies in one"),
    ],
)
@pytest.mark.usefixtures("raw_file")
def test_the_impossible_is_refused_in_one_line(ident_here: Run, arguments: list[str], says: str) -> None:
    if "Cycles" in says and cycles_gpus():
        pytest.skip("there is a GPU here")
    done = ident_here(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("ident: ")


def test_debug_shows_where(ident_here: Run) -> None:
    done = ident_here("show", "--raw-latents", "nowhere.npy", "--out", "d", "--debug")
    assert "Traceback" in done.stderr
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("ident: nowhere.npy")


def test_stdout_closed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m ident.cli show --grid 1x1 --size 16 --samples 1 >&-', sys.executable],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (tmp_path / "grid.png").stat().st_size > 100
    assert "Traceback" not in done.stderr
    assert "AttributeError" not in done.stderr


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("AttributeError('_ARRAY_API not found')", "_ARRAY_API not found"),
        ("ImportError()", "ImportError"),
        ("OSError('[/opt/libx.so]')", "[/opt/libx.so]"),
    ],
)
def test_doctor_lives_through_what_it_finds(
    ident_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "faiss.py").write_text(f"raise {fault}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "without"))
    monkeypatch.setattr(doctoring, "CHECKS", {name: doctoring.CHECKS[name] for name in ("FAISS", "Memory")})
    doctoring.printed.cache_clear()
    done = ident_here("doctor")
    assert done.returncode == 1
    assert "broken" in done.stdout
    assert "Memory" in done.stdout
    assert said in done.stdout


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "ImportError('libX11.so.6: cannot open shared object file')",
            "does not load (libX11.so.6: cannot open shared object file): type docker/system-libraries.sh",
        ),
        (
            "ModuleNotFoundError(name='bpy')",
            "Blender's Python module is missing: type pip install 'bpy>=4.5,<4.6'",
        ),
    ],
)
def test_without_blender(ident: Run, tmp_path: Path, fault: str, said: str) -> None:
    (tmp_path / "without" / "bpy").mkdir(parents=True)
    (tmp_path / "without" / "bpy" / "__init__.py").write_text(f"raise {fault}")
    done = ident("show", *QUICK, env={**os.environ, "PYTHONPATH": str(tmp_path / "without")})
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = ident("doctor", "--json", env={**os.environ, "PYTHONPATH": str(tmp_path / "without")})
    assert done.returncode == 1
    blender = json.loads(done.stdout)["Blender"]
    assert blender["state"] == "broken"
    assert said in f"{blender['found']}: type {blender['mend']}"


def test_doctor_where_blender_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    found = [doctoring.blender(), doctoring.cycles_gpus()]
    assert [finding.state for finding in found] == ["none", "none"]
    assert found[0].found.startswith("rendering needs Python 3.11, here is ")
    assert found[0].mend.startswith("python3.11 -m venv")


def test_rows_of_a_file(ident: Run, raw_file: Path, tmp_path: Path) -> None:
    arguments = ("show", "--raw-latents", raw_file, "--out", "d", "--passes", "mask", *QUICK, "--json")
    done = ident(*arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"written": ["d"], "images": 3}
    assert {path.name for path in (tmp_path / "d").glob("*.png")} == {"00.png", "01.png", "02.png"}
    assert ident(*arguments).returncode == 0
    other = ident(*arguments, "--size", 32)
    assert other.returncode == 2
    assert "--force" in other.stderr
    assert ident(*arguments, "--size", 32, "--force").returncode == 0


def test_the_figures(ident: Run, tmp_path: Path) -> None:
    assert ident("show", *QUICK).stdout == "traversal.png\n"
    done = ident("show", "--grid", "3x2", "--passes", "depth,mask", *QUICK)
    assert done.stdout == "grid.png\ngrid_mask.png\ngrid_depth.png\n"
    assert (tmp_path / "traversal.png").stat().st_size > 5000
    assert "6/6" in done.stderr


def test_doctor(ident_here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = ident_here("doctor", "--json")
    findings = json.loads(done.stdout)
    assert list(findings) == ["Python", "Blender", "Cycles GPUs", "Ray", "FAISS", "PyTorch", "Disk", "Memory"]
    assert findings["Blender"]["found"].startswith("bpy 4.5")
    assert all(finding["state"] == "ok" or finding["mend"] for finding in findings.values())
    monkeypatch.setenv("COLUMNS", "80")
    table = ident_here("doctor")
    assert max(map(len, table.stdout.splitlines())) <= 80


def test_an_interrupt_keeps_what_is_done(tmp_path: Path, start: Start) -> None:
    np.save(tmp_path / "z.npy", WORLD.draw(seed=0, split="test", start=0, n=2000))
    arguments = ["show", "--raw-latents", "z.npy", "--out", "d", "--size", "64", "--samples", "64"]
    run = start("-m", "ident.cli", *arguments, start_new_session=True)
    wait_for(lambda: list(tmp_path.glob("d/*.png")))
    os.killpg(run.pid, signal.SIGINT)
    _, stderr = run.communicate(timeout=HANG)
    assert run.returncode == 130
    assert stderr.splitlines()[-1].startswith("ident: stopped; typed again")
    assert "Traceback" not in stderr
    assert 0 < len(list(tmp_path.glob("d/*.png"))) < 2000
    assert not list(tmp_path.glob("d/.*"))
