"""The files for Docker and for clusters. What an image's lines do is done in a bare Debian, without Docker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parent.parent


def may_mount() -> bool:
    """Whether this is root on Debian or Ubuntu, in a clone, and not in a container that forbids mounts."""
    if os.geteuid() or shutil.which("apt-get") is None or not (ROOT / ".git").exists():
        return False
    own = ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmp", "/mnt"]
    return subprocess.run(own, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not may_mount(), reason="docker/check.sh needs root on Debian or Ubuntu, a clone, and mounts")
def test_the_image_for_cpus_renders(tmp_path: Path) -> None:
    debian = tmp_path / "debian"
    pypi = {**os.environ, "BACKEND": ""}  # PyTorch from where all else comes from
    command: list[str | Path] = [ROOT / "docker" / "check.sh", "cpu", debian]
    try:
        done = subprocess.run(command, env=pypi, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "the scene renders" in done.stdout
        picture = debian / "data" / "traversal.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_uid == 1000
    finally:
        shutil.rmtree(debian, ignore_errors=True)


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
    assert "--num-cpus" not in more["services"]["worker"]["command"]  # or GPUs beyond the cores would idle
