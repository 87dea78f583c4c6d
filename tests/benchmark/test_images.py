"""Images as observations: the same batch by the same number, losses over all processes, every row of Table 4."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from ident.benchmark.pairs.batch import Batch, PairsAmong
from ident.benchmark.report.tables import lines_of
from ident.benchmark.sources.data import Data
from ident.benchmark.suites import data, rows, runner, tiers
from ident.benchmark.suites.runs import Run, of_tier, recipe_of
from ident.benchmark.suites.suite import load_suite, select
from ident.benchmark.suites.task import RowTask
from ident.benchmark.suites.tiers import load_tier
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
LAPTOP = replace(load_tier("laptop", stored=True), name="quick", supervised=STEPS, unsupervised=STEPS, samples=24)
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
    return data.find({split: str(folder / split) for split in ("train", "test")})


def task_of(run: Run, device: str) -> Any:
    """The task of a run, with all that its slots have."""
    return RowTask(run, device)


def run_of(painted: dict[str, Data], row: str = "box-normal", tier: tiers.Tier = QUICK, **changes: Any) -> Run:
    changed = replace(load_suite("table4").row(row), **changes)
    return Run("table4", changed, changed.kinds[0], 0, tier, painted)


TINY = with_model(QUICK, encoder="tests.benchmark.test_images:tiny")
SMALL = with_pairs(with_model(LAPTOP, encoder=TINY.model.encoder), lasts=0.7)


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
        assert len(result.history) == (0 if row.kinds == ("identity",) else 2)
        place = tmp_path / f"{row.id}-tests.benchmark.test_images.tiny-{row.kinds[0]}-seed0"
        with np.load(place / "recovered.npz") as recovered:
            assert recovered["recovered"].shape == recovered["latents"].shape == (24, 10)
            assert np.array_equal(recovered["latents"], Dataset(painted["test"].place).latents[:24])
        with Image.open(place / "neighbours.png") as shown:
            assert shown.size == (96, 96)
        if row.kinds != ("identity",):
            assert list((place / "tensorboard").iterdir())
    five = load_suite("table5")
    lines = lines_of(five, of_tier(five, SMALL, tmp_path, painted, pytest.fail))
    done = [line.label for line in lines if line.results]
    assert done == [f"{row.id} tests.benchmark.test_images.tiny" for row in five.rows]


def test_the_encoder_of_the_paper(painted: dict[str, Data]) -> None:
    task = task_of(run_of(painted), "cpu")
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


def groups_in(batch: Batch) -> int:
    """How many comparisons by groups of factors it has."""
    return sum(isinstance(one, PairsAmong) for one in batch.comparisons)


def assert_shown(batch: Batch, images: Dataset, *numbers: np.ndarray) -> None:  # type: ignore[type-arg]
    """Whether a batch has these images."""
    assert np.array_equal(batch.observations.permute(0, 2, 3, 1).numpy(), images.images(np.concatenate(numbers)))


def test_pairs_are_those_of_the_index(painted: dict[str, Data]) -> None:
    task, images = task_of(run_of(painted), "cpu"), Dataset(painted["train"].place)
    assert str(task.pairs.conditional) == f"normal({QUICK.scale:g})"
    pairs = task.pairs.sampler.draw(3, 8)
    assert_shown(task.batch(3), images, pairs.anchor, pairs.positive)


def test_at_first_pairs_are_near_in_a_group_of_latents_alone(painted: dict[str, Data]) -> None:
    groups = (("object hue", "alpha"), ("x",))
    tier = replace(with_pairs(TINY, scale=0.2, first=groups, lasts=0.5), unsupervised=replace(STEPS, steps=40))
    task, images = task_of(run_of(painted, tier=tier), "cpu"), Dataset(painted["train"].place)
    far = dict[tuple[str, ...], list[Tensor]]()
    # One pair would have no negatives.
    for number, alone, count in ((0, 8, 2), (5, 8, 2), (9, 7 + 1, 2), (11, 6, 2), (18, 1, 2), (20, 0, 0), (39, 0, 0)):
        batch, drawn = task.batch(number), task.source.drawn(number, 2 * alone)
        pairs = task.pairs.sampler.draw(number, 8 - alone)
        assert_shown(batch, images, drawn, pairs.anchor, pairs.positive)
        near = [one for one in batch.comparisons if isinstance(one, PairsAmong)]
        assert [one.points for one in near] == [slice(2 * alone)] * count
        assert task.loss(batch).isfinite()
        for names, one in zip(groups, near, strict=False):
            z = torch.from_numpy(images.latents[drawn])[one.pairs]
            far.setdefault(names, []).append((z[:, 0] - z[:, 1]).abs())
    for names, moved in far.items():
        mean = torch.cat(moved).mean(0)
        assert {WORLD.names[i] for i in mean.argsort()[: len(names)]} == set(names)
        assert mean.sort().values[len(names) - 1] < mean.sort().values[len(names)] / 2


def test_pairs_among_images_are_told_from_the_others_by_outputs_of_their_own(painted: dict[str, Data]) -> None:
    tier = with_pairs(TINY, first=(("x", "y"), ("z",)), lasts=1.0)
    for row in ("box-normal", "box-aninfonce"):
        task = task_of(run_of(painted, row, replace(tier, unsupervised=replace(STEPS, steps=40))), "cpu")
        batch = task.batch(12)
        points = task.encode(batch.observations)
        expected = torch.zeros(())
        for one, outputs, weight in zip(batch.comparisons, (slice(2), slice(2, 3)), (1, 0.1), strict=True):
            assert isinstance(one, PairsAmong)
            away = torch.cdist(points[:, outputs], points[:, outputs]) ** 2
            others = torch.exp(-away).fill_diagonal_(0).sum(1).log().mean()
            expected = expected + weight * (others + away[tuple(one.pairs.T)].mean())
        torch.testing.assert_close(task.loss(batch), expected)


def test_each_group_has_the_precisions_of_its_own_outputs(painted: dict[str, Data]) -> None:
    tier = with_pairs(TINY, first=(("x", "y"), ("z",)), lasts=1.0)
    task = task_of(run_of(painted, "box-aninfonce", tier), "cpu")
    with torch.no_grad():
        task.objective.losses[0].log_precisions.copy_(torch.arange(10.0))
    task.loss(task.batch(0)).backward()
    assert task.objective.losses[0].log_precisions.grad.nonzero().flatten().tolist() == [0, 1, 2]


def test_a_sphere_has_no_groups_of_outputs(painted: dict[str, Data]) -> None:
    tier = with_pairs(TINY, first=(("x",),), lasts=1.0)
    assert groups_in(task_of(run_of(painted, "sphere-normal", tier), "cpu").batch(0)) == 0


def test_what_is_computed_again_counts_once(painted: dict[str, Data]) -> None:
    norms = []
    for chunk in (0, 16):
        task = task_of(run_of(painted, "box-normal", with_model(TINY, chunk=chunk)), "cpu")
        task.loss(task.batch(0)).backward()
        norms.append([value for name, value in task.model.state_dict().items() if "running" in name])
    torch.testing.assert_close(*norms)


def test_a_loss_of_ones_own_has_a_positive_for_each_anchor(painted: dict[str, Data]) -> None:
    tier = with_pairs(TINY, first=(("x",),), lasts=1.0)
    task = task_of(run_of(painted, "box-normal", tier, objective="tests.benchmark.test_images:spread"), "cpu")
    assert groups_in(task.batch(0)) == 0


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


def test_each_positive_may_be_an_anchor_too(painted: dict[str, Data]) -> None:
    one, both = (task_of(run_of(painted, tier=with_pairs(TINY, both=both)), "cpu") for both in (False, True))
    batch = one.batch(0)
    there = one.loss(batch)
    back = one.loss(replace(batch, observations=torch.cat(batch.observations.chunk(2)[::-1])))
    assert not torch.isclose(there, back)
    torch.testing.assert_close(both.loss(both.batch(0)), (there + back) / 2)


def test_in_chunks_gradients_are_the_same(painted: dict[str, Data]) -> None:
    def gradients(chunk: int) -> list[Tensor]:
        task = task_of(run_of(painted, tier=with_model(TINY, chunk=chunk)), "cpu")
        task.model.eval()  # a batch norm in training sees a chunk at a time
        task.loss(task.batch(0)).backward()
        return [parameter.grad for parameter in task.model.parameters() if parameter.grad is not None]

    for whole, part in zip(gradients(0), gradients(3), strict=True):
        assert torch.allclose(whole, part, rtol=1e-4, atol=1e-7)


def test_images_that_are_larger_than_meant_are_named(painted: dict[str, Data]) -> None:
    assert data.larger(painted["train"], load_tier("laptop", stored=True)) == ""
    said = data.larger(replace(painted["train"], size=224), load_tier("laptop", stored=True))
    assert "images of 224 x 224, a step takes 12 times as long; tier laptop is meant for 64 x 64" in said


@pytest.mark.parametrize("norm", [nn.BatchNorm3d(2), nn.BatchNorm1d(2, affine=False), nn.SyncBatchNorm(2)])
def test_a_batch_norm_that_cannot_be_shared_is_named(norm: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world", lambda: 2)
    with pytest.raises(Impossible, match=rf"^1: this {type(norm).__name__} cannot share a batch"):
        distributed.with_shared_norms(nn.Sequential(nn.Identity(), norm))


def share_of_two(folder: str) -> None:
    """In a process that torchrun has started: the gradients of a loss that both have a part in."""
    places = json.loads(Path(folder, "places.json").read_text())
    with distributed.joined("cpu"):
        task = task_of(run_of({split: Data(*place) for split, place in places.items()}, "box-normal", SMALL), "cpu")
        found = losses_and_gradients(task)
        torch.save([*found, task.model.state_dict()], f"{folder}/{distributed.rank()}.pt")
        del task
        gc.collect()


def losses_and_gradients(task: RowTask) -> list[Any]:
    """Of the first batches, to one of two kinds of pairs, the gradients of the last, and the batch norm's moments."""
    from ident.benchmark.training.train import Loss

    loss_of = distributed.parallel(Loss(task))
    losses = []
    for number in range(3):
        task.model.zero_grad()
        loss = loss_of(task.batch(number))
        loss.backward()
        losses.append(float(loss.detach()))
    norm = [value for name, value in task.model.state_dict().items() if "running" in name]
    return [losses, [parameter.grad for parameter in task.model.parameters()], norm]


def test_two_processes_have_the_gradients_of_one(painted: dict[str, Data], tmp_path: Path) -> None:
    (tmp_path / "places.json").write_text(
        json.dumps({name: [it.place, it.digest, it.size] for name, it in painted.items()})
    )
    half = tmp_path / "half.py"
    half.write_text(f"from tests.benchmark.test_images import share_of_two\nshare_of_two({str(tmp_path)!r})\n")
    code = f"from ident.benchmark.suites.runner import launch; launch(2, [{str(half)!r}])"
    paths = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    task = task_of(run_of(painted, "box-normal", SMALL), "cpu")
    groups = [groups_in(task.batch(number)) for number in range(4)]
    assert groups == [2, 2, 2, 0]
    losses, gradients, norm = losses_and_gradients(task)
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
        data.find(places | {"test": "nowhere"})
    with pytest.raises(Impossible, match="has images that are trained on"):
        data.find(places | {"test": places["train"]})
    paint(tmp_path / "more", replace(RECIPE, source=Uniform(0, "train"), shard_size=16), n=16)
    with pytest.raises(Impossible, match="more: has images that are trained on"):
        data.find(places | {"test": str(tmp_path / "more")})
    paint(tmp_path / "large", replace(RECIPE, settings=Settings(32, plain(1))), n=16)
    with pytest.raises(Impossible, match="images of 16 pixels to train on, of 32 to test on"):
        data.find(places | {"test": str(tmp_path / "large")})
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
    found = data.find({"train": str(tmp_path / "data"), "test": painted["test"].place})
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


def test_the_nearest_images_are_shown(painted: dict[str, Data]) -> None:
    task = task_of(run_of(painted, "box-normal", TINY), "cpu")
    place = torch.tensor([[0.0], [5.0], [0.1], [5.2], [0.3]])
    shown = np.asarray(Image.open(io.BytesIO(task.source.picture(place, rows=2, columns=3))))
    images = Dataset(painted["test"].place)
    expected = [[0, 2, 4], [1, 3, 4]]
    for row, column in np.ndindex(2, 3):
        there = shown[16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
        assert np.array_equal(there, images.image(expected[row][column]))
