"""Worlds: drawn by (world, seed, split, index), and found by their names."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ident.render import worlds
from ident.render.errors import Impossible
from ident.render.worlds import Category, Circle, Factor, Interval, World
from ident.render.worlds.threedident import WORLD

seeds = st.integers(0, 2**64 - 1)


@given(seed=seeds, split=st.text(max_size=8), start=st.integers(0, 2**40), n=st.integers(1, 40), at=st.integers(0, 39))
def test_a_latent_depends_on_its_index_alone(seed: int, split: str, start: int, n: int, at: int) -> None:
    many = WORLD.draw(seed=seed, split=split, start=start, n=n)
    one = WORLD.draw(seed=seed, split=split, start=start + at % n, n=1)
    assert np.array_equal(many[at % n], one[0])


def test_other_seeds_and_splits_give_other_latents() -> None:
    draws = [WORLD.draw(seed=s, split=p, start=0, n=50) for s in (0, 1, 2**64 - 1) for p in ("train", "test")]
    values = np.concatenate(draws)
    assert len(np.unique(values, axis=0)) == len(values)


def test_the_stream_is_pinned() -> None:
    first = WORLD.draw(seed=0, split="train", start=0, n=1)[0]
    assert first.dtype == np.float32
    assert [round(float(value) * 2**23) for value in first] == [
        *(-4996747, 5133877, -776817, -3353456, -5402285),
        *(-7937751, 7954307, -5180439, 5967927, 2737660),
    ]


def test_latents_are_uniform_and_independent() -> None:
    raw = WORLD.draw(seed=1, split="train", start=0, n=100_000).astype(np.float64)
    assert raw.min() >= -1
    assert raw.max() < 1
    for column in raw.T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    correlation = np.corrcoef(np.concatenate([raw[:-1], raw[1:]], axis=1).T)
    assert np.abs(correlation - np.eye(20)).max() < 5 / np.sqrt(len(raw))


def test_the_keywords_are_required() -> None:
    with pytest.raises(TypeError, match="seed"):
        WORLD.draw(split="train", start=0, n=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, True, "0", None])
def test_seeds_that_no_generator_takes(seed: int) -> None:
    with pytest.raises(Impossible, match=f"seed {seed!r}: "):
        WORLD.draw(seed=seed, split="train", start=0, n=1)


def test_numpy_numbers_are_numbers_too() -> None:
    far = WORLD.draw(seed=1, split="train", start=2**40, n=1)
    assert np.array_equal(WORLD.draw(seed=1, split="train", start=np.int64(2**40), n=1), far)  # type: ignore[arg-type]
    with pytest.raises(Impossible, match="start"):
        WORLD.draw(seed=1, split="train", start=np.int64(2**62), n=1)  # type: ignore[arg-type]


def test_scene_values_are_raw_times_scale() -> None:
    half_pi = np.pi / 2
    assert np.allclose(WORLD.values(np.ones(10)), [3, 3, 3] + [half_pi] * 7)


SPIRAL = World(
    "spiral",
    (
        Factor("radius", Interval(0.1, 2)),
        Factor("turn", Circle(0, 1), scale=2 * np.pi),
        *(Factor(f"colour {i}", Category(("red", "green", "blue"))) for i in range(5)),
    ),
)


def test_every_kind_is_drawn_evenly_by_its_bounds() -> None:
    raw = SPIRAL.draw(seed=1, split="train", start=0, n=60_000)
    assert SPIRAL.check(raw) is not raw
    assert stats.kstest(raw[:, 0], stats.uniform(0.1, 1.9).cdf).pvalue > 1e-3
    assert stats.kstest(raw[:, 1], stats.uniform(0, 1).cdf).pvalue > 1e-3
    for column in raw[:, 2:].T:
        counts = np.bincount(column.astype(int))
        assert len(counts) == 3
        assert stats.chisquare(counts).pvalue > 1e-3
    assert np.abs(np.corrcoef(raw.T) - np.eye(7)).max() < 5 / np.sqrt(len(raw))


@given(seed=seeds, start=st.integers(0, 2**40), n=st.integers(1, 40), at=st.integers(0, 39))
def test_a_latent_of_more_factors_depends_on_its_index_alone(seed: int, start: int, n: int, at: int) -> None:
    many = SPIRAL.draw(seed=seed, split="x", start=start, n=n)
    assert np.array_equal(many[at % n], SPIRAL.draw(seed=seed, split="x", start=start + at % n, n=1)[0])


def test_worlds_draw_apart() -> None:
    other = replace(SPIRAL, name="coil")
    one, two = (world.draw(seed=0, split="train", start=0, n=50)[:, :2] for world in (SPIRAL, other))
    assert not set(one.ravel().tolist()) & set(two.ravel().tolist())


def test_a_digest_is_of_the_definition() -> None:
    factors = SPIRAL.factors
    others = [
        replace(SPIRAL, name="coil"),
        replace(SPIRAL, factors=factors[::-1]),
        replace(SPIRAL, factors=(replace(factors[0], unit="m"), *factors[1:])),
        replace(SPIRAL, stream=""),
        replace(SPIRAL, source="0" * 64),
        replace(SPIRAL, picture=lambda *_: np.zeros((1, 1, 1), np.uint8)),
    ]
    assert len({world.digest for world in (SPIRAL, *others)}) == 7
    assert replace(SPIRAL, reference="here.py:world", size=3).digest == SPIRAL.digest
    assert WORLD.digest == "43e79d4a54df8780c40a5136ee52eb854f2807877ac22bf821672cdf9b70519f"


def test_worlds_that_cannot_be() -> None:
    for changes, said in (
        ({"name": "../x"}, r"world '\.\./x': give a name of letters"),
        ({"name": ""}, "world '': give a name"),
        ({"factors": ()}, "0 factors: give 1 to 256"),
        ({"factors": ("x",)}, "1 factors: give 1 to 256, each a Factor"),
        ({"factors": SPIRAL.factors[:1] * 2}, "several factors are called radius"),
        ({"scene": list}, "world spiral: give it a picture, or a scene and its engine, or none of them"),
        ({"engine": "blender"}, "world spiral: give it a picture, or a scene"),
        ({"scene": list, "engine": "blender", "picture": print}, "world spiral: give it a picture, or a scene"),
    ):
        with pytest.raises(Impossible, match=said):
            replace(SPIRAL, **changes)


def test_a_world_that_nobody_knows() -> None:
    assert worlds.load("3dident") is WORLD
    for text, said in (
        (
            "3dindent",
            r"world '3dindent': did you mean 3dident\? choose from 3dident, dsprites, natural-sprites, walkers, "
            r"or give file\.py:name of your own",
        ),
        ("", "world '': choose from 3dident"),
        (
            "nowhere.py:world",
            r"nowhere\.py:world: cannot be loaded \(.*No such file.*give package\.module:name, or file",
        ),
        ("json:nothing", "json:nothing: cannot be loaded"),
        ("json:dumps", "json:dumps: is a function, not a World"),
    ):
        with pytest.raises(Impossible, match=said):
            worlds.load(text)


OWN = """
from ident.render.worlds import Factor, Interval, World
world = World("own", (Factor("x", Interval(0, 1)),))
"""


def test_a_users_world_is_loaded_anew_where_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    world = worlds.load(f"{tmp_path}/own.py:world")
    assert world.source
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.py"]  # nothing compiled beside it
    assert pickle.loads(pickle.dumps(world)).digest == world.digest
    ask = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).digest)"
    command = [sys.executable, "-P", "-c", ask, pickle.dumps(world).hex()]
    ended = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
    assert ended.stdout == f"{world.digest}\n"
    (tmp_path / "own.py").write_text(OWN + "\n")
    ended = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert "own.py:world: was changed after the command was typed" in ended.stderr


def test_files_of_one_name_in_two_folders_are_two_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also to one process, which keeps the digest of each."""
    for folder, text in ((tmp_path / "one", OWN), (tmp_path / "two", f"{OWN}\n")):
        folder.mkdir()
        (folder / "own.py").write_text(text)
        monkeypatch.chdir(folder)
        assert worlds.load("own.py:world").source == sha256(text.encode()).hexdigest()
