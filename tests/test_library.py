"""The whole way in Python, as docs/library.py shows it, and the files for Docker and for clusters."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

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


def test_the_image_takes_what_is_there() -> None:
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    for line in lines:
        if line.startswith("COPY") and "--from" not in line and line != "COPY . .":
            assert (ROOT / line.split()[1]).is_file()
    stages = {line.split()[-1] for line in lines if line.startswith("FROM")}
    assert {"base", "cpu", "cuda"} <= stages
    assert [line for line in lines if line.startswith("USER")] == ["USER 1000"] * 2
    taken = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in taken)


@pytest.mark.parametrize("name", ["system-libraries.sh", "install.sh", "check.sh", "browser.sh"])
def test_scripts_can_be_read_by_their_shells(name: str) -> None:
    script = ROOT / "docker" / name
    assert script.stat().st_mode & 0o111
    shell = script.read_text().splitlines()[0].removeprefix("#!")
    subprocess.run([shell, "-n", script], check=True)


def test_the_cluster_file_is_one_that_ray_understands() -> None:
    cluster = yaml.safe_load((ROOT / "docker" / "cluster.yaml").read_text())
    jsonschema.validate(cluster, json.loads(files("ray.autoscaler").joinpath("ray-schema.json").read_text()))


def test_the_compose_files_start_a_head_and_workers_that_share_a_volume() -> None:
    made = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    assert set(made["services"]) == {"head", "worker"}
    for service in made["services"].values():
        assert any(str(volume).startswith("data:") for volume in service["volumes"])
    more = yaml.safe_load((ROOT / "docker" / "compose.cuda.yaml").read_text())
    assert set(more["services"]) <= set(made["services"])
