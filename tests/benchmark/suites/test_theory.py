"""What theory says of rows, against quadrature and by hand; and that reports need no PyTorch for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from ident.benchmark.suites import theory
from ident.benchmark.suites.rows import Row, row_of
from ident.benchmark.suites.suite import load_suite
from ident.render.aliases import Float64s


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
    elsewhere = ("sphere", "normal(1)"), ("box(1) * sphere(2)", "normal(1)"), ("sphere(2) * box(1)", "vmf(1)")
    for space, marginal in (("sphere", "uniform"), ("unbounded", "normal(1)"), *elsewhere):
        assert theory.mass_moved(space, marginal, 3) == 0


def test_what_a_loss_should_learn() -> None:
    assert theory.optimum(["anisotropic(5, 2)"]) == [5, 2]
    assert theory.optimum(["anisotropic(150, 150)"], "anisotropic(100, 50)") == [50, 100]
    assert theory.optimum(["anisotropic(4, 1)", "anisotropic(1, 4)"]) == [4, 1, 1, 4]
    assert theory.optimum(["vmf(10)"]) == []


def test_what_a_loss_should_learn_is_known_of_negatives_of_one_kind() -> None:
    learned = {row.id: theory.optimum_of(row) for row in load_suite("hard-negatives").rows}
    assert learned == {"alone": [50] * 20, "beside-others": [], "fine-tuned": [], "going-on": [150] * 20}


@pytest.mark.parametrize(("convention", "expected"), [("paper", [2.5, 1.0]), ("code", [5.0, 2.0])])
def test_conventions_of_lambda(convention: str, expected: list[float]) -> None:
    assert theory.optimum(["anisotropic(5, 2, convention=code)"], convention=convention) == expected
    assert theory.optimum(["anisotropic(2.5, 1)"], convention=convention) == expected


def row(source: str, pairs: str, objective: str = "infonce(vmf)") -> Row:
    settings = {"source": source, "pairs": pairs, "objective": objective, "space": "unbounded"}
    return row_of({"id": "mine", **settings})


@pytest.mark.parametrize(
    ("source", "pairs", "marginal"),
    [
        ("mixed(sphere(3, 2), uniform)", "drawn(vmf(4))", "uniform"),
        ("mixed(sphere(3, 2), vmf(3))", "drawn(anisotropic(1 x2, 3, convention=code))", "vmf(3)"),
        ("mixed(box(3, 0, 1), uniform)", "drawn(laplace(0.4))", "uniform"),
        ("mixed(box(3, 0, 1), normal(0.5))", "drawn(gennorm(3, 0.5))", "normal(0.5)"),
        ("mixed(unbounded(3), laplace(1))", "drawn(normal(0.7))", "laplace(1)"),
    ],
)
def test_the_log_density_ratio_is_that_of_the_formulas(source: str, pairs: str, marginal: str) -> None:
    ratio = theory.log_ratio(row(source, pairs))
    assert ratio is not None
    x = np.random.default_rng(0).random((5, 3))
    if "sphere" in source:
        x *= 2 / np.linalg.norm(x, axis=1, keepdims=True)
    noise: dict[str, Callable[[Float64s], float]] = {
        "laplace(0.4)": lambda far: stats.laplace.logpdf(far, scale=0.4).sum(),
        "gennorm(3, 0.5)": lambda far: stats.gennorm.logpdf(far, 3, scale=0.5).sum(),
        "normal(0.7)": lambda far: stats.norm.logpdf(far, scale=0.7).sum(),
        "normal(0.5)": lambda far: stats.norm.logpdf(far, scale=0.5).sum(),
        "laplace(1)": lambda far: stats.laplace.logpdf(far).sum(),
        "anisotropic(1 x2, 3, convention=code)": lambda far: float(-0.5 * far**2 @ [1, 1, 3]),
    }

    def logarithm(text: str, around: Float64s, at: Float64s) -> float:
        if text.startswith("vmf"):
            return float(text[4:-1]) * float(around @ at) / 4  # of a radius of 2
        return 0.0 if text == "uniform" else noise[text](at - around)

    middle = {"sphere": [2.0, 0, 0], "box": [0.5] * 3, "unbounded": [0.0] * 3}[source[6:].partition("(")[0]]
    expected = np.array([
        [logarithm(pairs[6:-1], a, b) - logarithm(marginal, np.array(middle), b) for b in x] for a in x
    ])  # fmt: skip
    values = ratio(x)
    for one in (values, expected):
        one -= one[:, :1].copy()
    assert values == pytest.approx(expected)


def test_the_ratio_to_hard_negatives_is_known_where_there_are_no_others() -> None:
    hard = "drawn(anisotropic(5, 4, 3), hard=anisotropic(2 x3), hard_count=2, {}=1)"
    alone = theory.log_ratio(row("latents(sphere(3))", hard.format("only_hard")))
    x = np.eye(3)
    assert alone is not None
    assert alone(x) == pytest.approx(-np.array([[0, 5, 4], [5, 0, 3], [4, 3, 0]]))
    assert theory.log_ratio(row("latents(sphere(3))", hard.replace(", {}=1", ""))) is None


def test_the_marginal_plays_no_part_where_negatives_are_compared_with_positives() -> None:
    objective = "infonce(normal, against=positive)"
    ratio = theory.log_ratio(row("mixed(unbounded(2), laplace(1))", "drawn(normal(1))", objective))
    assert ratio is not None
    assert ratio(np.eye(2)) == pytest.approx(np.array([[0, -1], [-1, 0]]))
    assert theory.log_ratio(row("mixed(box(2))", "drawn(normal(1))", objective)) is None
    assert theory.log_ratio(row("mixed(sphere(2))", "drawn(anisotropic(1, 2))", objective)) is None


def test_what_is_not_known_is_not_said() -> None:
    noise_on_sphere = row("mixed(sphere(3))", "drawn(laplace(0.1))")
    assert set(theory.facts(noise_on_sphere)) == {"power"}
    assert theory.facts(row("dataset", "around(normal)")) == {}
    product = row("mixed(box(2) * sphere(3))", "drawn(laplace(0.1))")
    assert "log_ratio" not in theory.facts(product)


def test_blocks_are_latents_of_equal_precisions() -> None:
    assert theory.blocks(row("mixed(sphere(4))", "drawn(anisotropic(5, 2, 5, 2))")) == [[0, 2], [1, 3]]
    two = row("mixed(sphere(3))", "drawn(anisotropic(5, 5, 2), anisotropic(1, 3, 2))", "ensemble")
    assert theory.blocks(two) == [[0], [1], [2]]
    assert theory.facts(two)["precisions"].tolist() == [[5, 5, 2], [1, 3, 2]]
    assert theory.blocks(row("mixed(box(2))", "drawn(laplace(0.1))")) == [[0], [1]]
    assert "blocks" not in theory.facts(row("mixed(sphere(3))", "drawn(vmf(3))"))


def test_concentrations_and_names() -> None:
    assert theory.concentration("vmf(10)") == 10
    assert theory.concentration("normal(0.05)") == pytest.approx(400)
    assert theory.concentration("uniform") is None
    assert theory.convention(row("mixed(sphere(2))", "drawn(vmf(3))")) == ""
    assert theory.convention(row("mixed(sphere(2))", "drawn(anisotropic(3 x2))", "aninfonce")) == "paper"
    mixed = row("mixed(sphere(2))", "drawn(anisotropic(3 x2, convention = code))", "aninfonce")
    assert theory.convention(mixed) == "code and paper"


def test_reports_take_no_pytorch() -> None:
    code = "import sys, ident.cli.report, ident.benchmark.report.page; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "matplotlib" in loaded
    assert {"torch", "ray", "faiss", "bpy"}.isdisjoint(loaded)
