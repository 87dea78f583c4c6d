"""Images as observations: the same batch by the same number, losses over all processes, every row of Table 4."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from ident.benchmark.pairs.batch import Batch, PositivePairs
from ident.benchmark.pairs.own import OwnPairs
from ident.benchmark.pairs.positives import DrawnPositives
from ident.benchmark.report.tables import lines_of
from ident.benchmark.sources.data import Data
from ident.benchmark.suites import bench, datasets, rows, runner, tiers
from ident.benchmark.suites.runs import Run, exact_conditional, of_tier, recipe_of
from ident.benchmark.suites.suite import load_suite, select
from ident.benchmark.suites.task import RowTask
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.suites.toml import read_ours
from ident.benchmark.training import distributed
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.train import train
from ident.render import plugins
from ident.render.blender.settings import Settings, plain
from ident.render.errors import Failed, Impossible
from ident.render.store.dataset import Dataset
from ident.render.store.recipe import Uniform
from ident.render.worlds.threedident import WORLD
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

STEPS = Training(steps=4, batch_size=8, learning_rate=1e-3, looks=2)
LAPTOP = replace(load_tier("laptop", "dataset"), name="quick", supervised=STEPS, unsupervised=STEPS, samples=24)
QUICK = replace(LAPTOP, model=replace(LAPTOP.model, side=1.0), pairs={"scale": 0.25})


def with_model(tier: tiers.Tier, **changes: Any) -> tiers.Tier:
    return replace(tier, model=replace(tier.model, **changes))


def with_pairs(tier: tiers.Tier, **changes: Any) -> tiers.Tier:
    return replace(tier, pairs={**tier.pairs, **changes})


def tiny(dim: int) -> nn.Module:
    """An encoder of a few weights, with batch norms."""
    images = [nn.Conv2d(3, 4, 4, 4), nn.BatchNorm2d(4), nn.LeakyReLU(), nn.Flatten()]
    return nn.Sequential(*images, nn.BatchNorm1d(64), nn.Linear(64, dim))


def spread(anchor: Tensor, positive: Tensor) -> Tensor:
    """A loss of one's own."""
    return (anchor - positive).square().mean() - anchor.var(0).mean()


def of_each(anchor: Tensor, positive: Tensor) -> Tensor:
    """Not one number."""
    return (anchor - positive).square().mean(1)


def nothing(anchor: Tensor, positive: Tensor) -> Tensor:
    """No number at all."""
    return (anchor - positive).mean() * float("nan")


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Data]:
    """Two small datasets."""
    folder = tmp_path_factory.mktemp("painted")
    for split in ("train", "test"):
        paint(folder / split, replace(RECIPE, source=Uniform(0, split), shard_size=16), n=48)
    return datasets.find({split: str(folder / split) for split in ("train", "test")})


def task_of(run: Run, device: str) -> Any:
    """The task of a run, with all that its slots have."""
    return RowTask(run, device)


def run_of(painted: dict[str, Data], row: str = "box-normal", tier: tiers.Tier = QUICK, **changes: Any) -> Run:
    changed = replace(load_suite("table4").row(row), **changes)
    return Run("table4", changed, changed.kinds[0], 0, tier, painted)


TINY = with_model(QUICK, encoder="tests.benchmark.test_images:tiny")
SMALL = with_pairs(with_model(LAPTOP, encoder=TINY.model.encoder), groups=4, scale=0.25)
GROUPED = replace(with_pairs(SMALL, fade=(0.9, 0.95)), unsupervised=replace(STEPS, steps=40))


def test_the_tables_are_those_of_the_paper() -> None:
    four, five = load_suite("table4"), load_suite("table5")
    assert (four.metrics, four.split, four.folder) == (("r2", "mcc"), "test", "table4")
    assert (five.metrics, five.split, five.folder) == (("r2", "mcc"), "train", "table4")
    assert four.row("box-normal").paper == {"unsupervised": {"r2": (96.73, 0.10), "mcc": (98.31, 0.04)}}
    assert five.row("augmentations").paper == {"unsupervised": {"r2": (45.94, 1.80), "mcc": (47.60, 1.45)}}
    assert [replace(row, paper={}) for row in four.rows] == [replace(row, paper={}) for row in five.rows]
    boxes = [row.id for row in select(four, {"space": "box"})]
    assert boxes == ["box-normal", "box-laplace", "box-aninfonce", "box-align-uniform"]


def test_every_row_trains_and_is_scored_on_both_splits(painted: dict[str, Data], tmp_path: Path) -> None:
    for row in load_suite("table4").rows:
        result = runner.perform(Run("table4", row, row.kinds[0], 0, SMALL, painted), tmp_path, "cpu", lambda *_: None)
        assert result is not None
        assert set(result.scores) == {"test", "train"}
        trained = row.kinds[0] not in rows.UNTRAINED
        assert len(result.history) == 2 * trained
        if row.id == "identity":
            continue
        place = tmp_path / f"{row.id}-tests.benchmark.test_images.tiny-{row.kinds[0]}-seed0"
        with np.load(place / "recovered.npz") as recovered:
            assert recovered["recovered"].shape == recovered["latents"].shape == (24, 10)
            assert np.array_equal(recovered["latents"], Dataset(painted["test"].place).latents[:24])
        with Image.open(place / "neighbours.png") as shown:
            assert shown.size == (96, 96)
        if trained:
            assert list((place / "tensorboard").iterdir())
    five = load_suite("table5")
    lines = lines_of(five, of_tier(five, SMALL, tmp_path, painted, pytest.fail))
    done = [line.label for line in lines if line.results]
    assert done == [f"{row.id} tests.benchmark.test_images.tiny" for row in five.rows]


def test_the_identity_is_a_regression_on_pixels(painted: dict[str, Data], tmp_path: Path) -> None:
    run = run_of(painted, "identity")
    result = runner.perform(run, tmp_path, "cpu", lambda *_: None)
    assert result is not None
    assert not (tmp_path / run.name / "recovered.npz").exists()
    data = Dataset(painted["test"].place)  # 48 images, of which half fit a map of 768 pixels
    pixels, z = data.images(range(48)).reshape(48, -1).astype(float), data.latents.astype(float)
    middle, mean = pixels[:24].mean(0), z[:24].mean(0)
    error = z[24:] - (pixels[24:] - middle) @ np.linalg.pinv(pixels[:24] - middle) @ (z[:24] - mean) - mean
    expected = 1 - (error**2).sum(0) / ((z[24:] - z[24:].mean(0)) ** 2).sum(0)
    assert result.scores["test"]["r2"].per_latent == pytest.approx(expected, abs=1e-6)


def test_no_tier_names_a_latent() -> None:
    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield name
                yield from texts(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                yield from texts(inner)
        elif isinstance(value, str):
            yield value

    named = set(texts(read_ours("tiers"))) | {text for row in load_suite("table4").rows for text in texts(row.tiers)}
    assert "muon" in named
    assert not named & set(WORLD.names)


def test_the_encoder_of_the_paper(painted: dict[str, Data]) -> None:
    tier = replace(TINY, model=load_tier("paper", "dataset").model)
    task = task_of(run_of(painted, tier=tier), "cpu")
    weights = {name: tuple(value.shape) for name, value in task.model.state_dict().items()}
    assert weights["encoder.1.0.0.fc.weight"] == (100, 512)
    assert weights["encoder.1.0.2.weight"] == (10, 100)
    assert sum(parameter.numel() for parameter in task.model.parameters()) == 11_176_512 + 513 * 100 + 101 * 10 + 10
    pixels = task.encoder.get_submodule("0")
    x = pixels(task.batch(0).observations)
    assert x.is_contiguous(memory_format=torch.channels_last)
    whole = pixels(torch.from_numpy(Dataset(painted["train"].place).images(range(48))).permute(0, 3, 1, 2))
    assert whole.mean((0, 2, 3)).abs().max() < 1e-5
    assert (whole.std((0, 2, 3)) - 1).abs().max() < 1e-3


def test_a_batch_follows_from_seed_and_number(painted: dict[str, Data]) -> None:
    for row in ("box-normal", "augmentations", "supervised"):
        one, two = (task_of(run_of(painted, row, TINY), "cpu") for _ in range(2))
        batches = one.batches(0)
        first, second = next(batches), next(batches)
        again = next(two.batches(1))
        assert torch.equal(second.observations, again.observations)
        assert second.comparisons == again.comparisons
        assert not torch.equal(first.observations, second.observations)
        assert torch.equal(one.loss(second), two.loss(again))


def grouped(batch: Batch) -> bool:
    """Whether it is of groups of images that are alike."""
    return len(batch.comparisons) > 1


def assert_shown(batch: Batch, images: Dataset, *numbers: np.ndarray) -> None:  # type: ignore[type-arg]
    """Whether a batch has these images."""
    assert np.array_equal(batch.observations.permute(0, 2, 3, 1).numpy(), images.images(np.concatenate(numbers)))


def test_pairs_are_those_of_the_index(painted: dict[str, Data]) -> None:
    task, images = task_of(run_of(painted), "cpu"), Dataset(painted["train"].place)
    assert str(task.pairs.distribution) == f"normal({QUICK.scale:g})"
    pairs = task.pairs.sampler.draw(3, 8)
    assert_shown(task.batch(3), images, pairs.anchor, pairs.positive)


def some_batches(run: Run, count: int) -> tuple[Any, list[Batch]]:
    """The first batches of a run whose bank is filled by them, and its task."""
    task, batches = task_of(run, "cpu"), list[Batch]()
    for batch in islice(task.batches(0), count):
        task.loss(batch)
        batches.append(batch)
    return task, batches


def test_batches_are_of_images_that_the_encoder_finds_alike(painted: dict[str, Data]) -> None:
    run, images = run_of(painted, tier=GROUPED), Dataset(painted["train"].place)
    task, batches = some_batches(run, 30)
    kinds = [grouped(batch) for batch in batches]
    assert kinds.index(True) >= task.source.ahead  # what is not filled yet cannot choose
    assert any(kinds)
    assert not any(kinds[round(0.95 * 40) :])
    batch = batches[kinds.index(True)]
    assert batch.images is not None
    anchors, positives = batch.images.chunk(2)
    assert_shown(batch, images, anchors.numpy(), positives.numpy())
    pairs = task.pairs.sampler.draw(kinds.index(True), 8, anchors.numpy())
    assert np.array_equal(pairs.positive, positives.numpy())
    expected = (slice(0, 4), slice(8, 12)), (slice(4, 8), slice(12, 16))
    assert batch.comparisons == tuple(PositivePairs(*pair, both=True, weight=0.5) for pair in expected)
    for group in anchors.chunk(2):
        assert len(set(group.tolist())) == 4


@pytest.mark.parametrize("row", ["box-normal", "sphere-normal", "augmentations", "box-aninfonce", "box-align-uniform"])
def test_the_loss_of_groups_is_the_mean_over_them(painted: dict[str, Data], row: str) -> None:
    task, batches = some_batches(run_of(painted, row, GROUPED), 24)
    batch = next(batch for batch in batches if grouped(batch))
    torch.manual_seed(0)
    loss, module = task.loss(batch), task.objective.losses[0]
    torch.manual_seed(0)
    prepared = task.pairs.prepare(batch) if row == "augmentations" else batch
    anchors, positives = task.encode(prepared.observations).chunk(2)
    each = list[Tensor]()
    for anchor, positive in zip(anchors.chunk(2), positives.chunk(2), strict=True):
        for i, (one, other) in product(range(4), ((anchor, positive), (positive, anchor))):
            others = torch.cat([one[[j for j in range(4) if j != i]], other[[j for j in range(4) if j != i]]])
            each.append(module(one[[i]], other[[i]], others))
    torch.testing.assert_close(loss, torch.stack(each).mean())


def test_a_loss_of_ones_own_sees_each_group_in_both_directions(painted: dict[str, Data]) -> None:
    run = run_of(painted, "box-normal", GROUPED, objective="tests.benchmark.test_images:spread")
    task, batches = some_batches(run, 24)
    batch = next(batch for batch in batches if grouped(batch))
    anchors, positives = (points.chunk(2) for points in task.encode(batch.observations).chunk(2))
    pairs = [*zip(anchors, positives, strict=True), *zip(positives, anchors, strict=True)]
    torch.testing.assert_close(task.loss(batch), torch.stack([spread(*pair) for pair in pairs]).mean())


def test_a_run_that_chooses_by_its_bank_goes_on_after_a_kill(painted: dict[str, Data], tmp_path: Path) -> None:
    """Killed with -9 in the middle of its groups, it comes to the same history and weights, to the last bit."""
    (tmp_path / "places.json").write_text(as_places(painted))
    for name, kills in (("through", ""), ("killed", "1"), ("killed", "")):
        done = in_a_process(f"from tests.benchmark.test_images import go; go({str(tmp_path)!r}, {name!r}, {kills!r})")
        assert done.returncode == (-signal.SIGKILL if kills else 0), done.stderr
    through, killed = (torch.load(tmp_path / f"{name}.end") for name in ("through", "killed"))
    assert killed["first"] == KILLED
    assert through["history"] == killed["history"]
    assert all(torch.equal(value, killed["model"][name]) for name, value in through["model"].items())
    assert all(torch.equal(value, killed["bank"][name]) for name, value in through["bank"].items())


KILLED = 21
"""The step after which a run is killed."""


def go(folder: str, name: str, kills: str) -> None:
    """In a process: a run with groups, from its checkpoint if there is one."""
    places = json.loads(Path(folder, "places.json").read_text())
    torch.set_num_threads(1)
    run = run_of({split: Data(*place) for split, place in places.items()}, tier=GROUPED)
    task, first, kinds = task_of(run, "cpu"), list[int](), list[bool]()
    loss_of = task.loss

    def loss(batch: Batch) -> Tensor:
        kinds.append(grouped(batch))
        value: Tensor = loss_of(batch)
        return value

    def tell(step: int, _: object) -> None:
        first.append(step - 1)
        if kills and step == KILLED + 1:
            assert kinds[-1]
            os.kill(os.getpid(), signal.SIGKILL)

    task.loss = loss
    progress = train(task, run.training, Path(folder, f"{name}.pt"), "{}", tell, seconds_between=0)
    end = {"model": task.model.state_dict(), "bank": task.memory.state_dict()}
    torch.save({**end, "history": progress.history, "first": first[0]}, Path(folder, f"{name}.end"))


def test_exact_pairs_are_refused_where_there_are_none(painted: dict[str, Data], tmp_path: Path) -> None:
    exact = with_pairs(TINY, positives="exact")
    with pytest.raises(Impossible, match="was rendered without positives; take --pairs nearest, or render some"):
        task_of(run_of(painted, tier=exact), "cpu")
    positives = DrawnPositives("normal(0.25)", seed=0)
    paint(tmp_path / "exact", replace(RECIPE, source=Uniform(0, "train"), shard_size=16, positives=positives), n=48)
    there = datasets.find({"train": str(tmp_path / "exact"), "test": painted["test"].place})
    with pytest.raises(Impossible, match=r"its positives follow normal\(0.25\), not laplace\(0.25\); take --pairs"):
        task_of(run_of(there, "box-laplace", exact), "cpu")
    task = task_of(run_of(there, tier=with_pairs(GROUPED, positives="exact")), "cpu")
    batch, images = task.batch(3), Dataset(there["train"].place)
    anchors = task.pairs.sampler.draw(3, 8).anchor
    shown = np.concatenate([images.images(anchors), images.positives(anchors)])
    assert np.array_equal(batch.observations.permute(0, 2, 3, 1).numpy(), shown)
    task.loss(batch)
    assert int(task.memory.seen.sum()) == len(set(anchors.tolist()))  # positives are no images of the bank


def test_what_is_computed_again_counts_once(painted: dict[str, Data]) -> None:
    norms = []
    for chunk in (0, 16):
        task = task_of(run_of(painted, "box-normal", with_model(TINY, chunk=chunk)), "cpu")
        task.loss(task.batch(0)).backward()
        norms.append([value for name, value in task.model.state_dict().items() if "running" in name])
    torch.testing.assert_close(*norms)


class Drawn(nn.Module):
    """A loss whose weights are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(10))

    def forward(self, anchor: Tensor, positive: Tensor) -> Tensor:
        return ((anchor - positive) * self.weights).square().mean()


def test_a_losss_own_weights_follow_from_the_seed(painted: dict[str, Data]) -> None:
    run = run_of(painted, "box-normal", TINY, objective="tests.benchmark.test_images:Drawn")
    one, two, other = (task_of(replace(run, seed=seed), "cpu").objective.losses[0].weights for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_a_checkpoint_of_other_images_is_refused(painted: dict[str, Data], tmp_path: Path) -> None:
    run, bigger = run_of(painted, "box-normal", TINY), {split: replace(it, size=32) for split, it in painted.items()}
    (tmp_path / run.name).mkdir()
    train(
        task_of(run, "cpu"), STEPS, tmp_path / run.name / "checkpoint.pt", recipe_of(run, device="cpu"), lambda *_: None
    )
    with pytest.raises(Impossible, match=r"another run, of data {'test': '16 x 16, .*}, not {'test': '32 x 32, "):
        runner.perform(replace(run, data=bigger), tmp_path, "cpu", lambda *_: None)


def test_a_loss_that_was_changed_is_another(painted: dict[str, Data], monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(painted, "box-normal", TINY, objective="tests.benchmark.test_images:spread")
    before = run.recipe
    assert len(before["own"]) == 2
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"changed")
    assert run.recipe == before  # as it is loaded
    plugins.digest.cache_clear()
    assert run.recipe != before
    plugins.digest.cache_clear()


@pytest.mark.parametrize("itself", [False, True])
def test_each_positive_may_be_an_anchor_too(painted: dict[str, Data], itself: bool) -> None:
    changes = {"objective": "infonce(normal, itself=1)"} if itself else {}
    task = task_of(run_of(painted, tier=with_pairs(TINY, both=True), **changes), "cpu")
    batch = task.batch(0)
    points, n = task.encode(batch.observations), len(batch.observations) // 2
    away = torch.cdist(points, points) ** 2
    partner = torch.arange(2 * n).roll(n)
    told_from = torch.exp(-away) if itself else torch.exp(-away).fill_diagonal_(0)
    expected = (told_from.sum(1).log() + away[torch.arange(2 * n), partner]).mean()
    torch.testing.assert_close(task.loss(batch), expected)


def test_in_chunks_gradients_are_the_same(painted: dict[str, Data]) -> None:
    def gradients(chunk: int) -> list[Tensor]:
        task = task_of(run_of(painted, tier=with_model(TINY, chunk=chunk)), "cpu")
        task.model.eval()  # a batch norm in training sees a chunk at a time
        task.loss(task.batch(0)).backward()
        return [parameter.grad for parameter in task.model.parameters() if parameter.grad is not None]

    for whole, part in zip(gradients(0), gradients(3), strict=True):
        assert torch.allclose(whole, part, rtol=1e-4, atol=1e-7)


def test_images_that_are_larger_than_meant_are_named(painted: dict[str, Data]) -> None:
    assert datasets.larger(painted["train"], load_tier("laptop", "dataset")) == ""
    said = datasets.larger(replace(painted["train"], size=224), load_tier("laptop", "dataset"))
    assert "images of 224 x 224, a step takes 12 times as long; tier laptop is meant for 64 x 64" in said


@pytest.mark.parametrize("norm", [nn.BatchNorm3d(2), nn.BatchNorm1d(2, affine=False), nn.SyncBatchNorm(2)])
def test_a_batch_norm_that_cannot_be_shared_is_named(norm: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world", lambda: 2)
    with pytest.raises(Impossible, match=rf"^1: this {type(norm).__name__} cannot share a batch"):
        distributed.with_shared_norms(nn.Sequential(nn.Identity(), norm))


def as_places(datasets: dict[str, Data]) -> str:
    """Where datasets lie, for a process."""
    return json.dumps({name: [it.place, it.digest, it.size] for name, it in datasets.items()})


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    """Run code that imports the tests in a process of its own."""
    paths = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def share_of_two(folder: str) -> None:
    """In a process that torchrun has started: the gradients of a loss that both have a part in."""
    places = json.loads(Path(folder, "places.json").read_text())
    with distributed.joined("cpu"):
        task = task_of(run_of({split: Data(*place) for split, place in places.items()}, "box-normal", GROUPED), "cpu")
        found = losses_and_gradients(task)
        torch.save([*found, task.model.state_dict()], f"{folder}/{distributed.rank()}.pt")
        del task
        gc.collect()


def losses_and_gradients(task: RowTask) -> list[Any]:
    """Of the first batches to one of groups, the gradients of the last, and the batch norm's moments."""
    from ident.benchmark.training.train import Loss

    loss_of = distributed.parallel(Loss(task))
    losses = []
    for batch in task.batches(0):
        task.model.zero_grad()
        loss = loss_of(batch)
        loss.backward()
        losses.append(float(loss.detach()))
        if grouped(batch):
            break
    norm = [value for name, value in task.model.state_dict().items() if "running" in name]
    return [losses, [parameter.grad for parameter in task.model.parameters()], norm]


def test_two_processes_have_the_gradients_of_one(painted: dict[str, Data], tmp_path: Path) -> None:
    (tmp_path / "places.json").write_text(as_places(painted))
    half = tmp_path / "half.py"
    half.write_text(f"from tests.benchmark.test_images import share_of_two\nshare_of_two({str(tmp_path)!r})\n")
    code = f"from ident.benchmark.suites.runner import launch; launch(2, [{str(half)!r}])"
    done = in_a_process(code)
    assert done.returncode == 0, done.stderr
    task = task_of(run_of(painted, "box-normal", GROUPED), "cpu")
    losses, gradients, norm = losses_and_gradients(task)
    assert len(losses) > task.source.ahead
    for rank in range(2):
        theirs = torch.load(tmp_path / f"{rank}.pt")
        assert theirs[0] == pytest.approx(losses, rel=1e-5)
        for ours, other in ((gradients, theirs[1]), (norm, theirs[2])):
            one, two = (torch.cat([part.flatten() for part in parts]) for parts in (ours, other))
            assert (one - two).norm() <= 1e-5 * one.norm()
        task.model.load_state_dict(theirs[3])  # what several have trained, one goes on with


def test_a_batch_that_does_not_divide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world", lambda: 3)
    with pytest.raises(Impossible, match="a batch of 8: does not divide among 3"):
        distributed.share(8)


def test_datasets_that_do_not_fit(painted: dict[str, Data], tmp_path: Path) -> None:
    places = {split: it.place for split, it in painted.items()}
    typed = "ident render --n 2000 --split test --out nowhere; or give another --test-data"
    with pytest.raises(Impossible, match=f"nowhere: no dataset to test on; type {typed}"):
        datasets.find(places | {"test": "nowhere"})
    with pytest.raises(Impossible, match="has images that are trained on"):
        datasets.find(places | {"test": places["train"]})
    paint(tmp_path / "more", replace(RECIPE, source=Uniform(0, "train"), shard_size=16), n=16)
    with pytest.raises(Impossible, match="more: has images that are trained on"):
        datasets.find(places | {"test": str(tmp_path / "more")})
    paint(tmp_path / "large", replace(RECIPE, settings=Settings(32, plain(1))), n=16)
    with pytest.raises(Impossible, match="images of 16 pixels to train on, of 32 to test on"):
        datasets.find(places | {"test": str(tmp_path / "large")})
    much = replace(QUICK, unsupervised=replace(STEPS, batch_size=49))
    with pytest.raises(Impossible, match="48 images, a batch has 49"):
        task_of(run_of(painted, tier=much), "cpu")


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        ("of_each", r"of_each: gave \(8,\); a loss is one number"),
        ("nothing", "the loss is nan at step 1; no checkpoint was written yet"),
    ],
)
def test_losses_that_are_none(painted: dict[str, Data], tmp_path: Path, loss: str, says: str) -> None:
    run = run_of(painted, "box-normal", TINY, objective=f"tests.benchmark.test_images:{loss}")
    with pytest.raises(Failed, match=says):
        runner.perform(run, tmp_path, "cpu", lambda *_: None)


def test_pairs_of_ones_own_are_of_images_that_there_are(painted: dict[str, Data]) -> None:
    source = task_of(run_of(painted), "cpu").source

    first = np.arange(8)
    for positives, says in ((first + 41, "gave image 48; there are 0 to 47"), (-first, "gave image -1;")):
        with pytest.raises(Failed, match=says):
            OwnPairs(source, "mine", lambda *_, chosen=positives, **__: (first, chosen)).batch(0, 8)
    batch = OwnPairs(source, "mine", lambda *_, **__: (first, first + 8)).batch(0, 8)
    assert torch.equal(batch.observations, source.images(np.arange(16)))


def test_losses_that_cannot_be_had() -> None:
    every = load_suite("table4").rows
    wrong = {
        "infonce": "give module:name",
        "none:x": "cannot be loaded",
        "math:x": "cannot be loaded",
        "math:pi": "no function",
    }
    for name, says in wrong.items():
        with pytest.raises(Impossible, match=says):
            rows.with_objective(every, name)
    assert [row.id for row in rows.with_objective(every, "math:dist")] == [row.id for row in every[:7]]


def test_a_shard_that_is_damaged_on_the_way(painted: dict[str, Data], tmp_path: Path) -> None:
    paint(tmp_path / "data", replace(RECIPE, shard_size=1), n=150)
    found = datasets.find({"train": str(tmp_path / "data"), "test": painted["test"].place})
    run = run_of(found, "box-normal", replace(TINY, unsupervised=replace(STEPS, steps=200, batch_size=2, looks=4)))
    sampler = task_of(run, "cpu").pairs.sampler
    assert sampler is not None
    drawn = [sampler.draw(number, 2) for number in range(200)]
    images = [
        {int(image) for pairs in some for image in (*pairs.anchor, *pairs.positive)} for some in (drawn[:70], drawn)
    ]
    shard = tmp_path / "data" / "shards" / f"{min(images[1] - images[0]):05}.h5"
    before = shard.read_bytes()

    def tell(step: int, _: dict[str, float]) -> None:
        if step == 50:
            half = len(before) // 2
            shard.write_bytes(before[:half] + bytes(byte ^ 1 for byte in before[half:]))

    with pytest.raises(Failed, match=rf"{shard.name}.*what is trained is kept"):
        runner.perform(run, tmp_path, "cpu", tell)
    assert (tmp_path / run.name / "checkpoint.pt").exists()
    shard.write_bytes(before)
    gc.collect()  # HDF5 has what it read of a file as long as anybody has that open
    seen: list[int] = []
    result = runner.perform(run, tmp_path, "cpu", lambda step, _: seen.append(step))
    assert seen[0] > 50
    assert result is not None
    assert [point["step"] for point in result.history] == [50, 100, 150, 200]


def test_what_the_papers_tier_takes_is_said_beforehand(painted: dict[str, Data]) -> None:
    paper = load_tier("paper", "dataset")
    runs = [run_of(painted, row, paper) for row in ("box-normal", "sphere-normal", "identity")]
    said = "tier paper: 2 trainings of 204,800,000 images each; one took its authors 112 hours of a GeForce RTX 2080 Ti"
    assert bench.hours_of(paper, runs, 4) == f"{said}, on 4 of these 28 hours, 56 in all"
    assert bench.hours_of(paper, runs, 0) == f"{said}, there is no GPU here"
    assert bench.hours_of(LAPTOP, runs, 4) == bench.hours_of(paper, runs[2:], 4) == ""


def test_exact_pairs_are_rendered_of_one_conditional(painted: dict[str, Data]) -> None:
    exact = with_pairs(TINY, positives="exact")
    runs = [run_of(painted, row, exact) for row in ("box-normal", "sphere-normal", "augmentations", "supervised")]
    assert exact_conditional(runs) == "normal(0.25)"
    assert exact_conditional(runs[2:]) is None
    assert exact_conditional([run_of(painted)]) is None
    with pytest.raises(Impossible, match=r"exact pairs of laplace\(0.25\), normal\(0.25\): a dataset has those of one"):
        exact_conditional([*runs, run_of(painted, "box-laplace", exact)])
    own = run_of(painted, pairs="around(normal, positives=nearest)", tier=exact)  # a row's word goes before the tier's
    assert (own.positives, own.recipe["positives"]) == ("nearest", "nearest")
    assert [run.positives for run in runs] == ["exact", "exact", "", ""]


def test_the_nearest_images_are_shown(painted: dict[str, Data]) -> None:
    task = task_of(run_of(painted, "box-normal", TINY), "cpu")
    place = torch.tensor([[0.0], [5.0], [0.1], [5.2], [0.3]])
    shown = np.asarray(Image.open(io.BytesIO(task.source.picture(place, rows=2, columns=3))))
    images = Dataset(painted["test"].place)
    expected = [[0, 2, 4], [1, 3, 4]]
    for row, column in np.ndindex(2, 3):
        there = shown[16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
        assert np.array_equal(there, images.image(expected[row][column]))
