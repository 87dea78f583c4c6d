"""What the tests share: running the command as a user does, and scenes to render."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ident.render import latents
from ident.render.scene import Scene, place

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


def psnr(ours: npt.NDArray[np.uint8], truth: npt.NDArray[np.uint8]) -> float:
    """Peak signal-to-noise ratio of 8-bit images, in dB."""
    return float(10 * np.log10(255**2 / np.mean((ours.astype(float) - truth) ** 2)))
