"""Commands in a folder full of a stranger's modules and settings: none is taken but what the user names when typing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

MODULES = (
    *(
        "PIL",
        "bpy",
        "click",
        "cycles",
        "faiss",
        "fsspec",
        "h5py",
        "ident",
        "matplotlib",
        "numpy",
        "psutil",
        "ray",
        "rich",
    ),
    *("scipy", "setproctitle", "tensorboard", "torch", "urllib3", "webp", "zstandard"),
    *("dataclasses", "encodings", "importlib", "json", "logging", "multiprocessing", "os", "pickle", "random", "runpy"),
    *("select", "selectors", "signal", "site", "sitecustomize", "socket", "struct", "subprocess", "tempfile"),
    *("threading", "traceback", "typing", "usercustomize", "theirs"),
)

HOSTILE = """
import os
os.close(os.open(os.path.join({marks!r}, __name__), os.O_CREAT))
raise ImportError("the stranger's {name}")
"""

Typed = Callable[..., subprocess.CompletedProcess[str]]
IDENT = Path(sys.executable).with_name("ident")


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Where every module that is imported leaves its name."""
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


@pytest.fixture
def stranger(tmp_path: Path, marks: Path) -> Path:
    """A dataset of a stranger's, which says that it was rendered on a GPU, modules beside it, and settings."""
    folder = tmp_path / "d"
    paint(folder, replace(RECIPE, settings=RECIPE.settings.on(1)), 8)
    for name in MODULES:
        (folder / f"{name}.py").write_text(HOSTILE.format(marks=str(marks), name=name))
    (folder / "matplotlibrc").write_text("text.usetex: True")  # it starts LaTeX
    return folder


@pytest.fixture
def typed(stranger: Path, marks: Path, tmp_path: Path) -> Typed:
    """Run a command in the stranger's folder; no module there may be imported, and no LaTeX started."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "latex").write_text(f"#!/bin/sh\n: > '{marks}/latex'\n")
    (tmp_path / "programs" / "latex").chmod(0o755)
    there = os.environ | {"PATH": f"{tmp_path / 'programs'}:{os.environ['PATH']}"}

    def run(*command: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*map(str, command)], cwd=stranger, env=there, text=True, capture_output=True, check=False
        )
        assert sorted(path.name for path in marks.iterdir()) == [], done.stderr
        return done

    return run


SMALL = ("--size", 16, "--quality", "draft", "--gpus", 0)
BENCH = ("bench", "--suite", "table2", "--row", "laplace-box-laplace", "--device", "cpu")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("doctor",), "the scene renders"),
        (("verify", ".", "--rerender", 1), "8 images in 1 shards"),
        (("render", "--n", 2, "--out", "out", *SMALL), "2 images"),
        (("show", "--grid", "1x1", "--size", 16, "--samples", 1), "grid.png"),
        (
            ("pairs", ".", "--conditional", "laplace(0.3)", "--n", 10, "--out", "../p.h5", "--plot"),
            "10 pairs of laplace(0.3)",
        ),
        ((*BENCH, "--kind", "identity", "--parallel"), "Table 2"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_no_command_imports_from_the_working_directory(typed: Typed, arguments: tuple[object, ...], said: str) -> None:
    done = typed(IDENT, *arguments)
    assert said in done.stdout, done.stderr


def test_nor_does_the_module_as_a_command(typed: Typed, stranger: Path) -> None:
    (stranger / "ident.py").unlink()  # which Python itself would take for ours
    assert typed(sys.executable, "-m", "ident.cli", "info", ".").returncode == 0


LAUNCH = "from ident.benchmark.suites import runner; runner.launch(2, ['-m', 'ident.cli', '--version'])"


def test_nor_do_processes_that_share_each_batch_which_leave_nothing(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    done = typed(sys.executable, "-P", "-c", LAUNCH)
    assert done.stdout.count("ident, version") == 2, done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


def test_nor_does_a_report_of_results_that_name_modules(typed: Typed, stranger: Path) -> None:
    assert typed(IDENT, *BENCH, "--kind", "identity").returncode == 0
    file = next((stranger / "results").glob("*/*/*/result.json"))
    result = json.loads(file.read_text())
    recipe = json.loads(result["recipe"]) | {"encoder": "theirs:net", "own": {"theirs:net": ""}}
    named = result | {"own": "theirs.net", "recipe": json.dumps(recipe)}
    file.write_text(json.dumps(named))
    done = typed(IDENT, "report")
    assert done.returncode == 0, done.stderr


OWN = """
from dataclasses import dataclass
from ident.benchmark.latents.distributions import Uniform

def spread(anchor, positive):
    return (anchor - positive).square().mean()

@dataclass(frozen=True)
class Anywhere(Uniform):
    width: float

    def __str__(self):
        return f"own:Anywhere({self.width})"
"""

TIER = """
samples = 64
supervised = { steps = 2, batch_size = 8, learning_rate = 1e-3 }
unsupervised = { steps = 2, batch_size = 8, learning_rate = 1e-3 }
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*BENCH, "--loss", "own:spread", "--tier", "t.toml", "--parallel"), "own.spread"),
        (("render", "--n", 2, "--out", "out", "--positives", "own:Anywhere(0.5)", *SMALL), "2 images"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_what_the_user_names_is_found_there_by_workers_too(
    typed: Typed, stranger: Path, arguments: tuple[object, ...], said: str
) -> None:
    (stranger / "own.py").write_text(OWN)
    (stranger / "t.toml").write_text(TIER)
    done = typed(IDENT, *arguments)
    assert said in done.stdout, done.stderr


ENCODER = """
from pathlib import Path
from ident.benchmark.models.dense import mlp as net
Path("imported").touch()
"""


def test_a_module_that_a_tier_names_is_imported_where_one_trusts_it(typed: Typed, stranger: Path) -> None:
    (stranger / "an_encoder.py").write_text(ENCODER)
    (stranger / "t.toml").write_text('model = { encoder = "an_encoder:net" }' + TIER)
    arguments = (IDENT, *BENCH, "--kind", "supervised", "--tier", "t.toml")
    done = typed(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (
        2, "",
        "ident: t.toml: names the module of an_encoder:net, which would be imported; if you trust it, add --trust\n",
    )  # fmt: skip
    assert not (stranger / "imported").exists()
    done = typed(*arguments, "--trust")
    assert done.returncode == 0, done.stderr
    assert (stranger / "imported").exists()
