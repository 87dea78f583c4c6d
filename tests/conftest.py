"""What the tests share: running the command as a user does, ending what was started, and scenes to render."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from ident.cli.main import main
from ident.render import plugins
from ident.render.children import SAFE_PATH
from ident.render.worlds.threedident import WORLD, Scene, place
from tests.processes import HANG, MARK, end, started_by, wait_for

# For those that start Ray in this process: read as ray is imported, see ident.render.stage.cluster.
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
# Read as OpenMP is loaded: threads that wait by spinning take the cores from the other workers of pytest.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a shell; what is started inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)

resource_tracker.ensure_running()  # lives as long as this process, and so belongs to no test

hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("busy")

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]

NUMBERS = count()


@pytest.fixture(autouse=True)
def mark() -> Iterator[str]:
    """The mark of all that a test starts. It fails if any of that stays behind."""
    own = f"{os.getpid()}-{next(NUMBERS)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, own)
        yield own
    try:
        wait_for(lambda: not started_by(own))
    except AssertionError:
        left = started_by(own)
        end(own)
        pytest.fail(f"left behind: {left}")


@pytest.fixture
def ident(tmp_path: Path) -> Run:
    """Run `ident ARGUMENTS` in an empty folder."""

    def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ident.cli", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, text=True, capture_output=True, check=False, timeout=HANG, **options
        )

    return run


@pytest.fixture
def ident_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run `ident ARGUMENTS` in an empty folder, in this process: PyTorch's import takes longer than many commands.

    Modules of a user's that it imports are forgotten with the test.
    """
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    before = set(sys.modules)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        for name, value in {**SAFE_PATH, "OMP_WAIT_POLICY": "PASSIVE"}.items():  # which the command sets for good
            monkeypatch.setenv(name, value)
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as ended:
                main([str(argument) for argument in arguments])
        finally:
            signal.signal(signal.SIGTERM, handler)
        return subprocess.CompletedProcess([*map(str, arguments)], int(str(ended.value.code)), *capfd.readouterr())

    yield run
    plugins.digest.cache_clear()  # of files by the names that they have in this test's folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def start(tmp_path: Path, mark: str) -> Iterator[Start]:
    """Start `python ARGUMENTS` in an empty folder; with the test it ends, and all that it has started."""
    started = list[subprocess.Popen[str]]()

    def popen(*arguments: object, **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, *map(str, arguments)]
        started.append(subprocess.Popen(command, cwd=tmp_path, text=True, **{**pipes, **options}))
        return started[-1]

    yield popen
    end(mark)
    for process in started:
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()


@pytest.fixture
def scenes() -> list[Scene]:
    """Eight scenes of random latents."""
    return [place(values) for values in WORLD.values(WORLD.draw(seed=3, split="test", start=0, n=8))]
