"""Pairs of drawn images: UNI, LAP, and frames of sequences, with small images."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from ident.benchmark.pairs.batch import PositivePairs
from ident.benchmark.pairs.changes import LaplaceChange, Temporal, Tracks, UniformChange
from ident.benchmark.registry import PAIRS, SOURCES, read_slot
from ident.benchmark.sources.dsprites import DSprites
from ident.benchmark.sources.masks import Walkers
from ident.benchmark.sources.mixed import Mixed
from ident.benchmark.sources.tracks import SmoothTracks, Sprites
from ident.render.errors import Impossible


@pytest.fixture(scope="module")
def walkers() -> Walkers:
    return Walkers(80, seed=0)


@pytest.mark.parametrize("pairs", [UniformChange, LaplaceChange])
def test_a_batch_is_the_same_whenever_it_is_drawn(pairs: type[UniformChange]) -> None:
    source = DSprites(16, seed=3)
    first, again = pairs(source).batch(5, 8), pairs(DSprites(16, seed=3)).batch(5, 8)
    assert first.observations.shape == (16, 1, 16, 16)
    assert first.comparisons == (PositivePairs(slice(8), slice(8, 16)),)
    assert torch.equal(first.observations, again.observations)
    for other in (pairs(source).batch(6, 8), pairs(DSprites(16, seed=4)).batch(5, 8)):
        assert not torch.equal(first.observations, other.observations)


def test_uniform_changes_some_and_never_all() -> None:
    source = DSprites(16, seed=0)
    rng = np.random.default_rng(0)
    anchors = source.draw(20_000, rng)
    changed = UniformChange(source).changed(anchors, rng)
    different = changed != anchors
    counts = np.bincount(different.sum(1), minlength=6)
    assert counts[[0, 5]].tolist() == [0, 0]
    assert chisquare(counts[1:5]).pvalue > 1e-4
    assert chisquare(different.sum(0)).pvalue > 1e-4
    shapes = np.bincount(((changed - anchors)[different[:, 0], 0]) % 3, minlength=3)
    assert shapes[0] == 0
    assert chisquare(shapes[1:]).pvalue > 1e-4
    assert (changed < source.sizes).all()


def test_laplace_moves_all_but_the_shape() -> None:
    source = DSprites(16, seed=0)
    rng = np.random.default_rng(0)
    anchors = np.tile([2, 3, 20, 16, 31], (40_000, 1))
    changed = LaplaceChange(source).changed(anchors, rng)
    assert (changed[:, 0] == 2).all()
    assert (changed != anchors).any(1).all()
    for column in range(1, 5):
        size = source.sizes[column]
        weights = [math.exp(-abs(k - anchors[0, column]) / math.log(size)) for k in range(size)]
        stays = weights[anchors[0, column]] / sum(weights)
        # At least one factor changes: all staying is left out of what is drawn independently.
        others = math.prod(1 / sum(math.exp(-abs(k - anchors[0, c]) / math.log(n)) for k in range(n))
                           for c, n in enumerate(source.sizes) if c not in (0, column))  # fmt: skip
        expected = np.array(weights) / sum(weights)
        expected[anchors[0, column]] -= stays * others
        counts = np.bincount(changed[:, column], minlength=size)
        assert chisquare(counts, expected / expected.sum() * len(anchors)).pvalue > 1e-4


def test_frames_come_up_to_five_later(walkers: Walkers) -> None:
    first, later = walkers.transitions.draw(5000, 5, np.random.default_rng(0))
    steps = later - first
    assert set(steps) == {1, 2, 3, 4, 5}
    assert (first // 40 == later // 40).all()
    assert (steps[first % 40 < 35][:, None] == np.arange(1, 6)).mean(0) == pytest.approx(0.2, abs=0.03)
    ends = first % 40 == 38
    assert (steps[ends] == 1).all()
    batch = Temporal(walkers, 5).batch(0, 6)
    assert batch.observations.shape == (12, 1, 64, 64)
    assert set(batch.observations.unique().tolist()) == {0, 255}


def test_latents_of_walkers_are_those_of_their_pixels(walkers: Walkers) -> None:
    latents, parts = walkers.samples("test", 20)
    for (y, x, area), image in zip(latents.tolist(), torch.cat(list(parts))[:, 0].numpy() > 0, strict=True):
        rows, columns = np.nonzero(image)
        assert (y, x, area) == pytest.approx((rows.mean(), columns.mean(), len(rows)), rel=1e-5)


@pytest.mark.parametrize("how", ["continuous", "discrete"])
def test_tracks_keep_orientation_and_shape(how: str) -> None:
    source = SmoothTracks(how, 800, seed=1)
    assert [factor.name for factor in source.factors] == ["x", "y", "scale", "orientation", "shape"]
    batch = Tracks(source).batch(2, 4)
    assert batch.observations.shape == (8, *source.shape) == (8, 3, 64, 64)
    assert (batch.observations == batch.observations[:, :1]).all()
    assert torch.equal(batch.observations, Tracks(source).batch(2, 4).observations)
    factors, parts = source.samples("test", 300)
    assert torch.cat(list(parts)).shape == (300, 3, 64, 64)
    if how == "discrete":
        assert (factors == factors.round()).all()
        assert [len(factors[:, column].unique()) for column in (2, 4)] == [6, 4]
    else:
        areas = source.pairs[..., 2] ** 2
        assert float(areas.max()) < (26 / 64) ** 2 * 0.9  # the largest tenth is left out


@pytest.mark.parametrize("how", ["continuous", "discrete"])
def test_tracks_of_which_no_pair_is_left_are_refused(how: str) -> None:
    track = np.array([[10, 20, 30], [11, 21, 31]], float)
    with pytest.raises(Impossible, match="natural sprites: all of 1 pairs have a largest area; give more"):
        Sprites([track], how, seed=0)


def test_labelled_and_sampled_images_are_those_of_their_factors() -> None:
    source = DSprites(16, seed=0)
    images, factors = source.labelled(3, 12, slice(4, 8))
    assert torch.equal(images, source.images(factors.numpy().astype(int)))
    factors, parts = source.samples("test", 300)
    images = torch.cat(list(parts))
    assert torch.equal(images, source.images(factors.numpy().astype(int)))
    assert (source.picture(torch.randn(300, 10)) or b"")[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("pairs", "source", "said"),
    [
        ("uniform-change", "walkers(80)", "uniform-change: is of factors that have classes"),
        ("laplace-change", "mixed(box(3, 0, 1))", "laplace-change: is of factors that have classes"),
        ("temporal(5)", "dsprites(16)", "temporal: is of sequences"),
        ("temporal(0)", "walkers(80)", "temporal: 0 frames"),
        ("temporal(5)", "smooth-tracks(discrete, 800)", "temporal: 5 frames; give a whole number from 1 to 1$"),
        ("tracks", "mixed(box(3, 0, 1))", "temporal: is of sequences"),
    ],
)
def test_pairs_of_sources_that_have_none(pairs: str, source: str, said: str) -> None:
    with pytest.raises(Impossible, match=said):
        PAIRS.make(read_slot(pairs), SOURCES.make(read_slot(source), seed=0, device=torch.device("cpu")))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("kitti-masks", r"data/kitti-masks/?\S*: is not there; type ident pull kitti-masks"),
        ("natural-sprites(discrete)", "is not there; type ident pull natural-sprites"),
        ("smooth-tracks(round)", "natural sprites 'round': choose from continuous, discrete"),
        ("walkers(3)", "frames 3: give a whole number"),
        ("dsprites(2)", "dsprites: size 2"),
    ],
)
def test_sources_that_cannot_be(source: str, said: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    with pytest.raises(Impossible, match=said):
        SOURCES.make(read_slot(source), seed=0)


def test_a_source_of_latents_is_none_of_images() -> None:
    assert not hasattr(Mixed("box(3, 0, 1)", seed=0), "transition")
