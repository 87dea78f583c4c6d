"""What PyTorch and matplotlib find in a stranger's folder while they are imported: nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import _imagingmath

from ident.benchmark.suites.runner import TORCHRUN
from ident.render import children

LIBRARIES = "print({line.split()[-1] for line in open('/proc/self/maps') if '.so' in line})"
SETTINGS = "import os, ident.benchmark, matplotlib; print(matplotlib.rcParams['text.usetex'], os.getcwd())"


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a library that can be loaded and settings."""
    shutil.copy(_imagingmath.__file__, tmp_path / "libcuda.so.1")
    (tmp_path / "matplotlibrc").write_text("text.usetex: True")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout


def test_pytorch_loads_no_driver_from_there(stranger: Path) -> None:
    said = printed(TORCHRUN.replace("main()", LIBRARIES))  # as each process of ident's begins
    assert "libtorch" in said
    assert str(stranger) not in said


@pytest.mark.usefixtures("stranger")
def test_what_is_asked_of_another_process_is_asked_elsewhere() -> None:
    assert children.ask("import os; print(os.getcwd())").stdout == "/\n"


def test_matplotlib_takes_no_settings_from_there(stranger: Path) -> None:
    assert printed(SETTINGS) == f"False {stranger}\n"


GONE = """
import inspect, os, sys
from importlib import resources
import ident.benchmark
os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
import matplotlib
print(len(inspect.getsource(matplotlib)) > 1000, (resources.files("matplotlib") / "mpl-data").is_dir())
"""


def test_its_sources_and_files_are_found_and_a_working_directory_may_be_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = [sys.executable, "-P", "-c", GONE, str(tmp_path / "gone")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True True\n", 0), done.stderr
