"""`ident doctor`: what works on this machine, what does not, and what to type to mend it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import click
from rich.text import Text

from ident.cli.terminal import say_json, say_table
from ident.render.blender.installed import LIBRARIES, RENDERS, lacking
from ident.render.children import ask
from ident.render.errors import Failed
from ident.render.threads import cores

State = Literal["ok", "none", "broken"]
GB = 1e9


@dataclass(frozen=True)
class Finding:
    """What a check says of a part: ok, none (works without), or broken; and what to type where it is not ok."""

    state: State
    found: str
    mend: str = ""

    @property
    def words(self) -> str:
        """The finding, and on a line of its own what to type."""
        return f"{self.found}\n-> {self.mend}" if self.mend else self.found


@cache
def printed(code: str) -> str:
    """What code prints in a process of its own: a library that is broken may end it."""
    done = ask(code)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Failed(said[-1] if said else f"it ended with code {done.returncode}")
    return done.stdout.strip()


def python() -> Finding:
    return Finding("ok", f"{platform.python_version()}, {platform.machine()}")


BLENDER = """
import json, sys
from ident.render.errors import Impossible
try:
    from ident.render.blender import engine
except Impossible as error:
    sys.exit(str(error))
from ident.render.worlds.threedident import place
from ident.render.blender.settings import Settings
engine.Engine(Settings(size=16)).image(place([0] * 10))
print(json.dumps([engine.version(), [f"{gpu.name} ({gpu.backend})" for gpu in engine.gpus()]]))
"""
"""Renders an image, and says which Blender did and which GPUs Cycles sees."""


def blender() -> Finding:
    if wrong := lacking():
        return Finding("none" if sys.version_info[:2] != RENDERS else "broken", *wrong)
    return Finding("ok", f"bpy {json.loads(printed(BLENDER))[0]}, the scene renders")


def cycles_gpus() -> Finding:
    if wrong := lacking():
        return Finding("none", "none without Blender", wrong[1])
    if gpus := json.loads(printed(BLENDER))[1]:
        return Finding("ok", ", ".join(gpus))
    return Finding("none", "Cycles sees none: renders on the CPU", "nvidia-smi, if there should be one")


def ray() -> Finding:
    return Finding("ok", f"ray {printed('import ray; print(ray.__version__)')}")


FAISS = "import faiss; print(faiss.__version__, faiss.get_num_gpus() if hasattr(faiss, 'get_num_gpus') else 0)"
TORCH = "import torch; print(torch.__version__, torch.cuda.device_count())"


def faiss() -> Finding:
    version, gpus = printed(FAISS).split()
    return Finding("ok", f"faiss {version}, GPUs: {'none, searches on the CPU' if gpus == '0' else gpus}")


def torch() -> Finding:
    version, gpus = printed(TORCH).split()
    return Finding("ok", f"torch {version}, GPUs: {'none, trains on the CPU' if gpus == '0' else gpus}")


def disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / GB
    if free < 5:
        return Finding("broken", f"{free:.1f} GB free here, less than 5", "use a folder elsewhere: --out")
    return Finding("ok", f"{free:.0f} GB free here")


def memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB
    count = cores()
    if total / count < 0.5:
        return Finding(
            "broken",
            f"{total:.1f} GB for {count} cores, an engine takes 0.5",
            "use a machine with more memory, or fewer --workers",
        )
    return Finding("ok", f"{total:.0f} GB, {count} cores")


CHECKS: dict[str, tuple[Callable[[], Finding], str]] = {
    "Python": (python, ""),
    "Blender": (blender, LIBRARIES),
    "Cycles GPUs": (cycles_gpus, LIBRARIES),
    "Ray": (ray, "pip install ray"),
    "FAISS": (faiss, "pip install faiss-gpu (Linux x86-64) or faiss-cpu"),
    "PyTorch": (torch, "pip install torch torchvision"),
    "Disk": (disk, ""),
    "Memory": (memory, ""),
}
"""Per part its check, and what to type if the check itself fails."""


def examine() -> dict[str, Finding]:
    """All findings; a check that raises is one, too."""
    findings = {}
    for name, (check, mend) in CHECKS.items():
        try:
            findings[name] = check()
        except Exception as error:  # whatever is wrong with a part, the others are examined
            findings[name] = Finding("broken", " ".join(str(error).split()) or type(error).__name__, mend)
    return findings


EPILOG = """\b
Examples:
  ident doctor
  ident doctor --json
"""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Say what works on this machine.

    And what does not, and what to type to mend it. Exit code 1 if something is broken; a GPU that is not there is not.
    """
    findings = examine()
    if as_json:
        say_json({name: asdict(finding) for name, finding in findings.items()})
    else:
        colours = {"ok": "green", "none": "yellow", "broken": "red"}
        say_table(
            ("", "", ""),
            ((Text(one.state, colours[one.state]), name, one.words) for name, one in findings.items()),
        )
    context.exit(1 if any(finding.state == "broken" for finding in findings.values()) else 0)
