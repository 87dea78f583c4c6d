"""Pairs: the same by the same seed, different in every worker and process, and as far from the wish as is said."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import faiss
import h5py
import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.data import DataLoader

from ident.benchmark.latents.distributions import parse
from ident.benchmark.latents.spaces import Box
from ident.benchmark.pairs import loader, matching, neighbours
from ident.benchmark.pairs.file import save
from ident.benchmark.pairs.loader import PairDataset
from ident.benchmark.pairs.neighbours import Neighbours, exact_index
from ident.benchmark.pairs.positives import DrawnPositives
from ident.benchmark.pairs.samplers import NearestSampler, batches, joined, open_sampler
from ident.benchmark.training.seeds import stream
from ident.cli.pairs import KINDS
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset
from ident.render.worlds.threedident import WORLD
from tests.conftest import Run
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

RAW = WORLD.draw(seed=0, split="train", start=0, n=2000)


def sampler(conditional: str = "laplace(0.05)", seed: int = 0) -> NearestSampler:
    return NearestSampler(Neighbours(RAW, exact_index(RAW)), Box(10), parse(conditional), seed, WORLD.names)


def test_what_rounding_brings_beyond_a_side_lies_in_the_box() -> None:
    just, clearly = torch.tensor([[1.0000001, -1.0000001]]), torch.tensor([[1.00001, 0.0]])
    assert Box(2).contains(just)
    assert not Box(2).contains(clearly)
    assert not Box(2).contains(torch.tensor([[torch.nan, 0.0]]))


def test_a_batch_follows_from_seed_and_number() -> None:
    one, two, other, next_ = (
        sampler().draw(3, 50), sampler().draw(3, 50), sampler(seed=1).draw(3, 50), sampler().draw(4, 50),
    )  # fmt: skip
    for name in ("anchor", "positive", "wished", "distance"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))
        assert not np.array_equal(getattr(one, name), getattr(next_, name))
    assert len({stream(seed, batch) for seed in range(30) for batch in range(30)}) == 900
    assert not (one.anchor == one.positive).any()
    assert np.array_equal(RAW[one.positive], one.positive_latents)
    assert np.allclose(one.distance, np.linalg.norm(one.wished - one.positive_latents, axis=1), atol=1e-5)
    assert len(joined([one, two])) == 100


def anchors(dataset: PairDataset, workers: int) -> list[bytes]:
    return [batch["anchor"].numpy().tobytes() for batch in DataLoader(dataset, batch_size=None, num_workers=workers)]


def test_workers_and_processes_draw_different_batches() -> None:
    alone = anchors(PairDataset(sampler(), 64, batches=8), 0)
    shared = anchors(PairDataset(sampler(), 64, batches=8), 2)
    assert len(set(alone)) == 8
    assert set(shared) == set(alone)
    assert shared == anchors(PairDataset(sampler(), 64, batches=8), 2)
    ranks = [anchors(PairDataset(sampler(), 64, batches=4, rank=rank, world=2), 2) for rank in range(2)]
    assert set(ranks[0]) | set(ranks[1]) == set(alone)
    assert not set(ranks[0]) & set(ranks[1])
    assert anchors(PairDataset(sampler(), 64, batches=3, first=5), 0) == alone[5:]


def test_two_processes() -> None:
    """What each of two processes draws that were started by themselves."""
    ask = (
        "import sys; from tests.benchmark.pairs.test_pairs import *\n"
        "print(*(hash(a) for a in anchors(PairDataset(sampler(), 16, batches=2, rank=int(sys.argv[1]), world=2), 0)))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", ask, str(rank)], capture_output=True, text=True, check=True,
            cwd=Path(__file__).parents[3], env={"PYTHONHASHSEED": "0"},
        ).stdout.split()
        for rank in (0, 1, 0)
    ]  # fmt: skip
    assert said[0] == said[2]
    assert len({*said[0], *said[1]}) == 4


def test_a_batch_has_what_a_trainer_needs() -> None:
    batch = next(iter(PairDataset(sampler(), 8)))
    shapes = {name: tuple(tensor.shape) for name, tensor in batch.items()}
    assert shapes["anchor"] == shapes["positive"] == shapes["distance"] == (8,)
    assert shapes["wished"] == shapes["anchor_latents"] == shapes["positive_latents"] == (8, 10)
    assert batch["wished"].dtype == torch.float32


def test_a_loader_has_images(data: Path) -> None:
    stored = Dataset(data)
    batches = list(loader.loader(stored, "normal(0.3)", batch_size=8, seed=0, batches=3))
    assert len(batches) == 3
    for batch in batches:
        for which in ("anchor", "positive"):
            images = batch[f"{which}_images"]
            assert (images.shape, images.dtype) == ((8, 3, 16, 16), torch.float32)
            expected = stored.images(batch[which].numpy()).transpose(0, 3, 1, 2)
            assert np.array_equal((255 * images).round().numpy(), expected)
    again = loader.loader(stored, "normal(0.3)", batch_size=8, seed=0, batches=3, workers=2)
    for one, two in zip(batches, again, strict=True):
        assert all(torch.equal(one[name], two[name]) for name in one)
    later = next(iter(loader.loader(stored, "normal(0.3)", batch_size=8, seed=0, first=1, rank=0, world=2)))
    assert torch.equal(later["anchor"], batches[2]["anchor"])
    other = next(iter(loader.loader(stored, "normal(0.3)", batch_size=8, seed=1)))
    assert not torch.equal(other["anchor"], batches[0]["anchor"])
    drawn = open_sampler(stored, "normal(0.3)", space="box", seed=0)
    assert torch.equal(next(iter(loader.loader(stored, drawn, batch_size=8)))["anchor"], batches[0]["anchor"])


def test_a_loader_has_the_positives_that_were_rendered(tmp_path: Path) -> None:
    paint(tmp_path, replace(RECIPE, positives=DrawnPositives("normal(0.3)", 0)), n=20)
    stored = Dataset(tmp_path)
    batch = next(iter(loader.loader(stored, "normal(0.3)", batch_size=8, seed=0)))
    expected = stored.positives(batch["anchor"].numpy()).transpose(0, 3, 1, 2)
    assert np.array_equal((255 * batch["positive_images"]).round().numpy(), expected)
    assert not torch.equal(batch["positive_images"], batch["anchor_images"])


def test_what_is_no_loader_of_pairs(data: Path) -> None:
    stored = Dataset(data)
    with pytest.raises(Impossible, match=r"sampler Dataset, batch_size NearestSampler: give a sampler, as open_"):
        PairDataset(stored, sampler())  # type: ignore[arg-type]
    with pytest.raises(Impossible, match=r"sampler NearestSampler, batch_size float: give a sampler"):
        PairDataset(sampler(), 8.0)  # type: ignore[arg-type]
    with pytest.raises(Impossible, match=r"sampler Dataset, batch_size int"):
        loader.loader(stored, stored, batch_size=8)  # type: ignore[arg-type]
    with pytest.raises(Impossible, match=r"data 'nowhere': give a Dataset"):
        loader.loader("nowhere", "normal(0.3)", batch_size=8, seed=0)  # type: ignore[arg-type]
    with pytest.raises(Impossible, match=r"conditional normal\(0.3\): give a seed"):
        loader.loader(stored, "normal(0.3)", batch_size=8)
    with pytest.raises(Impossible, match=r"seed 1: the sampler has one of its own"):
        loader.loader(stored, sampler(), batch_size=8, seed=1)


def test_matching_says_how_far_the_realised_conditional_is() -> None:
    drawn = [sampler(conditional).draw(0, 20_000) for conditional in ("normal(2)", "normal(0.01)")]
    wide, narrow = (matching.match(pairs, WORLD.names) for pairs in drawn)
    assert wide.realised_sd / wide.wished_sd < 1.1
    assert "The pairs follow normal(2) closely." in matching.words(wide, "normal(2)", 2000)
    assert narrow.anchor_share == 1
    assert narrow.realised_sd / narrow.wished_sd > 10
    said = matching.words(narrow, "normal(0.01)", 2000)
    assert "In 100.0% of the draws the nearest image was the anchor itself" in said
    assert 'ident render --positives "normal(0.01)"' in said
    assert all(row.distance > 0.4 for row in narrow.rows)
    exact = sampler("normal(0.1)").draw(0, 20_000)
    perfect = replace(exact, positive_latents=exact.wished)
    assert {row.distance for row in matching.match(perfect, WORLD.names).rows} == {0.0}


def test_batches_are_compared_as_all_pairs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list(batches(sampler("normal(0.1)"), 10_000))
    assert [len(batch) for batch in drawn] == [4096, 4096, 1808]
    tally = matching.Tally()
    for batch in drawn:
        tally.add(batch)
    pairs = joined(drawn)
    found = tally.matching(WORLD.names)
    for to, sds in (
        (pairs.wished, [row.wished_sd for row in found.rows]),
        (pairs.positive_latents, [row.realised_sd for row in found.rows]),
    ):
        assert np.allclose((to - pairs.anchor_latents).std(0, dtype=float), sds, rtol=1e-6)
    assert found.error == pytest.approx(np.sqrt(np.mean((pairs.positive_latents - pairs.wished) ** 2)), rel=1e-5)
    assert found.anchor_share == pairs.anchor_was_nearest.mean()
    one, two = (to[:, 3] - pairs.anchor_latents[:, 3] for to in (pairs.wished, pairs.positive_latents))
    assert found.rows[3].distance == stats.ks_2samp(one, two, method="asymp").statistic
    monkeypatch.setattr(matching, "SAMPLE", 4097)
    bounded = matching.Tally()
    for batch in drawn:
        bounded.add(batch)
    assert len(bounded.sample) == 8192
    few = bounded.matching(WORLD.names)
    assert [row.wished_sd for row in few.rows] == [row.wished_sd for row in found.rows]
    assert few.rows[3].distance == stats.ks_2samp(one[:8192], two[:8192], method="asymp").statistic


def test_the_advice_is_about_right() -> None:
    """As many times as wide as it says, and the realised sd is close to the wished-for one."""
    narrow = matching.match(sampler("normal(0.05)").draw(0, 20_000), WORLD.names)
    said = matching.words(narrow, "", 2000)
    times = float(said.partition("conditional about ")[2].split()[0])
    wide = matching.match(sampler(f"normal({0.05 * times})").draw(0, 20_000), WORLD.names)
    assert wide.realised_sd / wide.wished_sd < 1.15


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs") / "d"
    paint(folder, n=300)
    return folder


def test_subsets_of_latents(data: Path) -> None:
    made = open_sampler(Dataset(data), "laplace", space="box", seed=0, subset=("z", "x"))
    assert isinstance(made, NearestSampler)
    assert made.neighbours.latents.shape == (300, 2)
    assert np.array_equal(made.neighbours.latents, Dataset(data).latents[:, [2, 0]])
    for subset in ((), ("x", "x"), ("x", "hue")):
        with pytest.raises(Impossible, match="name some, each once, of x, y, z, alpha"):
            open_sampler(Dataset(data), "laplace", space="box", seed=0, subset=subset)


def test_a_file_written_batch_by_batch_is_that_of_all_pairs_at_once(tmp_path: Path) -> None:
    save(batches(sampler(), 10_000), 10_000, "of this", tmp_path / "batches.h5")
    pairs = joined([sampler().draw(0, 4096), sampler().draw(1, 4096), sampler().draw(2, 1808)])
    with h5py.File(tmp_path / "once.h5", "w") as file:
        file.attrs["recipe"] = "of this"
        for field in fields(pairs):
            file[field.name] = getattr(pairs, field.name)
    assert (tmp_path / "batches.h5").read_bytes() == (tmp_path / "once.h5").read_bytes()
    assert pairs.nbytes == 10_000 * 141


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what a test starts: several threads wait for one another on a busy machine."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


PEAKS = """
import re, sys
from pathlib import Path
from ident.cli.commands import ident
for n in sys.argv[2:]:
    options = ["--conditional", "laplace", "--latents", "x,y,z,alpha", "--n", n, "--out", f"{n}.h5"]
    ident.main(["pairs", sys.argv[1], *options], standalone_mode=False)
    print("peak", *re.findall("VmHWM:[^0-9]+([0-9]+)", Path("/proc/self/status").read_text()))
"""


@pytest.mark.usefixtures("one_thread")
def test_memory_does_not_grow_with_the_pairs(data: Path, tmp_path: Path) -> None:
    """Another 700,000 pairs of 69 bytes."""
    command = [sys.executable, "-c", PEAKS, str(data), "300000", "1000000"]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=True)
    few, many = (int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("peak"))
    assert many - few < 20_000
    assert "1000000.h5: 1000000 pairs take 69.0 MB and about " in done.stderr
    assert "drawing pairs: 1000000/1000000" in done.stderr
    with h5py.File(tmp_path / "1000000.h5") as many_pairs, h5py.File(tmp_path / "300000.h5") as few_pairs:
        whole_batches = 299_008
        assert np.array_equal(many_pairs["wished"][:whole_batches], few_pairs["wished"][:whole_batches])
        assert (many_pairs["anchor"][-1000:] != many_pairs["positive"][-1000:]).all()


def test_pairs_that_the_disk_has_no_room_for(ident_here: Run, data: Path, tmp_path: Path) -> None:
    done = ident_here("pairs", data, "--conditional", "laplace", "--n", 10**13)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}: 10000000000000 pairs take 1410000.0 GB, " in done.stderr
    assert done.stderr.endswith(" GB are free there: give another --out or a smaller --n\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("one_thread")
def test_pairs_that_are_interrupted_leave_nothing(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ident.cli", "pairs", data, "--conditional", "laplace", "--latents", "x"]
    with subprocess.Popen(
        [*map(str, command), "--n", "20000000"], cwd=tmp_path, text=True, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell ignores it
    ) as run:  # fmt: skip
        try:
            while not any(part.stat().st_size > 10**6 for part in tmp_path.iterdir()):
                assert run.poll() is None
                time.sleep(0.05)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate()
        finally:
            run.kill()
    assert run.returncode == 130
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "ident: stopped"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command(ident: Run, data: Path, tmp_path: Path) -> None:
    done = ident("pairs", data, "--conditional", "laplace", "--n", 5000, "--plot", "--show", 3)
    assert done.returncode == 0, done.stderr
    assert "recall 1.0000 against exact search" in done.stdout
    assert "In 100.0% of the draws the nearest image was the anchor itself" in done.stdout
    with h5py.File(tmp_path / "pairs.h5") as file:
        assert file["wished"].shape == (5000, 10)
        assert np.array_equal(Dataset(data).latents[file["positive"][:]], file["positive_latents"][:])
        first = file["anchor"][:]
    assert (tmp_path / "pairs.png").stat().st_size > 10_000
    assert (tmp_path / "pairs-images.png").exists()
    done = ident("pairs", data, "--conditional", "laplace(0.05)", "--n", 5000, "--json")
    said = json.loads(done.stdout)
    assert said["rows"][0]["latent"] == "x"
    with h5py.File(tmp_path / "pairs.h5") as file:
        assert np.array_equal(first, file["anchor"])
    done = ident("pairs", data, "--conditional", "laplace", "--n", 1, "--out", "one.h5")
    assert (done.returncode, "There is nothing to compare" in done.stdout) == (0, True)
    (tmp_path / "mine.png").write_bytes(b"mine")
    for arguments, word in (
        (("--conditional", "normal"), "pairs.h5: holds something else; give --force"),
        (("--conditional", "laplace(0.05000001)", "--n", 5000), "pairs.h5: holds something else"),
        (("--conditional", "laplace", "--n", 20), "pairs.h5: holds something else"),
        (("--conditional", "laplace", "--out", "mine.h5", "--plot"), "mine.png: holds something else"),
        (("--conditional", "laplace", "--out", "mine.png", "--force"), "a file that ends in .h5"),
        (("--conditional", "laplace", "--out", data / "shards" / "00000.h5", "--force"), "lies in the dataset"),
        (("--conditional", "cauchy"), "nobody knows 'cauchy'; known are uniform, normal, laplace"),
        (("--conditional", "laplace(-1)"), "the scale is -1"),
        (("--conditional", "vmf(10)", "--out", "b.h5"), "vmf(10): lives on a sphere, not on box(10, -1, 1)"),
        (("--conditional", "laplace", "--space", "sphere"), "of image 0 lie outside of sphere(10, 1)"),
        (("--conditional", "laplace", "--latents", "hue"), "name some, each once"),
    ):
        done = ident("pairs", data, *arguments)
        assert done.returncode == 2
        assert word in done.stderr
    assert ident("pairs", "nowhere", "--conditional", "laplace").returncode == 2


def test_a_scale_that_is_taken_is_said(ident_here: Run, data: Path) -> None:
    said = "laplace: no scale is given, taken is laplace(0.05); laplace(0.1) would be twice as wide"
    done = ident_here("pairs", "--data", data, "--conditional", "laplace", "--n", 10)
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, said)
    assert "scale" not in ident_here("pairs", data, "--conditional", "laplace(0.05)", "--n", 10).stderr
    done = ident_here("render", "--positives", "gennorm(3)", "--n", 0)
    assert "gennorm(3): no scale is given, taken is gennorm(3, 0.05); gennorm(3, 0.1) would" in done.stderr
    both = ident_here("pairs", data, "--data", "other", "--conditional", "laplace")
    assert (both.returncode, both.stderr) == (2, f"ident: DATA {data} and --data other: give one of them\n")


def test_a_dataset_of_one_image(ident_here: Run, tmp_path: Path) -> None:
    paint(tmp_path / "one", n=1)
    done = ident_here("pairs", "one", "--conditional", "laplace")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2, "ident: 1 latents: a positive that is not its anchor takes two or more",
    )  # fmt: skip


def test_an_index_is_kept_in_the_cache(
    ident_here: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path / "cache"))
    before = set(data.rglob("*"))
    done = ident_here("pairs", data, "--conditional", "laplace", "--index", "hnsw", "--n", 100)
    assert "is built, once for these 300 latents" in done.stderr
    (kept,) = (tmp_path / "cache" / "indexes").iterdir()
    assert set(data.rglob("*")) == before
    kept.write_bytes(kept.read_bytes()[:-1])
    done = ident_here("pairs", data, "--conditional", "laplace", "--index", "hnsw", "--n", 100)
    assert f"{kept}: is damaged, and built anew" in done.stderr
    assert neighbours.KINDS == KINDS
    assert (tmp_path / "pairs.h5").exists()


def test_an_index_that_came_with_the_data_is_not_read(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with every checksum right, of the same latents in another order, where earlier versions looked for one."""
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path))
    raw = np.ascontiguousarray(Dataset(data).latents)
    key = sha256(f"HNSW32 {faiss.__version__} {raw.shape} ".encode() + raw.tobytes()).digest()
    foreign = faiss.serialize_index(neighbours.build(raw[::-1].copy(), "hnsw")).tobytes()
    (data / ".index").mkdir()
    (data / ".index" / f"hnsw-{key.hex()[:16]}.faiss").write_bytes(key + sha256(foreign).digest() + foreign)
    made = open_sampler(Dataset(data), "laplace", space="box", seed=0, kind="hnsw", say=lambda _: None)
    assert isinstance(made, NearestSampler)
    assert made.tune(0.999) >= 0.999
    pairs = made.draw(0, 200)
    far = np.linalg.norm(raw[None] - pairs.wished[:, None], axis=2)
    far[np.arange(200), pairs.anchor] = np.inf
    assert (pairs.positive == far.argmin(1)).mean() >= 0.99
