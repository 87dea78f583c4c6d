"""The whole way in Python, as docs/library.py shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_every_cell_runs_and_is_short(tmp_path: Path) -> None:
    script = ROOT / "docs" / "library.py"
    cells = script.read_text().split("\n# %%")[1:]
    assert len(cells) == 5
    for cell in cells:
        assert len([line for line in cell.splitlines()[1:] if line and not line.startswith(("from ", "import "))]) < 15
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^r2: -?\d+\.\d+ in .*\nmcc: \d\.\d+ in ", done.stdout, re.MULTILINE)
