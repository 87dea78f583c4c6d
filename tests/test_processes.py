"""What a test leaves running fails that test, is ended with it, and is not there for the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import processes

LEAVING = """
import subprocess, sys
from pathlib import Path
from tests import processes
from tests.conftest import mark, start

processes.HANG = 0.5
SLEEP = "import time; time.sleep(3600)"
FORKS = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', '{SLEEP}']).pid)"

def note(pid):
    with Path("pids").open("a") as file:
        print(int(pid), file=file)

def test_leaves_what_has_lost_its_parents():
    with Path("pid").open("w") as file:  # and no pipe, which would be waited for
        subprocess.run([sys.executable, "-c", FORKS], stdout=file, check=True)
    note(Path("pid").read_text())

def test_is_the_next():
    pass

def test_ends_what_it_started(start):
    note(start("-c", SLEEP).pid)
"""


def test_what_a_test_leaves_fails_it_and_is_ended(tmp_path: Path) -> None:
    (tmp_path / "test_leaving.py").write_text(LEAVING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tmp_path]
    root = Path(processes.__file__).parents[1]
    done = subprocess.run(
        [*map(str, command), "test_leaving.py"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True, text=True, check=False, timeout=processes.HANG,
    )  # fmt: skip
    assert "3 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "left behind: {" in done.stdout
    pids = list(map(int, (tmp_path / "pids").read_text().split()))
    assert len(pids) == 2
    assert all(map(processes.gone, pids))
