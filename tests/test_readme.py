"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.slow
def test_the_examples_run_in_order(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(console|python|toml)\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    ran = 0
    for language, text in blocks:
        if named := re.match(r"# (\w+\.\w+)\n", text):
            (tmp_path / named[1]).write_text(text)
            continue
        if language == "python":
            commands = [[sys.executable, "-c", text]]
        else:
            lines = [shlex.split(line.removeprefix("$ ")) for line in text.splitlines() if line.startswith("$ ")]
            assert all(line[0] == "ident" for line in lines)
            commands = [[sys.executable, "-m", "ident.cli", *line[1:]] for line in lines]
        for command in commands:
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "worse than the mean" not in done.stdout
            ran += 1
    assert ran >= 5
    for name in (
        "traversal.png",
        "grid.png",
        "grid_normal.png",
        "images/00.png",
        "images/03.png",
        "data/small/dataset.json",
    ):
        assert (tmp_path / name).stat().st_size > 1000


def test_the_files_that_it_names_are_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
