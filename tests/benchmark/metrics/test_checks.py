"""What says how far a representation is from theory, of representations that are made so far from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ident.benchmark import metrics
from ident.benchmark.metrics.lookup import CHECKS
from ident.render.aliases import Float64s
from ident.render.errors import Impossible

RNG = np.random.default_rng(0)
FACTORS = RNG.normal(size=(400, 4))
ROTATION: Float64s = stats.ortho_group.rvs(4, random_state=1)
BLOCKS = [[0, 2], [1, 3]]


def check(name: str, x: Float64s, y: Float64s, **more: Any) -> float:
    return metrics.value(name, x, y, seed=0, **more)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_permutations_and_one_scale_are_as_the_theorems_say(power: float) -> None:
    moved = -3 * FACTORS[:, [2, 0, 3, 1]] + 1
    assert check("distances", FACTORS, moved, power=power) == pytest.approx(0, abs=1e-12)
    assert check("orthogonality", FACTORS, moved, power=power) == pytest.approx(0, abs=1e-12)
    assert check("leakage", FACTORS, moved, blocks=[[0], [1], [2], [3]]) == pytest.approx(0, abs=1e-12)


def test_rotations_keep_euclidean_distances_alone() -> None:
    turned = FACTORS @ ROTATION.T
    assert check("distances", FACTORS, turned, power=2) == pytest.approx(0, abs=1e-12)
    assert check("orthogonality", FACTORS, turned, power=2) == pytest.approx(0, abs=1e-12)
    assert check("distances", FACTORS, turned, power=1) > 0.05
    ratios = []
    for i in range(len(FACTORS)):
        for j in range(i):
            ratios.append(np.abs(turned[i] - turned[j]).sum() / np.abs(FACTORS[i] - FACTORS[j]).sum())
    assert check("distances", FACTORS, turned, power=1) == pytest.approx(np.std(ratios) / np.mean(ratios))


def test_known_distortions_have_known_values() -> None:
    on_a_line = np.arange(100.0)[:, None]
    bent = np.hstack([on_a_line, np.zeros((100, 1))])  # and turned to another plane: nothing is stretched
    assert check("distances", on_a_line, bent, power=2) == pytest.approx(0, abs=1e-12)
    stretched = FACTORS * [1, 1, 1, 2]  # A'A is 1, 1, 1, 4, of a mean of 7/4
    expected = math.sqrt(3 * (4 / 7 - 1) ** 2 + (16 / 7 - 1) ** 2) / 2
    assert check("orthogonality", FACTORS, stretched, power=2) == pytest.approx(expected)
    white = stats.zscore(FACTORS)
    angle = 0.3
    mixed = white.copy()  # of one latent of each block
    mixed[:, 0] = math.cos(angle) * white[:, 0] - math.sin(angle) * white[:, 1]
    mixed[:, 1] = math.sin(angle) * white[:, 0] + math.cos(angle) * white[:, 1]
    assert check("leakage", white, mixed, blocks=BLOCKS) == pytest.approx(math.sin(angle) ** 2 / 2)
    assert check("leakage", white, mixed[:, [3, 0, 1, 2]], blocks=BLOCKS) == pytest.approx(math.sin(angle) ** 2 / 2)


def test_turning_within_blocks_leaks_nothing() -> None:
    turn, y = stats.ortho_group.rvs(2, random_state=2), FACTORS.copy()
    for block in BLOCKS:
        y[:, block] = FACTORS[:, block] @ turn
    assert check("leakage", FACTORS, y, blocks=BLOCKS) == pytest.approx(0, abs=1e-12)
    assert check("leakage", FACTORS, FACTORS @ ROTATION.T, blocks=BLOCKS) > 0.05


def test_what_has_collapsed_is_as_far_as_can_be() -> None:
    nothing = np.ones((400, 4))
    assert check("distances", FACTORS, nothing, power=2) == 1
    assert check("orthogonality", FACTORS, nothing, power=2) == 1
    assert check("leakage", FACTORS, nothing, blocks=BLOCKS) == 1


def test_a_critic_is_right_but_for_a_number_of_each_anchor() -> None:
    def ratio(x: Float64s) -> Float64s:
        squares: Float64s = ((x[:, None] - x[None]) ** 2).sum(-1)
        return -5 * squares

    def dots(x: Float64s) -> Float64s:
        return 10 * x @ x.T  # -5 |a - b|^2 = 10 ab - 5 a^2 - 5 b^2

    on_sphere = FACTORS / np.linalg.norm(FACTORS, axis=1, keepdims=True)
    turned = on_sphere @ ROTATION.T
    assert check("critic", on_sphere, turned, critic=dots, log_ratio=ratio) == pytest.approx(0, abs=1e-12)
    assert check("critic", on_sphere, 1.1 * turned, critic=dots, log_ratio=ratio) == pytest.approx(0.21)
    assert check("critic", on_sphere, 0 * turned, critic=dots, log_ratio=ratio) == pytest.approx(1)
    with pytest.raises(Impossible, match=r"critic \(400,\) and log ratio \(400, 400\) of 400 points"):
        check("critic", on_sphere, turned, critic=lambda y: y[:, 0], log_ratio=ratio)


def test_precisions_are_compared_in_order() -> None:
    assert check("precisions", FACTORS, FACTORS, learned=[25, 5, 5, 25], precisions=[[5, 5, 25, 25]]) == 0
    far = check("precisions", FACTORS, FACTORS, learned=[24, 5.5, 5, 25], precisions=[[5, 5, 25, 25]])
    assert far == pytest.approx((0.1 + 0.04) / 4)
    two = check("precisions", FACTORS, FACTORS, learned=[1, 4, 4, 2], precisions=[[4, 1], [1, 4]])
    assert two == pytest.approx(1 / 4)
    with pytest.raises(Impossible, match=r"precisions \(3,\) of \(1, 4\): give as many"):
        check("precisions", FACTORS, FACTORS, learned=[1, 2, 3], precisions=[[5, 5, 25, 25]])


def test_they_need_what_sources_of_known_densities_have() -> None:
    for name, lacks in (("distances", "power"), ("leakage", "blocks"), ("critic", "critic and log_ratio")):
        with pytest.raises(Impossible, match=f"metric {name}: needs {lacks}; give it by name"):
            metrics.score(name, FACTORS, FACTORS, seed=0)
    assert not set(CHECKS) & set(metrics.METRICS)
    with pytest.raises(Impossible, match=r"give each of 4 factors in one of them"):
        check("leakage", FACTORS, FACTORS, blocks=[[0, 1], [1, 3]])


def test_scores_have_intervals_and_chance() -> None:
    noisy = FACTORS + 0.1 * RNG.normal(size=FACTORS.shape)
    score = metrics.score("distances", FACTORS, noisy, seed=0, power=2)
    assert 0 < score.low < score.value < score.high < score.chance
