"""The index against a look at all latents; kept, damaged, wrong, and open to others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from ident.benchmark.pairs.neighbours import KEPT, KINDS, Neighbours, build, chosen, exact_index, factory, open_index
from ident.render.aliases import Float32s, Int64s
from ident.render.errors import Impossible
from ident.render.worlds.threedident import WORLD

RAW = WORLD.draw(seed=0, split="train", start=0, n=6000)
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
    reached = index.tune(wished, anchors, 0.99, print)
    assert reached >= 0.99
    assert index.recall(wished, anchors) == reached
    far = np.linalg.norm(raw[None] - wished[:, None], axis=2)
    far[np.arange(len(far)), anchors] = np.inf
    found = index.nearest(wished, anchors)
    assert (found.index == far.argmin(1)).mean() >= 0.99
    assert not (found.index == anchors).any()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where indexes are kept."""
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path))
    return tmp_path / "indexes"


@pytest.mark.parametrize("kind", SEARCHED)
def test_an_index_is_kept_and_the_same_when_built_again(cache: Path, kind: str) -> None:
    said = list[str]()
    one = open_index(RAW, kind, said.append)
    assert len(said) == 1
    assert "is built, once for these 6000 latents" in said[0]
    (kept,) = cache.iterdir()
    again = open_index(RAW, kind, said.append)
    assert len(said) == 1
    first = kept.read_bytes()
    kept.unlink()
    open_index(RAW, kind, said.append)
    assert len(said) == 2
    assert kept.read_bytes() == first
    wished, anchors = wishes(RAW)
    for index in (one, again):
        index.look(32)
    assert np.array_equal(one.nearest(wished, anchors).index, again.nearest(wished, anchors).index)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-100],
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda _: b"",
        lambda data: b"x" * 32 + data[32:],
    ],
)
def test_a_bad_file_is_built_anew_with_a_word(cache: Path, change: Callable[[bytes], bytes]) -> None:
    open_index(RAW, "hnsw", lambda _: None)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(change(whole))
    said = list[str]()
    open_index(RAW, "hnsw", said.append)
    assert said[0] == f"{kept}: is damaged, and built anew"
    assert kept.read_bytes() == whole


def test_other_latents_have_another_file(cache: Path) -> None:
    open_index(RAW, "hnsw", lambda _: None)
    (one,) = cache.iterdir()
    open_index(RAW + np.float32(1e-3), "hnsw", lambda _: None)
    (two,) = set(cache.iterdir()) - {one}
    two.write_bytes(one.read_bytes())
    said = list[str]()
    open_index(RAW + np.float32(1e-3), "hnsw", said.append)
    assert said[0] == f"{two}: is damaged, and built anew"


def test_the_indexes_used_last_are_kept(cache: Path) -> None:
    def kept(shift: int) -> Path:
        before = set(cache.iterdir()) if cache.exists() else set()
        open_index(RAW[:1000] + np.float32(shift), "hnsw", lambda _: None)
        (added,) = set(cache.iterdir()) - before or {cache}
        return added

    files = [kept(shift) for shift in range(KEPT)]
    assert kept(0) == cache  # nothing is added, but it was used
    files.append(kept(KEPT))
    assert set(cache.iterdir()) == {*files} - {files[1]}


def test_an_index_is_nobodys_but_the_users(cache: Path) -> None:
    said = list[str]()
    open_index(RAW, "hnsw", said.append)
    assert cache.stat().st_mode & 0o777 == 0o700
    cache.chmod(0o777)
    wished, anchors = wishes(RAW)
    assert open_index(RAW, "hnsw", said.append).tune(wished, anchors, 0.99, said.append) >= 0.99
    assert said[1:] == [
        f"{cache}: is open to others; make it yours alone, or let the variable IDENT_CACHE name another: "
        "the index is built, and not kept"
    ]


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.write_bytes(b"mine")
    said = list[str]()
    assert len(open_index(RAW, "hnsw", said.append).latents) == 6000
    assert said == [f"[Errno 17] File exists: '{cache}': the index is built, and not kept"]


def wrong(kind: str) -> Any:
    """An index of the same latents in another order."""
    return build(RAW[np.random.default_rng(0).permutation(len(RAW))], kind)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_distances_and_the_recall_are_those_of_the_latents(kind: str) -> None:
    wished, anchors = wishes(RAW)
    index = Neighbours(RAW, wrong(kind))
    index.look(64)
    found = index.nearest(wished, anchors)
    assert np.array_equal(found.distance, np.linalg.norm(wished - RAW[found.index], axis=1))
    assert np.array_equal(found.anchor_was_nearest, np.linalg.norm(wished - RAW[anchors], axis=1) <= found.distance)
    assert index.recall(wished, anchors) < 0.02


@pytest.mark.parametrize("kind", KINDS[1:])
def test_exact_search_takes_the_place_of_an_index_that_misses_the_recall(kind: str) -> None:
    wished, anchors = wishes(RAW)
    said = list[str]()
    index = Neighbours(RAW, wrong(kind))
    assert index.tune(wished, anchors, 0.999, said.append) == 1
    assert len(said) == 1
    assert re.fullmatch(
        r"however far the index looks, its recall is 0\.0\d{3}, not 0\.999: exact search it is", said[0]
    )
    true = Neighbours(RAW, exact_index(RAW)).nearest(wished, anchors)
    assert np.array_equal(index.nearest(wished, anchors).index, true.index)


def test_what_an_index_cannot_mean_is_not_taken() -> None:
    """Numbers of no latent, and the anchor as its own neighbour."""
    index: Any = faiss.IndexIDMap2(faiss.IndexFlatL2(10))
    index.add_with_ids(RAW, np.where(np.arange(6000) % 2, 7, 10**9))
    found = Neighbours(RAW, index).nearest(RAW[:50], np.full(50, 7))
    far = np.linalg.norm(RAW[None] - RAW[:50, None], axis=2)
    far[:, 7] = np.inf
    assert np.array_equal(found.index, far.argmin(1))


def test_what_is_chosen() -> None:
    assert [chosen("auto", n) for n in (2, 4_999, 5_000, 500_000, 500_001)] == ["flat", "flat", "hnsw", "hnsw", "ivf"]
    assert factory("ivf", 250_000, 10) == "IVF1024_HNSW32,PQ10x4fs,RFlat"
    assert factory("ivf", 250_000, 3) == "IVF1024_HNSW32,Flat"
    assert factory("ivf", 5, 10) == "Flat"
    for kind in KINDS:
        assert chosen(kind, 10) == (kind if kind != "auto" else "flat")
    with pytest.raises(Impossible, match="index 'kd': choose from auto, flat, ivf, hnsw"):
        chosen("kd", 10)


def test_few_latents(cache: Path) -> None:
    for kind in KINDS:
        found = open_index(RAW[:2], kind, lambda _: None).nearest(RAW[:2], np.array([0, 1]))
        assert found.index.tolist() == [1, 0]
    with pytest.raises(Impossible, match="1 latents: a positive that is not its anchor takes two or more"):
        open_index(RAW[:1], "auto", lambda _: None)
    assert not cache.exists()


def test_twins_are_neighbours() -> None:
    raw = np.concatenate([RAW[:100], RAW[:100]])
    found = Neighbours(raw, exact_index(raw)).nearest(raw, np.arange(200))
    assert np.allclose(found.distance, 0, atol=1e-3)
    assert np.array_equal(found.index % 100, np.arange(200) % 100)
    assert found.anchor_was_nearest.all()  # as near as its twin
