"""Sampling by (seed, split, index), and latent files, good and hostile."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ident.render.errors import Impossible
from ident.render.worlds import latents

seeds = st.integers(0, 2**64 - 1)


@given(seed=seeds, split=st.text(max_size=8), start=st.integers(0, 2**40), n=st.integers(1, 40), at=st.integers(0, 39))
def test_a_latent_depends_on_its_index_alone(seed: int, split: str, start: int, n: int, at: int) -> None:
    many = latents.sample(seed=seed, split=split, start=start, n=n)
    one = latents.sample(seed=seed, split=split, start=start + at % n, n=1)
    assert np.array_equal(many[at % n], one[0])


def test_other_seeds_and_splits_give_other_latents() -> None:
    draws = [latents.sample(seed=s, split=p, start=0, n=50) for s in (0, 1, 2**64 - 1) for p in ("train", "test")]
    values = np.concatenate(draws)
    assert len(np.unique(values, axis=0)) == len(values)


def test_the_stream_is_pinned() -> None:
    first = latents.sample(seed=0, split="train", start=0, n=1)[0]
    assert first.dtype == np.float32
    assert [round(float(value) * 2**23) for value in first] == [
        *(-4996747, 5133877, -776817, -3353456, -5402285),
        *(-7937751, 7954307, -5180439, 5967927, 2737660),
    ]


def test_latents_are_uniform_and_independent() -> None:
    raw = latents.sample(seed=1, split="train", start=0, n=100_000).astype(np.float64)
    assert raw.min() >= -1
    assert raw.max() < 1
    for column in raw.T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    correlation = np.corrcoef(np.concatenate([raw[:-1], raw[1:]], axis=1).T)
    assert np.abs(correlation - np.eye(20)).max() < 5 / np.sqrt(len(raw))


def test_the_keywords_are_required() -> None:
    with pytest.raises(TypeError, match="seed"):
        latents.sample(split="train", start=0, n=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, True, "0", None])
def test_seeds_that_no_generator_takes(seed: int) -> None:
    with pytest.raises(Impossible, match=f"seed {seed!r}: "):
        latents.sample(seed=seed, split="train", start=0, n=1)


def test_numpy_numbers_are_numbers_too() -> None:
    far = latents.sample(seed=1, split="train", start=2**40, n=1)
    assert np.array_equal(latents.sample(seed=1, split="train", start=np.int64(2**40), n=1), far)  # type: ignore[arg-type]
    with pytest.raises(Impossible, match="start"):
        latents.sample(seed=1, split="train", start=np.int64(2**62), n=1)  # type: ignore[arg-type]


def test_scene_values_are_raw_times_scale() -> None:
    half_pi = np.pi / 2
    assert np.allclose(latents.to_scene_values(np.ones(10)), [3, 3, 3] + [half_pi] * 7)
    with pytest.raises(ValueError, match="read-only"):
        latents.SCALES[0] = 1


def test_a_file_is_read_back(tmp_path: Path) -> None:
    raw = latents.sample(seed=0, split="x", start=0, n=5)
    np.save(tmp_path / "z.npy", raw.astype(np.float64))
    assert np.array_equal(latents.read(tmp_path / "z.npy"), raw)


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array), allow_pickle=True)
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros((2, 10)))
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../../evil.npy", b"x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy(np.zeros((3, 9))), r"\(3, 9\)"),
        (npy(np.zeros(10)), r"\(10,\)"),
        (npy(np.zeros((0, 10))), r"\(0, 10\)"),
        (npy(np.zeros((2, 10), int)), "int64"),
        (npy(np.zeros((2, 10), complex)), "complex128"),
        (npy(np.full((2, 10), np.nan, np.float32)), "row 0, x is nan"),
        (npy(np.full((2, 10), -np.inf)), "-inf"),
        (npy(np.full((2, 10), 1.5)), "1.5.*raw_latents.npy"),
        (npy(np.full((2, 10), 77.0)), r"77.0, not in \[-1, 1\]$"),
        (npy([{"a": 1}]), "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10)", b"(-1, 10)"), "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10), }     ", b"(9999999999999, 10)}")[:200], "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10), }", b"(20, 10, ((("), "not a .npy file"),
        (npz()[:60], "not a .npy file"),
        (npy(np.full((2, 10), 1 + 1e-12)), "1.000000000001"),
        (npy(np.zeros((20, 10)))[:300], "not a .npy file"),
        (npy(np.zeros((20, 10)))[:20], "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10)", b"(1<<60,)"), "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10), }    ", b"(99999999, 10),}"), "not a .npy file"),
        (npz(), "not a .npy file"),
        (zipped(), "not a .npy file"),
        (b"", "not a .npy file"),
        (b"0.1 0.2 0.3", "not a .npy file"),
    ],
)
def test_hostile_files(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "z.npy"
    path.write_bytes(content)
    with pytest.raises(Impossible, match=says) as caught:
        latents.read(path)
    assert "z.npy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="No such file"):
        latents.read(tmp_path / "z.npy")
    with pytest.raises(Impossible, match=r"is not a file; give a \.npy file of raw latents"):
        latents.read(tmp_path)
