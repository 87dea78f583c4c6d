"""What the tests share: running the command as a user does, and scenes to render."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ident.render import latents
from ident.render.scene import Scene, place

# For those that start Ray in this process: read as ray is imported, see ident.render.cluster.
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ident(tmp_path: Path) -> Run:
    """Run `ident ARGUMENTS` in an empty folder."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ident.cli", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False, **options)  # type: ignore[call-overload,no-any-return]

    return run


@pytest.fixture
def scenes() -> list[Scene]:
    """Eight scenes of random latents."""
    return [place(values) for values in latents.to_scene_values(latents.sample(seed=3, split="test", start=0, n=8))]
