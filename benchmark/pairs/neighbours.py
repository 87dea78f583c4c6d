"""The nearest rendered latents to wished-for ones: a FAISS index over the latents that a run uses, kept in the cache.

Kinds: `flat` compares with all latents and is exact; `hnsw` walks a graph of all latents, the fastest, but slow to
build; `ivf` looks into the cells whose centres an HNSW graph finds nearest, compares codes of four bits a latent there,
and then the latents themselves. How far the last two look is set by the recall that they reach on a sample.

An index says only which latents it takes for the nearest. Distances, and with them the recall, are computed from the
latents. FAISS believes every byte of a file that it reads, so it reads none that came with a dataset.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from ident.render.aliases import Float32s, Int64s
from ident.render.errors import Impossible
from ident.render.store.files import cache_folder, write

FLAT_BELOW, GRAPH_UP_TO = 5_000, 500_000  # latents; see docs/pairs.md
CODED_FROM = 6  # dimensions: with fewer, four bits for each tell too little apart
REFINED = 10  # times as many candidates are compared by themselves as are asked for
HEAPS = 10  # the fastest of the ways in which FAISS scans codes when two neighbours are asked for
WIDTHS = (8, 12, 16, 20, 24, 28, 32, 34, 36, 40, 44, 48, 56, 64, 80, 96, 128, 192, 256, 512, 1024, 2048, 4096)
"""Cells, or nodes of the graph: how far a search may look."""
FOLDER, KEPT = "indexes", 8
"""The cache's folder, and how many indexes stay there: those used last."""

Say = Callable[[str], object]


def factory(kind: str, n: int, dim: int) -> str:
    """What FAISS calls the index of a kind for n latents."""
    if kind == "flat" or n < 2 * 39:
        return "Flat"
    if kind == "hnsw":
        return "HNSW32"
    cells = 2 ** round(np.log2(2 * np.sqrt(n)))  # 1,024 for 250,000 latents
    cells = min(cells, n // 39)  # with fewer latents a cell FAISS warns that its centre means little
    return f"IVF{cells}_HNSW32,PQ{dim}x4fs,RFlat" if dim >= CODED_FROM and n >= 1000 else f"IVF{cells}_HNSW32,Flat"


KINDS = ("auto", "flat", "ivf", "hnsw")


def chosen(kind: str, n: int) -> str:
    """The kind that `auto` stands for: exact for few latents or with a GPU, cells where a graph takes minutes."""
    if kind not in KINDS:
        raise Impossible(f"index {kind!r}: choose from {', '.join(KINDS)}")
    if kind != "auto":
        return kind
    if n < FLAT_BELOW or faiss.get_num_gpus() > 0:
        return "flat"
    return "hnsw" if n <= GRAPH_UP_TO else "ivf"


@dataclass(frozen=True)
class Nearest:
    """The nearest latents that are not the anchors: their numbers, distances, and how often an anchor was nearer."""

    index: Int64s
    distance: Float32s
    anchor_was_nearest: npt.NDArray[np.bool_]


class Neighbours:
    """An index over latents (n, d)."""

    def __init__(self, latents: Float32s, index: Any) -> None:
        self.latents, self.index = np.ascontiguousarray(latents, np.float32), index
        self.one_at_a_time = Lock() if faiss.get_num_gpus() else nullcontext()
        """Held by a search: those on GPUs share their memory there."""
        self.width: int | None = None
        """How far a search looks; None: everywhere."""

    @property
    def described(self) -> str:
        """How it searches."""
        if self.width is None:
            return "which this is"
        return f"{faiss.downcast_index(self.index).__class__.__name__} looking as far as {self.width}"

    def nearest(self, wished: Float32s, anchors: Int64s) -> Nearest:
        """The nearest latent to each wished-for one (m, d) that is not its anchor (m,)."""
        wished = np.ascontiguousarray(wished, np.float32)
        with self.one_at_a_time:
            _, numbers = self.index.search(wished, 2)
        index = np.where(numbers[:, 0] == anchors, numbers[:, 1], numbers[:, 0])
        missed = (index < 0) | (index >= len(self.latents)) | (index == anchors)
        for row in np.flatnonzero(missed):  # as where the cells had nothing else
            far = np.linalg.norm(self.latents - wished[row], axis=1)
            far[anchors[row]] = np.inf
            index[row] = far.argmin()
        distance, to_anchor = (np.linalg.norm(wished - self.latents[rows], axis=1) for rows in (index, anchors))
        return Nearest(index, distance, to_anchor <= distance)

    def look(self, width: int) -> None:
        """Look as far as `width`: where each index takes it."""
        self.width = width
        base = faiss.downcast_index(self.index)
        if isinstance(base, faiss.IndexRefine):
            base.k_factor = REFINED
            base = faiss.downcast_index(base.base_index)
        if isinstance(base, faiss.IndexIVF):
            base.nprobe = width
            if isinstance(base, faiss.IndexIVFFastScan):
                base.implem = HEAPS
            quantizer: Any = faiss.downcast_index(base.quantizer)
            quantizer.hnsw.efSearch = width // 2  # as good as more: a cell too few costs less than it takes to find
        elif isinstance(base, faiss.IndexHNSW):
            base.hnsw.efSearch = width
        else:
            self.width = None

    def recall(self, wished: Float32s, anchors: Int64s) -> float:
        """The share of wished-for latents for which the nearest that is not the anchor is found, by exact search."""
        exact = Neighbours(self.latents, exact_index(self.latents))
        return recall(self.nearest(wished, anchors), exact.nearest(wished, anchors))

    def tune(self, wished: Float32s, anchors: Int64s, wanted: float, say: Say) -> float:
        """Look just as far as is needed for a recall on a sample, by exact search if need be; gives the recall."""
        exact = Neighbours(self.latents, exact_index(self.latents))
        true, reached = exact.nearest(wished, anchors), 0.0
        for width in WIDTHS:
            self.look(width)
            reached = recall(self.nearest(wished, anchors), true)
            if reached >= wanted or self.width is None:
                break
        if reached < wanted:
            say(f"however far the index looks, its recall is {reached:.4f}, not {wanted}: exact search it is")
            self.index, self.width = exact.index, None
            reached = recall(self.nearest(wished, anchors), true)
        return reached


def recall(nearest: Nearest, true: Nearest) -> float:
    """The share of neighbours that are as near as the true ones."""
    return float((nearest.distance <= true.distance * (1 + 1e-5) + 1e-7).mean())


def exact_index(latents: Float32s) -> Any:
    """An index that compares with all latents, on GPUs where FAISS sees any."""
    index: Any = faiss.IndexFlatL2(latents.shape[1])
    if faiss.get_num_gpus() > 0:  # of processes that torchrun has started each has one
        own = os.environ.get("LOCAL_RANK")
        gpus = None if own is None else [int(own) % faiss.get_num_gpus()]
        index = faiss.index_cpu_to_gpus_list(index, gpus=gpus)
    index.add(latents)
    return index


def build(latents: Float32s, kind: str) -> Any:
    """An index over latents; the same for the same latents."""
    name = factory(kind, *latents.shape)
    if name == "Flat":
        return exact_index(latents)
    threads = faiss.omp_get_max_threads()
    index = faiss.index_factory(latents.shape[1], name)
    try:
        if kind == "hnsw":
            faiss.omp_set_num_threads(1)  # else the graph depends on which thread is first
        index.train(latents)
        index.add(latents)
    finally:
        faiss.omp_set_num_threads(threads)
    return index


def open_index(latents: Float32s, kind: str, say: Say) -> Neighbours:
    """The index over latents, from the user's cache, or built and kept there."""
    latents = np.ascontiguousarray(latents, np.float32)
    n, dim = latents.shape
    if n < 2:
        raise Impossible(f"{n} latents: a positive that is not its anchor takes two or more")
    kind = chosen(kind, n)
    name = factory(kind, n, dim)
    if name == "Flat":
        return Neighbours(latents, exact_index(latents))
    key = hashlib.sha256(f"{name} {faiss.__version__} {latents.shape} ".encode() + latents.tobytes()).digest()
    index = None
    try:
        path = private_folder() / f"{kind}-{key.hex()[:16]}.faiss"
        index = load(path, key, say)
        if index is None:
            say(f"{path}: is built, once for these {n} latents")
            index = build(latents, kind)
            save(path, key, index)
    except (Impossible, OSError) as error:
        say(f"{error}: the index is built, and not kept")
    return Neighbours(latents, build(latents, kind) if index is None else index)


def private_folder() -> Path:
    """Where indexes are kept: a folder of the cache that is nobody's but the user's."""
    folder = cache_folder() / FOLDER
    folder.mkdir(0o700, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise Impossible(
            f"{folder}: is open to others; make it yours alone, or let the variable IDENT_CACHE name another"
        )
    return folder


def save(path: Path, key: bytes, index: Any) -> None:
    """Keep an index: a checksum with its key, and what FAISS makes of it. Those not used for longest make room."""
    data = faiss.serialize_index(index).tobytes()
    write(path, hashlib.sha256(key + data).digest() + data)
    with suppress(FileNotFoundError):  # another process makes room, too
        for oldest in sorted(path.parent.iterdir(), key=lambda kept: kept.stat().st_mtime_ns)[:-KEPT]:
            oldest.unlink()


def load(path: Path, key: bytes, say: Say) -> Any:
    """A kept index; None if there is none, or one that is damaged or belongs to other latents."""
    if not path.exists():
        return None
    kept = path.read_bytes()
    checksum, data = kept[:32], kept[32:]
    if hashlib.sha256(key + data).digest() != checksum:
        say(f"{path}: is damaged, and built anew")
        return None
    path.touch()
    return faiss.deserialize_index(np.frombuffer(data, np.uint8))
