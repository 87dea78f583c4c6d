"""Every sampler against an oracle that knows nothing of it: scipy, Bessel functions, numerical integration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats
from torch import Tensor

from ident.benchmark.latents import spaces
from ident.benchmark.latents.distributions import VMF, Anisotropic, Distribution, parse, sample
from ident.benchmark.latents.spaces import Box, Product, Space, Sphere, Unbounded
from ident.render.errors import Impossible

N = 200_000
LIKELY = 1e-4  # of a p-value; the seeds are fixed

NOISE: dict[str, Callable[[float], Any]] = {
    "laplace({})": lambda scale: stats.laplace(scale=scale),
    "normal({})": lambda scale: stats.norm(scale=scale),
    "gennorm(1, {})": lambda scale: stats.gennorm(1, scale=scale),
    "gennorm(1.5, {})": lambda scale: stats.gennorm(1.5, scale=scale),
    "gennorm(3, {})": lambda scale: stats.gennorm(3, scale=scale),
    "gennorm(10, {})": lambda scale: stats.gennorm(10, scale=scale),
}
SCALES = (0.001, 0.05, 1.0, 100.0)
EACH_NOISE = pytest.mark.parametrize("written", NOISE)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draws(distribution: Distribution, space: Space, around: list[float], n: int = N) -> npt.NDArray[np.float64]:
    points = torch.tensor(around, dtype=torch.float64).expand(n, -1)
    return distribution.draw(space, points, generator=rng()).numpy()


def fits(found: npt.NDArray[np.float64], cdf: Any) -> bool:
    return bool(stats.kstest(found, cdf).pvalue > LIKELY)


@EACH_NOISE
@pytest.mark.parametrize("scale", SCALES)
def test_on_a_box_noise_is_cut_off_at_the_sides(written: str, scale: float) -> None:
    anchor = [-1.0, -0.999, -0.5, 0.0, 0.3, 1.0]  # the corner, near it, inside
    found = draws(parse(written.format(scale)), Box(len(anchor)), anchor)
    assert np.abs(found).max() <= 1
    oracle = NOISE[written](scale)
    for z, column in zip(anchor, found.T, strict=True):
        low, high = oracle.cdf(-1 - z), oracle.cdf(1 - z)
        assert fits(column, lambda x, z=z, low=low, high=high: (oracle.cdf(x - z) - low) / (high - low))


@EACH_NOISE
@pytest.mark.parametrize("scale", SCALES)
def test_without_bounds_noise_is_as_scipys(written: str, scale: float) -> None:
    found = draws(parse(written.format(scale)), Unbounded(2), [0.0, 7.0])
    assert fits(found[:, 0], NOISE[written](scale).cdf)
    assert fits(found[:, 1] - 7, NOISE[written](scale).cdf)


@EACH_NOISE
@pytest.mark.parametrize("dim", [2, 10])
def test_on_a_sphere_noise_is_projected(written: str, dim: int) -> None:
    anchor = np.arange(1.0, dim + 1) / np.linalg.norm(np.arange(1.0, dim + 1))
    found = draws(parse(written.format(0.3)), Sphere(dim, 2.0), list(2 * anchor))
    assert np.allclose(np.linalg.norm(found, axis=1), 2)
    noisy = 2 * anchor + NOISE[written](0.3).rvs((N, dim), random_state=1)
    wished = 2 * noisy / np.linalg.norm(noisy, axis=1, keepdims=True)
    for column, oracle in zip(found.T, wished.T, strict=True):
        assert stats.ks_2samp(column, oracle).pvalue > LIKELY


def test_a_box_of_other_bounds() -> None:
    found = draws(parse("normal(2)"), Box(1, 3.0, 4.0), [3.5])[:, 0]
    assert fits(found, stats.truncnorm(-0.25, 0.25, loc=3.5, scale=2).cdf)


def test_float32_is_exact_where_it_matters() -> None:
    """The precision of the models: far from zero, at small and at large scales."""
    for scale in (0.001, 100.0):
        around = torch.full((N, 1), 0.25)
        found = parse(f"laplace({scale})").draw(Box(1), around, generator=rng())
        assert found.dtype == torch.float32
        oracle = stats.laplace(0.25, scale)
        low, high = oracle.cdf(-1), oracle.cdf(1)
        assert fits(found[:, 0].double().numpy(), lambda x, o=oracle, a=low, b=high: (o.cdf(x) - a) / (b - a))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("p", "scale"), [(1.5, 0.01), (3, 1e15), (3, 1e30), (10, 100), (20, 0.2), (200, 0.2), (200, 1.5), (1000, 5)]
)
def test_high_powers_and_sides_that_are_near(p: float, scale: float, dtype: torch.dtype) -> None:
    for z in (0.5, 0.9, 0.999):
        found = parse(f"gennorm({p}, {scale})").draw(Box(1), torch.full((N // 4, 1), z, dtype=dtype), generator=rng())
        # By integration of the density: scipy's own cdf rounds to nothing here.
        x = np.linspace(-1, 1, 200_001)
        with np.errstate(over="ignore"):
            below = integrate.cumulative_trapezoid(np.exp(-((np.abs(x - z) / scale) ** p)), x, initial=0)
        assert fits(found[:, 0].double().numpy(), lambda t, x=x, m=below: np.interp(t, x, m / m[-1]))


def bessel_ratio(order: float, x: float) -> float:
    """I_{order + 1}(x) / I_order(x) as a continued fraction."""
    ratio = 0.0
    for i in range(20_000, 0, -1):
        ratio = x / (2 * (order + i) + x * ratio)
    return ratio


@pytest.mark.parametrize("dim", [2, 3, 10, 100, 512])
@pytest.mark.parametrize("kappa", [0.0, 0.1, 1.0, 10.0, 1000.0, 1e6])
def test_moments_of_the_von_mises_fisher_distribution(dim: int, kappa: float) -> None:
    n = N if dim <= 10 else N // 10
    mean = np.ones(dim) / math.sqrt(dim)
    found = draws(VMF(kappa), Sphere(dim), list(mean), n)
    assert np.allclose(np.linalg.norm(found, axis=1), 1)
    cosine = found @ mean
    first = bessel_ratio(dim / 2 - 1, kappa)
    if 0 < kappa <= 10 and dim <= 10:
        assert math.isclose(first, special.ive(dim / 2, kappa) / special.ive(dim / 2 - 1, kappa), rel_tol=1e-9)
    second = 1 - (dim - 1) / kappa * first if kappa else 1 / dim
    assert abs(cosine.mean() - first) < 4.5 * cosine.std() / math.sqrt(n)
    assert abs((cosine**2).mean() - second) < 4.5 * (cosine**2).std() / math.sqrt(n)
    # What is at right angles to the mean has no direction of its own.
    side = found - cosine[:, None] * mean
    assert np.abs(side.mean(0)).max() < 5.5 * side.std() / math.sqrt(n)


def test_in_three_dimensions_the_cosine_has_a_closed_form() -> None:
    for kappa in (0.5, 20.0):
        found = draws(VMF(kappa), Sphere(3, 5.0), [0.0, 0.0, 5.0])[:, 2] / 5
        assert fits(found, lambda t, k=kappa: (np.exp(k * (t - 1)) - np.exp(-2 * k)) / (1 - np.exp(-2 * k)))


@pytest.mark.parametrize("precisions", [(5.0, 5.0, 25.0), (0.0, 1.0, 40.0), (3.0, 300.0, 3000.0), (0.1, 0.2, 0.0)])
@pytest.mark.parametrize("anchor", [(1.0, 0.0, 0.0), (0.6, -0.64, 0.48), (0.0, 0.01, 0.99995)])
def test_the_anisotropic_distribution_has_its_density(precisions: tuple[float, ...], anchor: tuple[float, ...]) -> None:
    z = np.array(anchor) / np.linalg.norm(anchor)
    found = draws(Anisotropic(precisions), Sphere(3), list(z), N // 2)
    for axis in range(3):  # the density of a coordinate: the others go around a circle
        others = [i for i in range(3) if i != axis]
        turn = np.linspace(-np.pi, np.pi, 1025)[:-1]
        height = np.sin(np.linspace(-np.pi / 2, np.pi / 2, 6001))
        ring = np.sqrt(1 - height**2)
        density = np.zeros_like(height)
        for angle in turn:
            x = np.empty((len(height), 3))
            x[:, axis], x[:, others[0]], x[:, others[1]] = height, ring * np.cos(angle), ring * np.sin(angle)
            density += np.exp(-((x - z) ** 2 @ np.array(precisions)))
        mass = integrate.cumulative_trapezoid(density, height, initial=0)
        assert fits(found[:, axis], lambda t, x=height, m=mass: np.interp(t, x, m / m[-1])), axis


@pytest.mark.parametrize("dim", [2, 10, 64])
def test_with_equal_precisions_it_is_a_von_mises_fisher_distribution(dim: int) -> None:
    mean = np.eye(dim)[0]
    one = draws(Anisotropic((4.0,) * dim), Sphere(dim, 1.5), list(1.5 * mean), 20_000) @ mean / 1.5
    other = draws(VMF(2 * 4.0 * 1.5**2), Sphere(dim), list(mean), 20_000) @ mean
    assert stats.ks_2samp(one, other).pvalue > LIKELY


def test_a_narrow_and_a_wide_direction() -> None:
    """Where the precisions differ by far the sampler still ends, and spreads as it should."""
    found = draws(Anisotropic((1e4,) * 5 + (0.0,) * 5), Sphere(10), [0.3] * 5 + [math.sqrt(0.11)] * 5, 20_000)
    assert np.allclose(found[:, :5].std(0), math.sqrt(0.5e-4), rtol=0.03)
    assert np.abs(found[:, 5:].mean(0)).max() < 0.02


def test_marginals() -> None:
    assert fits(sample(parse("uniform"), Box(1, -2, 3), N, generator=rng())[:, 0].numpy(), stats.uniform(-2, 5).cdf)
    assert fits(sample(parse("normal(1)"), Unbounded(1), N, generator=rng())[:, 0].numpy(), stats.norm.cdf)
    cosine = sample(parse("uniform"), Sphere(4, 3.0), N, generator=rng())[:, 1].double().numpy() / 3
    assert fits((cosine + 1) / 2, stats.beta(1.5, 1.5).cdf)
    assert torch.equal(Sphere(3, 2.0).origin, torch.tensor([2.0, 0, 0]))
    assert torch.equal(Box(2, 0, 1).origin, torch.tensor([0.5, 0.5]))
    with pytest.raises(Impossible, match="no uniform distribution on an unbounded space"):
        sample(parse("uniform"), Unbounded(3), 5, generator=rng())


def test_products() -> None:
    space = spaces.parse("box(3) * sphere(8)", 11)
    assert space == Product((Box(3), Sphere(8)))
    around = space.uniform(N, generator=rng())
    found = parse("laplace(0.05)").draw(space, around, generator=rng(1))
    assert space.contains(found).all()
    assert torch.equal(space.origin, torch.cat([Box(3).origin, Sphere(8).origin]))
    assert torch.allclose(space.project(2 * found)[:, 3:], found[:, 3:])
    with pytest.raises(Impossible, match=r"vmf\(3\): lives on a sphere"):
        parse("vmf(3)").draw(space, around, generator=rng())


SPACES = st.one_of(
    st.builds(Box, st.integers(1, 5), st.floats(-2, 0), st.floats(0.5, 3)),
    st.builds(Sphere, st.integers(2, 5), st.floats(0.1, 10)),
    st.builds(Product, st.tuples(st.builds(Box, st.integers(1, 3)), st.builds(Sphere, st.integers(2, 3)))),
)
WRITTEN = st.one_of(
    st.just("uniform"),
    st.builds("{}({:.4g})".format, st.sampled_from(["normal", "laplace"]), st.floats(0.001, 100)),
    st.builds("gennorm({:.4g}, {:.4g})".format, st.floats(1, 10), st.floats(0.001, 100)),
)


@given(SPACES, WRITTEN, st.integers(0, 2**63), st.sampled_from([torch.float32, torch.float64]))
def test_draws_lie_in_the_space_and_follow_from_the_seed(
    space: Space, written: str, seed: int, dtype: torch.dtype
) -> None:
    distribution = parse(written)
    assert parse(str(distribution)) == distribution
    around = space.uniform(20, generator=rng(seed), dtype=dtype)
    found = distribution.draw(space, around, generator=rng(seed))
    assert found.shape == around.shape
    assert found.dtype == dtype
    assert space.contains(found).all()
    assert torch.equal(found, distribution.draw(space, around, generator=rng(seed)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lapalce(0.05)", "nobody knows 'lapalce'; did you mean laplace?"),
        ("cauchy(1)", "nobody knows 'cauchy'; known are uniform, normal, laplace, gennorm, vmf, anisotropic"),
        ("laplace", r"missing a required argument: 'scale'; write it like laplace\(scale\)"),
        ("laplace()", "missing a required argument"),
        ("laplace(-1)", "the scale is -1; give a number above 0"),
        ("normal(1e40)", "from 1e-30 to 1e30"),
        ("gennorm(2000, 1)", "from 1 to 1000"),
        ("normal(0)", "the scale is 0; give a number above 0"),
        ("normal(nan)", "the scale is nan"),
        ("gennorm(0.5, 1)", "p is 0.5; give a number from 1 to 1000"),
        ("vmf(inf)", "kappa is inf"),
        ("vmf(1, 2)", r"too many positional arguments; write it like vmf\(kappa\)"),
        ("vmf(sigma=2)", "argument"),
        ("gennorm(p=3, 2)", "follows what has a name"),
        ("anisotropic(1, -2)", "number 2 is -2"),
        ("laplace(a)", "'a' is not a number"),
        ("laplace(0.05", "write it like laplace"),
        ("laplace(0.05) * vmf(1)", "give one"),
        ("", "write it like laplace"),
    ],
)
def test_what_is_written_wrongly(text: str, said: str) -> None:
    with pytest.raises(Impossible, match=said):
        parse(text)


def test_conventions_of_lambda_and_numbers_that_are_counted() -> None:
    code, paper = parse("anisotropic(10 x2, 4, convention = code)"), parse("anisotropic(5 x2, 2)")
    assert str(code) == "anisotropic(10, 10, 4, convention=code)"
    assert str(paper) == "anisotropic(5, 5, 2)"
    assert parse(str(code)) == code != paper
    around = Sphere(3).uniform(50, generator=rng())
    drawn = [one.draw(Sphere(3), around, generator=rng(1)) for one in (code, paper)]
    assert torch.equal(*drawn)
    for wrong, says in (
        ("anisotropic(1, 2, convention=cod)", "convention 'cod': choose from paper, code; did you mean code"),
        ("anisotropic(1, convention=code, 2)", "follows what has a name"),
        ("anisotropic(1 x)", "'1 x' is not a number"),
        ("anisotropic(a x3)", "'a x3' is not a number"),
        ("vmf(convention=code)", "'convention=code' is not a number"),
    ):
        with pytest.raises(Impossible, match=says):
            parse(wrong)


def test_defaults_and_names() -> None:
    assert parse("laplace", scale=0.05) == parse("laplace(0.05)") == parse(" Laplace( scale = 5e-2 ) ")
    assert parse("gennorm(3)", scale=0.05) == parse("gennorm(3, 0.05)")
    assert parse("vmf(kappa=10)") == VMF(10.0)
    assert str(parse("anisotropic(5, 25)")) == "anisotropic(5, 25)"
    assert str(parse("laplace(0.0500000123)")) == "laplace(0.0500000123)"
    with pytest.raises(Impossible, match="missing a required argument: 'kappa'"):
        parse("vmf", scale=0.05)


def test_spaces_as_they_are_written() -> None:
    assert spaces.parse("box", 10) == Box(10)
    assert spaces.parse("sphere(10, 2)", 10) == Sphere(10, 2.0)
    assert spaces.parse("box(low=0, high=1)", 3) == Box(3, 0.0, 1.0)
    for text, said in (
        ("ball", "nobody knows 'ball'"),
        ("box(3)", "has 3 dimensions, and the latents have 10"),
        ("box(10, 1, 0)", "from 1.0 to 0.0"),
        ("box(2.5)", "of 2.5 dimensions"),
        ("sphere(10, -1)", "radius -1.0"),
    ):
        with pytest.raises(Impossible, match=said):
            spaces.parse(text, 10)
    with pytest.raises(Impossible, match="it takes 2 or more"):
        spaces.parse("sphere", 1)


def test_points_that_do_not_lie_in_the_space() -> None:
    for around, said in ((torch.full((1, 2), 1.5), "lies outside"), (torch.zeros(1, 3), "in a space of 2 dimensions")):
        with pytest.raises(Impossible, match=said):
            parse("laplace(1)").draw(Box(2), around, generator=rng())
    with pytest.raises(Impossible, match="gives 3 numbers, and the space has 2"):
        Anisotropic((1.0, 2.0, 3.0)).draw(Sphere(2), torch.tensor([[1.0, 0.0]]), generator=rng())


def test_no_default_generator() -> None:
    with pytest.raises(TypeError, match="generator"):
        parse("normal(1)").draw(Box(1), torch.zeros(1, 1))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="generator"):
        sample(parse("uniform"), Box(1), 1)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Uneven(Distribution):
    """Of a user: all latents move by as much, up or down."""

    step: float

    def draw_plain(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:
        up = torch.rand(len(around), 1, generator=generator) < 0.5
        return space.project(around + torch.where(up, self.step, -self.step))


class Plain(Distribution):
    """No dataclass, so that nothing can be said of it."""

    def __init__(self, step: float) -> None:
        self.step = step

    def draw_plain(self, space: Space, around: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG002
        return around


def test_a_distribution_of_ones_own() -> None:
    made = parse("tests.benchmark.latents.test_distributions:Uneven(0.25)", own=True)
    assert made == Uneven(0.25) == parse(str(made), own=True)
    found = draws(made, Box(2), [0.5, 0.0], n=100)
    assert {tuple(row) for row in found} == {(0.75, 0.25), (0.25, -0.25)}


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("tests.benchmark.latents.test_distributions:Uneven", "missing a required argument: 'step'"),
        ("tests.benchmark.latents.test_distributions:Uneven(a)", "'a' is not a number"),
        ("fractions:Fraction(1)", "gives a Fraction, which is none"),
        ("tests.benchmark.latents.test_distributions:nothing(1)", "cannot be loaded"),
        ("nowhere:noise(1)", "cannot be loaded"),
        (":noise(1)", "write it like laplace"),
        ("tests.benchmark.latents.test_distributions:Plain(1)", "make it a dataclass of numbers"),
        ("math:hypot(1)", "distribution 'math:hypot(1)'"),
    ],
)
def test_what_is_no_distribution_of_ones_own(written: str, says: str) -> None:
    with pytest.raises(Impossible, match=re.escape(says)):
        parse(written, own=True)


def test_what_came_with_data_loads_nothing() -> None:
    with pytest.raises(Impossible, match="is a user's own, which is not loaded here"):
        parse("tests.benchmark.latents.test_distributions:Uneven(0.25)")


def test_a_point_that_rounding_brought_beyond_a_side_has_draws_around_it() -> None:
    around = torch.tensor([[-1.0000001, 1.0000001]]).expand(1000, 2)
    for text in ("gennorm(1.5, 0.5)", "laplace(0.1)", "normal(0.1)"):
        found = parse(text).draw(Box(2), around, generator=torch.Generator().manual_seed(0))
        assert (found.abs() <= 1).all()
