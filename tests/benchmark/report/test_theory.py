"""What theory says of rows, against quadrature and by hand; and that reports need no PyTorch for it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, stats

from ident.benchmark.report import theory


@pytest.mark.parametrize("kappa", [0.25, 4.0, 64.0])
def test_the_mass_moved_on_a_sphere_is_that_of_quadrature(kappa: float) -> None:
    def uniform(cosine: float) -> float:
        return float((1 - cosine**2) ** ((10 - 3) / 2))

    def apart(cosine: float) -> float:
        return float(abs(np.exp(kappa * (cosine - 1)) / total - 1 / whole)) * uniform(cosine)

    whole = integrate.quad(uniform, -1, 1)[0]
    total = integrate.quad(lambda cosine: np.exp(kappa * (cosine - 1)) * uniform(cosine), -1, 1)[0]
    expected = integrate.quad(apart, -1, 1, limit=500)[0] / 2
    assert theory.mass_moved("sphere", f"vmf({kappa})", 10) == pytest.approx(expected, abs=0.01)


def test_the_mass_moved_in_a_box_of_one_dimension() -> None:
    x = (np.arange(100_000) + 0.5) / 100_000
    density = stats.norm.pdf(x, 0.5, 0.25)
    expected = np.maximum(1 - density / density.mean(), 0).mean()
    assert theory.mass_moved("box(1, 0, 1)", "normal(0.25)", 1) == pytest.approx(expected, abs=0.005)
    assert theory.mass_moved("box(2, 0, 1)", "normal(100)", 2) < 0.001
    for space, marginal in (("sphere", "uniform"), ("unbounded", "normal(1)"), ("sphere", "normal(1)")):
        assert theory.mass_moved(space, marginal, 3) == 0


def test_what_a_loss_should_learn() -> None:
    assert theory.optimum(["anisotropic(5, 2)"]) == [5, 2]
    assert theory.optimum(["anisotropic(150, 150)"], "anisotropic(100, 50)") == [50, 100]
    assert theory.optimum(["anisotropic(4, 1)", "anisotropic(1, 4)"]) == [4, 1, 1, 4]
    assert theory.optimum(["vmf(10)"]) == []


def test_reports_take_no_pytorch() -> None:
    code = "import sys, ident.cli.report, ident.benchmark.report.page; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "matplotlib" in loaded
    assert {"torch", "ray", "faiss", "bpy"}.isdisjoint(loaded)
