"""dataset.json that refuses what it does not understand, and a reader that loads anywhere."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from ident.render.errors import Failed, Impossible
from ident.render.stage.worker import Job, Worker
from ident.render.store import dataset, files
from ident.render.store.dataset import Dataset, check_there
from ident.render.store.manifest import Manifest, Record
from ident.render.store.recipe import Recipe
from ident.render.store.storage import Storage
from ident.render.worlds.engine import Engine
from ident.render.worlds.threedident import WORLD, place
from tests.render.engines import RECIPE, Painter, painting

N = 20


def paint(
    folder: Path | str, recipe: Recipe = RECIPE, n: int = N, engine: Callable[[Any], Engine] = Painter
) -> Manifest:
    """Make a dataset without Ray."""
    out = Storage(str(folder))
    if out.folder:
        (out.folder / "shards").mkdir(parents=True)
        (out.folder / ".lock").write_text("me")
    worker = Worker(Job(out, recipe, "me", engine=engine))
    manifest = Manifest.of(recipe, n, {})
    records = {}
    for number in range(manifest.count):
        *_, records[number] = worker.render(manifest.span(number))
    manifest = Manifest.of(recipe, n, {i: record for i, record in records.items() if isinstance(record, Record)})
    out.write("dataset.json", manifest.to_json().encode())
    return manifest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("data") / "painted"
    paint(made, replace(RECIPE, passes=("mask", "normal")))
    return made


WANTED = np.stack([painting(place(v), 16) for v in WORLD.values(RECIPE.source(0, N))])


def test_random_access(folder: Path) -> None:
    data = Dataset(folder)
    assert len(data) == N
    assert np.array_equal(data.latents, WORLD.draw(seed=0, split="train", start=0, n=N))
    assert not data.latents.flags.writeable
    for index in (0, 7, 8, 19, -1, np.int64(12), np.array(3)):
        image, raw = data[index]
        assert np.array_equal(image, WANTED[index])
        assert np.array_equal(raw, data.latents[index])
    for indices in ([19, 0, 8, 8, 3], np.array([5]), np.array([], int)):
        assert np.array_equal(data.images(indices), WANTED[indices])
    images, raw = data[5:15:2]
    assert np.array_equal(images, WANTED[5:15:2])
    assert np.array_equal(raw, data.latents[5:15:2])
    image += 1
    raw += 1
    assert np.array_equal(data[19][0], WANTED[19])
    assert data[19][1][0] == data.latents[19, 0]
    assert data.read("mask", 3).shape == (16, 16)
    assert data.read_many("normal", [3, 4]).dtype == np.float32


def test_what_is_not_there(folder: Path) -> None:
    data = Dataset(folder)
    for index in (N, -N - 1):
        with pytest.raises(IndexError, match=f"index {index} in a dataset of {N}"):
            data.image(index)
        with pytest.raises(IndexError):
            data.images([0, index])
    for wrong in ([1.7], [[1, 2]], ["a"], [None]):
        with pytest.raises(IndexError):
            data.images(wrong)  # type: ignore[arg-type]
    with pytest.raises(Impossible, match="has no depth; there are images, mask, normal"):
        data.read("depth", 0)
    with pytest.raises(Impossible, match=r"nowhere: no dataset there, dataset\.json is missing"):
        Dataset(folder / "nowhere")


def test_mean_and_sd_are_those_of_all_pixels(folder: Path) -> None:
    mean, sd = Manifest.read(Storage(str(folder))).moments()
    assert np.allclose(mean, (WANTED / 255).mean((0, 1, 2)), rtol=1e-12)
    assert np.allclose(sd, (WANTED / 255).std((0, 1, 2)), rtol=1e-12)


def test_open_files_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "OPEN_SHARDS", 1)
    data = Dataset(folder)
    for index in np.random.default_rng(0).integers(0, N, 50):
        assert np.array_equal(data.image(index), WANTED[index])
        assert len(data._open) == 1


def test_in_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "OPEN_SHARDS", 1)
    data = Dataset(folder)
    order = np.random.default_rng(0).integers(0, N, 4000)
    with ThreadPoolExecutor(8) as pool:
        assert all(
            np.array_equal(image, WANTED[i]) for i, image in zip(order, pool.map(data.image, order), strict=True)
        )


@pytest.mark.parametrize("how", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_in_the_workers_of_a_loader(folder: Path, how: str) -> None:
    data = Dataset(folder)
    data.image(3)  # so that a file is open when the workers fork
    loader: DataLoader[Any] = DataLoader(data, batch_size=6, num_workers=2, multiprocessing_context=how)  # type: ignore[arg-type]
    batches = list(loader)
    assert torch.equal(torch.cat([images for images, _ in batches]), torch.from_numpy(WANTED))
    assert torch.equal(torch.cat([raw for _, raw in batches]), torch.from_numpy(data.latents.copy()))


def test_a_pickle_of_it_opens_its_own_files(folder: Path) -> None:
    data = Dataset(folder)
    data.image(3)
    again = pickle.loads(pickle.dumps(data))
    assert again._open == {}
    assert np.array_equal(again.image(3), WANTED[3])


def test_needs_no_blender_no_ray_no_torch(folder: Path) -> None:
    ask = (
        "import sys; from ident.render.store.dataset import Dataset; Dataset(sys.argv[1]).image(0);"
        "print([name for name in ('bpy', 'ray', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", ask, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_incomplete_dataset_is_refused(tmp_path: Path) -> None:
    manifest = paint(tmp_path / "d")
    part = replace(manifest, shards={0: manifest.shards[0]})
    assert not part.complete
    (tmp_path / "d" / "dataset.json").write_text(part.to_json())
    with pytest.raises(Impossible, match="incomplete, 8 of 20 images are there; type the command again"):
        Dataset(tmp_path / "d")


def spoil(path: Path, how: Callable[[bytes], bytes | None]) -> None:
    data = how(path.read_bytes())
    path.unlink()
    if data is not None:
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda _: None, "is missing"),
        (lambda data: data[:-1], "is damaged, .* bytes and not"),
        (lambda data: bytes(len(data)), "cannot be read"),
    ],
)
def test_a_damaged_shard_is_named(tmp_path: Path, how: Callable[[bytes], bytes | None], said: str) -> None:
    paint(tmp_path / "d")
    spoil(tmp_path / "d" / "shards" / "00001.h5", how)
    data = Dataset(tmp_path / "d")
    assert np.array_equal(data.image(0), WANTED[0])
    with pytest.raises(Failed, match=rf"shards/00001\.h5: .*{said}"):
        data.image(8)


def test_a_shard_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    manifest = paint(tmp_path / "d")
    shards = tmp_path / "d" / "shards"
    (shards / "00001.h5").write_bytes((shards / "00000.h5").read_bytes())
    one = replace(manifest.shards[1], bytes=manifest.shards[0].bytes)
    (tmp_path / "d" / "dataset.json").write_text(replace(manifest, shards={**manifest.shards, 1: one}).to_json())
    with pytest.raises(Failed, match=r"00001\.h5: holds other rows than dataset\.json says"):
        Dataset(tmp_path / "d").image(8)


def test_a_remote_dataset_is_read_through_a_checked_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path / "cache"))
    manifest = paint("memory://remote/painted")
    data = Dataset("memory://remote/painted")
    assert np.array_equal(data.images([3, 12]), WANTED[[3, 12]])
    cached = tmp_path / "cache" / "datasets"
    assert {path.stem for path in cached.glob("*.h5")} == {manifest.shards[i].sha256 for i in (0, 1)}
    remote = Storage("memory://remote/painted")
    remote.write("shards/00002.h5", bytes(reversed(remote.read("shards/00002.h5", 10**6))))
    assert np.array_equal(Dataset("memory://remote/painted").image(3), WANTED[3])
    with pytest.raises(Failed, match=r"memory://remote/painted/shards/00002\.h5: is damaged, its sha256 is"):
        data.image(16)
    assert len(list(cached.glob("*.h5"))) == 2
    for copy in cached.glob("*.h5"):  # a damaged copy is fetched again
        copy.write_bytes(b"short")
    assert np.array_equal(Dataset("memory://remote/painted").image(3), WANTED[3])
    remote.delete("shards/00002.h5")
    with pytest.raises(Failed, match=r"memory://remote/painted/shards/00002\.h5: is missing"):
        data.image(16)
    assert not list(cached.glob(f"{files.PART}*"))


class WithoutLengths(SimpleHTTPRequestHandler):
    """A server that does not say how long a file is."""

    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Content-Length":
            super().send_header(keyword, value)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_dataset_is_there_whatever_its_server_says_of_its_size(tmp_path: Path) -> None:
    paint(tmp_path / "d", n=8)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(WithoutLengths, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        check_there(f"{place}/d")
        with pytest.raises(
            Impossible, match=rf"{place}/x: no dataset; type ident render --n 1000 or ident pull 3dident$"
        ):
            check_there(f"{place}/x")
        server.shutdown()
