"""The files for Docker and for clusters, and the script that tries them with an engine of its own."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

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


CHECK = ROOT / "docker" / "check.sh"


@pytest.mark.slow
@pytest.mark.skipif(not may_mount(), reason="docker/check.sh needs root on Debian or Ubuntu, a clone, and mounts")
@pytest.mark.skipif(shutil.which("dockerd") is None, reason="docker/check.sh would install Docker")
def test_the_image_for_cpus_does_what_it_promises(tmp_path: Path) -> None:
    pypi = {**os.environ, "BACKEND": ""}  # PyTorch from where all else comes from
    done = subprocess.run([CHECK, "cpu", tmp_path / "d"], env=pypi, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "the scene renders" in done.stdout
    assert "data/3dident: cannot be made (Permission denied); give another --out" in done.stdout
    assert not (tmp_path / "d").exists()


def refusal(*words: object, **options: Any) -> str:
    """The line by which docker/check.sh refuses to begin."""
    command: list[str | Path] = ["bash", CHECK, *map(str, words)]
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.removeprefix("docker/check.sh: ")


def commands(folder: Path, *names: str) -> dict[str, str]:
    """An environment in which there are no other commands."""
    folder.mkdir()
    for name in ("bash", "dirname", "id", *names):
        (folder / name).symlink_to(shutil.which(name) or name)
    return {"PATH": str(folder)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_the_check_begins_nothing_that_it_cannot_end(tmp_path: Path) -> None:
    assert refusal() == "type docker/check.sh readme|cpu|cuda|engine [FOLDER]\n"
    script = CHECK.read_text()
    nobody = subprocess.run(
        ["bash", "-s", "engine"], input=script, user=65534, cwd="/", capture_output=True, text=True, check=False
    )
    assert (nobody.returncode, nobody.stderr) == (2, "docker/check.sh: needs root: type sudo docker/check.sh engine\n")
    assert refusal("cpu", env=commands(tmp_path / "one")) == "needs Debian or Ubuntu: here is no apt-get\n"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    said = f"{tmp_path}/mine: is none of this script's; give another folder\n"
    assert refusal("engine", tmp_path / "mine") == said
    assert (tmp_path / "mine" / "thesis.tex").exists()


@pytest.mark.skipif(not may_mount(), reason="a small disk is mounted")
def test_the_check_needs_room(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", small], check=True)
    try:
        said = f"{small}/d: 0 GB are free there, and it takes 20; give another folder\n"
        assert refusal("engine", small / "d") == said
        assert not list(small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.skipif(not may_mount(), reason="docker/check.sh needs root on Debian or Ubuntu")
def test_the_check_leaves_alone_what_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = f"{tmp_path}/file/x: cannot be made; give another folder\n"
    assert refusal("engine", tmp_path / "file" / "x") == said
    for name in ("", "a b"):
        assert refusal("engine", name) == f"'{name}': is no name for a folder here; give one without spaces\n"
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "image").touch()
    with (busy / ".ident-check").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        said = f"{busy}: another run is at work there; wait for it, or give another folder\n"
        assert refusal("engine", busy) == said
    assert (busy / "image").exists()


@pytest.mark.skipif(not may_mount(), reason="docker/check.sh needs root on Debian or Ubuntu")
def test_the_check_says_why_there_is_no_engine(tmp_path: Path) -> None:
    environment = commands(tmp_path / "tools", "df", "find", "flock", "grep", "ls", "mkdir", "rmdir", "tail", "touch")
    (tmp_path / "tools" / "apt-get").write_text("#!/bin/sh\necho 'E: Unable to locate package'\nexit 100\n")
    (tmp_path / "tools" / "apt-get").chmod(0o755)
    said = "debootstrap cannot be installed: E: Unable to locate package\n"
    assert refusal("cpu", tmp_path / "d", env=environment) == said
    assert not (tmp_path / "d").exists()


@pytest.mark.slow
@pytest.mark.skipif(not may_mount(), reason="docker/check.sh needs root on Debian or Ubuntu, a clone, and mounts")
@pytest.mark.skipif(not (shutil.which("dockerd") and shutil.which("debootstrap")), reason="it would install them")
def test_the_check_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    nowhere = {**os.environ, "http_proxy": "http://127.0.0.1:9"}
    assert refusal("cpu", tmp_path / "d", env=nowhere).startswith("debootstrap made no Debian: E: ")
    assert list(tmp_path.iterdir()) == []


def test_the_image_takes_what_is_there() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    sources = re.findall(r"source=([\w./-]+)", text)
    assert {"requirements.lock", "docker/install.sh"} <= set(sources)
    assert all((ROOT / source).is_file() for source in sources)
    lines = text.splitlines()
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
