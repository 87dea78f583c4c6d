"""The index against a look at all latents; kept, damaged, and of other latents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ident.benchmark.neighbours import KINDS, Neighbours, build, chosen, exact_index, factory, open_index
from ident.render import latents
from ident.render.aliases import Float32s, Int64s
from ident.render.errors import Impossible

RAW = latents.sample(seed=0, split="train", start=0, n=6000)
SEARCHED = ("ivf", "hnsw")


def wishes(raw: Float32s, n: int = 300) -> tuple[Float32s, Int64s]:
    rng = np.random.default_rng(0)
    anchors = rng.integers(0, len(raw), n)
    return (raw[anchors] + rng.normal(0, 0.05, (n, raw.shape[1]))).astype(np.float32), anchors


def test_the_nearest_that_is_not_the_anchor() -> None:
    wished, anchors = wishes(RAW)
    found = Neighbours(RAW, exact_index(RAW)).nearest(wished, anchors)
    far = np.linalg.norm(RAW[None] - wished[:, None], axis=2)
    assert np.array_equal(found.anchor_was_nearest, far.argmin(1) == anchors)
    far[np.arange(len(far)), anchors] = np.inf
    assert np.array_equal(found.index, far.argmin(1))
    assert np.allclose(found.distance, far.min(1), atol=1e-5)


@pytest.mark.parametrize("kind", SEARCHED)
@pytest.mark.parametrize("dim", [2, 5, 10])
def test_the_recall_is_what_was_asked_for(kind: str, dim: int) -> None:
    raw = np.ascontiguousarray(RAW[:, :dim])
    wished, anchors = wishes(raw, 1000)
    index = Neighbours(raw, build(raw, kind))
    reached = index.tune(wished, anchors, 0.99)
    assert reached >= 0.99
    assert index.recall(wished, anchors) == reached
    far = np.linalg.norm(raw[None] - wished[:, None], axis=2)
    far[np.arange(len(far)), anchors] = np.inf
    found = index.nearest(wished, anchors)
    assert (found.index == far.argmin(1)).mean() >= 0.99
    assert not (found.index == anchors).any()


@pytest.mark.parametrize("kind", SEARCHED)
def test_an_index_is_kept_and_the_same_when_built_again(tmp_path: Path, kind: str) -> None:
    said = list[str]()
    one = open_index(RAW, kind, tmp_path / "one", said.append)
    assert len(said) == 1
    assert "is built, once for these 6000 latents" in said[0]
    again = open_index(RAW, kind, tmp_path / "one", said.append)
    open_index(RAW, kind, tmp_path / "two", said.append)
    assert len(said) == 2
    (kept,) = (tmp_path / "one").iterdir()
    assert kept.read_bytes() == (tmp_path / "two" / kept.name).read_bytes()
    wished, anchors = wishes(RAW)
    for index in (one, again):
        index.look(32)
    assert np.array_equal(one.nearest(wished, anchors).index, again.nearest(wished, anchors).index)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda data: data[:-100], "is damaged, and built anew"),
        (lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], "is damaged, and built anew"),
        (lambda _: b"", "is damaged, and built anew"),
        (lambda data: b"x" * 32 + data[32:], "belongs to other latents, and is built anew"),
    ],
)
def test_a_bad_file_is_built_anew_with_a_word(tmp_path: Path, change: object, word: str) -> None:
    open_index(RAW, "ivf", tmp_path, lambda _: None)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(change(whole))  # type: ignore[operator]
    said = list[str]()
    open_index(RAW, "ivf", tmp_path, said.append)
    assert said[0] == f"{kept}: {word}"
    assert kept.read_bytes() == whole


def test_other_latents_have_another_file(tmp_path: Path) -> None:
    open_index(RAW, "ivf", tmp_path, lambda _: None)
    open_index(RAW + np.float32(1e-3), "ivf", tmp_path, lambda _: None)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_chosen() -> None:
    assert [chosen("auto", n) for n in (2, 4_999, 5_000, 500_000, 500_001)] == ["flat", "flat", "hnsw", "hnsw", "ivf"]
    assert factory("ivf", 250_000, 10) == "IVF1024_HNSW32,PQ10x4fs,RFlat"
    assert factory("ivf", 250_000, 3) == "IVF1024_HNSW32,Flat"
    assert factory("ivf", 5, 10) == "Flat"
    for kind in KINDS:
        assert chosen(kind, 10) == (kind if kind != "auto" else "flat")
    with pytest.raises(Impossible, match="index 'kd': choose from auto, flat, ivf, hnsw"):
        chosen("kd", 10)


def test_few_latents(tmp_path: Path) -> None:
    for kind in KINDS:
        found = open_index(RAW[:2], kind, tmp_path, lambda _: None).nearest(RAW[:2], np.array([0, 1]))
        assert found.index.tolist() == [1, 0]
    with pytest.raises(Impossible, match="1 latents: a positive that is not its anchor takes two or more"):
        open_index(RAW[:1], "auto", tmp_path, lambda _: None)


def test_twins_are_neighbours() -> None:
    raw = np.concatenate([RAW[:100], RAW[:100]])
    found = Neighbours(raw, exact_index(raw)).nearest(raw, np.arange(200))
    assert np.allclose(found.distance, 0, atol=1e-3)
    assert np.array_equal(found.index % 100, np.arange(200) % 100)
    assert found.anchor_was_nearest.all()  # as near as its twin
