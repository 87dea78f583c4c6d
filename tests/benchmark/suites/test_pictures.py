"""Pictures with classes: the source, a projector's two representations, read-outs, and what `ident bench` refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ident.benchmark.registry import AUGMENTATIONS
from ident.benchmark.sources.data import FILES
from ident.benchmark.sources.pictures import ImageFolder
from ident.benchmark.suites import datasets, results
from ident.benchmark.suites.rows import row_of
from ident.benchmark.suites.runner import perform
from ident.benchmark.suites.runs import Run, runs_of
from ident.benchmark.suites.suite import load_suite
from ident.benchmark.suites.task import RowTask, check
from ident.benchmark.suites.tiers import Model, Tier, load_tier
from ident.benchmark.training.schedule import Training
from ident.render.errors import Impossible
from tests.conftest import Run as Command

SIZE, COUNT = 16, 36
STEPS = Training(2, 8, 1e-3, looks=1)
TIER = replace(load_tier("demo", "cifar10"), name="quick", unsupervised=STEPS, samples=60)
METRICS = ("classes", "augmentation(grey)", "augmentation(crop)")
SUITE = """
title = "Mine"
metrics = ["classes", "augmentation(grey)"]
split = "backbone"
[every_row]
source = "image-folder(16)"
pairs = "augmented(simclr)"
space = "sphere"
kinds = ["unsupervised"]
[[rows]]
id = "one"
objective = "infonce(vmf, 0.5)"
[[rows]]
id = "two"
objective = "aninfonce"
"""
TIER_FILE = """
samples = 60
model = { encoder = "resnet18-small", projector = [16, 16, 8] }
pairs = { both = true }

[unsupervised]
steps = 2
batch_size = 8
learning_rate = 0.3
optimizer = "lars"
weight_decay = 1e-6
warm_up = 1
decay = "cosine"
looks = 1
"""


@pytest.fixture(name="root", scope="module")
def make_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two classes: bright and dark noise."""
    root = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for name, low in (("bright", 128), ("dark", 0)):
        (root / name).mkdir()
        for number in range(COUNT):
            Image.fromarray(rng.integers(low, low + 128, (20, 24, 3), dtype=np.uint8)).save(
                root / name / f"{number:02}.png"
            )
    return root


def source_of(root: Path, seed: int = 0) -> ImageFolder:
    return ImageFolder(SIZE, seed=seed, data=datasets.find({FILES: str(root)}))


def run_of(root: Path, kind: str = "unsupervised", **more: Any) -> Run:
    row = row_of({
        "id": "one", "source": f"image-folder({SIZE})", "pairs": "augmented(simclr)", "space": "sphere",
        "objective": "aninfonce", "kinds": [kind], **more,
    })  # fmt: skip
    return Run("mine", row, kind, 3, TIER, datasets.find({FILES: str(root)}), METRICS)


def test_each_picture_comes_once_an_epoch(root: Path) -> None:
    source = source_of(root)
    n = len(source)
    assert (n, source.counts(), source.classes) == (60, (60, 12), ("bright", "dark"))
    assert source_of(root, 1).folder is source.folder  # it is listed once
    drawn = np.concatenate([source.drawn(number, 7) for number in range(60)])
    for epoch in range(7):
        assert sorted(drawn[epoch * n : (epoch + 1) * n]) == list(range(n))
    assert not np.array_equal(drawn[:n], drawn[n : 2 * n])
    assert np.array_equal(source_of(root).drawn(3, 7), source.drawn(3, 7))
    assert not np.array_equal(source_of(root, 1).drawn(3, 7), source.drawn(3, 7))


def test_what_classifiers_are_fitted_on_comes_first(root: Path) -> None:
    source = source_of(root)
    labels, parts = source.classified(10, 2)
    images = torch.cat(list(parts))
    assert images.shape == (12, 3, SIZE, SIZE)
    assert labels[:, 0].tolist() == [0] * 5 + [1] * 5 + [0, 1]
    assert torch.equal(images[:10], source.images(np.arange(0, 60, 6)))
    assert torch.equal(images[10:], source.images(np.array([0, 6]), "test"))
    assert ((images.float().mean((1, 2, 3)) > 127) == (labels[:, 0] == 0)).all()


def test_moments_are_those_of_all_pixels(root: Path) -> None:
    source = source_of(root)
    mean, deviation = source.moments
    pixels = source.images(np.arange(60)).double() / 255
    assert mean == pytest.approx(pixels.mean((0, 2, 3)).tolist())
    assert deviation == pytest.approx(pixels.std((0, 2, 3), correction=0).tolist())


def test_groups_are_of_what_a_projector_gives(root: Path) -> None:
    run = run_of(root)
    steps = Training(12, 8, 1e-3, looks=1)
    run = replace(run, tier=replace(TIER, unsupervised=steps, pairs={"both": True, "groups": 4, "fade": (1, 1)}))
    task = RowTask(run, "cpu")
    bank = task.pairs.bank
    assert bank is not None
    assert bank.points.shape == (60, 32)
    sizes = set()
    for batch in islice(task.batches(0), 12):
        task.loss(batch)
        sizes.add(len(batch.comparisons))
    assert sizes == {1, 2}


def test_before_and_after_the_projector(root: Path, tmp_path: Path) -> None:
    result = perform(run_of(root), tmp_path, "cpu", lambda *_: None)
    assert result is not None
    assert {split: tuple(scores) for split, scores in result.scores.items()} == {"test": METRICS, "backbone": METRICS}
    assert result.factors == ("class",)
    assert result.latents == len(result.learned) == 32
    for scores in result.scores.values():
        assert scores["classes"].value >= 0.9  # bright and dark
        assert all(score.low <= score.value <= score.high for score in scores.values())
    assert [set(point) & {"classes", "r2"} for point in result.history] == [{"classes"}]
    with np.load(tmp_path / "one-unsupervised-seed3" / "recovered.npz") as recovered:
        assert recovered["recovered"].shape == (12, 32)
    with Image.open(tmp_path / "one-unsupervised-seed3" / "neighbours.png") as picture:
        assert picture.size == (6 * SIZE, 6 * SIZE)


def test_the_backbone_is_what_the_projector_takes(root: Path) -> None:
    task = RowTask(run_of(root), "cpu")
    assert task.splits == ("test", "backbone")
    _, features = task.recovered("backbone")
    _, outputs = task.recovered("test")
    assert (features.shape, outputs.shape) == ((12, 64), (12, 32))
    layers: Any = task.encoder
    _, (_, projector, sphere) = layers
    torch.testing.assert_close(sphere(projector(features)), outputs, atol=2e-2, rtol=0)  # bfloat16


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_half_of_the_views_have_the_augmentation(name: str, root: Path) -> None:
    task = RowTask(run_of(root, "untrained"), "cpu")
    labels, representation, kinds = task.classified(name, "test")
    again, same, _ = task.classified(name, "test")
    _, plain, _ = task.classified("", "test")
    assert torch.equal(labels, again)
    torch.testing.assert_close(representation, same)
    assert 0.3 < labels.mean() < 0.7
    unchanged = (representation - plain).abs().amax(1) < 1e-5
    assert unchanged[labels[:, 0] == 0].all()
    assert unchanged[labels[:, 0] == 1].double().mean() < 0.2
    assert len(kinds) == 1


def test_without_a_projector_there_is_no_backbone(root: Path, tmp_path: Path) -> None:
    run = replace(run_of(root), tier=replace(TIER, model=replace(TIER.model, projector=None)))
    assert "projector" not in run.recipe
    assert run_of(root).recipe["projector"] == (64, 64, 32)
    identity = perform(run_of(root, "identity"), tmp_path, "cpu", lambda *_: None)
    assert identity is not None
    assert set(identity.scores) == {"test"}


def test_a_recipe_has_what_tells_folders_apart(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "same")
    shutil.copytree(root, tmp_path / "more")
    (tmp_path / "more" / "dark" / "z.png").write_bytes((root / "dark" / "00.png").read_bytes())
    recipe = run_of(root).recipe
    assert run_of(tmp_path / "same").recipe == recipe
    more = run_of(tmp_path / "more").recipe
    assert {key for key, value in recipe.items() if more[key] != value} == {"data"}


def test_by_the_command(root: Path, tmp_path: Path, ident_here: Command) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    (tmp_path / "tiny.toml").write_text(TIER_FILE)
    typed = ("bench", root, "--suite", "mine.toml", "--tier", "tiny.toml", "--device", "cpu")
    done = ident_here(*typed, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [row["row"] for row in said["rows"]] == ["one", "two"]
    assert set(said["rows"][0]["unsupervised"]) == {"classes", "augmentation(grey)"}
    assert len(said["rows"][1]["learned"]) == 8
    suite = load_suite(str(tmp_path / "mine.toml"))
    path = tmp_path / "results" / "mine" / "tiny" / "two-unsupervised-seed0" / "result.json"
    assert results.load(path, {"mine": suite}).latents == 8
    again = ident_here(*typed)
    assert "2 runs of 2 done before" in again.stderr
    written = ident_here("report", "--suite", "mine.toml")
    assert written.returncode == 0, written.stderr
    assert "left out" not in written.stderr
    other = ident_here(*typed[:-2], "--test-data", "x")
    assert (other.returncode, "leave out --test-data and --render" in other.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--suite", "cifar10"), "data/cifar10: has no CIFAR10; type ident pull cifar10, or give a folder with"),
        (("--suite", "cifar10", "--data", "empty"), "empty: has no CIFAR10"),
        (("--suite", "imagenet", "--data", "empty"), "empty: has 0 folders of classes; give 2 to"),
        (("--suite", "imagenet", "--data", "none"), "none: No such file or directory; give a folder of classes"),
        (
            ("--suite", "cifar10", "--tier", "afternoon"),
            "tier 'afternoon': there is none for cifar10; choose from laptop",
        ),
        (("--suite", "cifar10", "--encoder", "mlp"), "encoder mlp: cifar10 is of images; give another"),
    ],
)
def test_what_cannot_be(arguments: tuple[str, ...], says: str, tmp_path: Path, ident_here: Command) -> None:
    (tmp_path / "empty").mkdir()
    done = ident_here("bench", *arguments)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr


class Mine:
    """A source or pairs of a user's that lack what these have."""

    def __init__(self, source: object = None) -> None:
        self.source = source


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"objective": "infonce(vmf, 0)"}, "temperature 0: give a number from 1e-06 on"),
        ({"objective": "infonce(vmf, 1e-50)"}, "temperature 1e-50: give a number from 1e-06 on"),
        ({"objective": "infonce(vmf, -1)"}, "temperature -1: give a number from 1e-06 on"),
        ({"objective": "infonce(vmf, hot)"}, "temperature 'hot': give a number from 1e-06 on"),
        ({"pairs": "augmented(simclear)"}, "augmentations 'simclear': choose from zimmermann, simclr, simclr-grey"),
        ({"source": "image-folder(3)"}, "image-folder: size 3; give a whole number of pixels from 16 to 1024"),
        ({"source": f"{__name__}:Mine"}, f"source {__name__}:Mine: gave Mine; give what inherits ident"),
        ({"pairs": f"{__name__}:Mine"}, f"pairs {__name__}:Mine: gave Mine; give what inherits ident"),
        ({"source": "image-folder(big)"}, "image-folder: size 'big'; give a whole number of pixels"),
    ],
)
def test_rows_that_cannot_be(row: dict[str, str], says: str, root: Path) -> None:
    with pytest.raises(Impossible) as error:
        check([run_of(root, **row)])
    assert str(error.value).startswith(says)


def test_a_metric_of_pictures_is_of_such_alone() -> None:
    suite = replace(load_suite("table2"), metrics=("mcc", "augmentation(blur)"))
    with pytest.raises(Impossible, match=r"^table2: metric augmentation\(blur\) needs classified images"):
        runs_of(suite, suite.rows, ("unsupervised",), 1, load_tier("demo"))


def test_a_projector_is_of_images() -> None:
    suite, tier = load_suite("table2"), load_tier("demo")
    tier = replace(tier, model=replace(tier.model, whiten=False, projector=(8, 8)))
    with pytest.raises(Impossible, match=r"^projector: is put behind an encoder of images, and table2 has none; leave"):
        runs_of(suite, suite.rows, ("unsupervised",), 1, tier)


@pytest.mark.parametrize(
    ("tier", "kind", "says"),
    [
        (replace(TIER, model=Model(encoder="resnet18", latents=8)), "unsupervised", "tier quick: cifar10 scores what"),
        (TIER, "identity", "kind identity: cifar10 scores what comes before a projector"),
    ],
)
def test_what_has_no_projector_has_nothing_before_it(tier: Tier, kind: str, says: str) -> None:
    suite = load_suite("cifar10")
    suite = replace(suite, rows=tuple(replace(row, kinds=(kind,)) for row in suite.rows))
    with pytest.raises(Impossible, match=f"^{says}"):
        runs_of(suite, suite.rows, (kind,), 1, tier)


@pytest.mark.parametrize("name", ["cifar10", "imagenet"])
def test_the_papers_two_blocks_are_of_the_same_runs(name: str) -> None:
    before, after = load_suite(name), load_suite(f"{name}-projected")
    assert (before.split, after.split, after.folder) == ("backbone", "test", name)
    colours = [metric for metric in before.metrics if metric in before.rows[0].paper["unsupervised"]][1:]
    means = {
        (suite.name, row.id): np.mean([row.paper["unsupervised"][metric][0] for metric in colours])
        for suite in (before, after)
        for row in suite.rows
        if set(colours) <= set(row.paper.get("unsupervised", {}))
    }
    told = {
        "cifar10": {("cifar10", "infonce"): 57.7, ("cifar10", "aninfonce"): 80.5,
                    ("cifar10", "aninfonce-unbounded"): 91.2, ("cifar10-projected", "infonce"): 51.8,
                    ("cifar10-projected", "aninfonce"): 69.0, ("cifar10-projected", "aninfonce-unbounded"): 74.6},
        "imagenet": {("imagenet", "infonce"): 74.4, ("imagenet", "aninfonce"): 79.3,
                     ("imagenet-projected", "infonce"): 53.0, ("imagenet-projected", "aninfonce"): 57.1},
    }[name]  # fmt: skip
    assert means == pytest.approx(told, abs=0.06)  # the paper's column of averages


@pytest.mark.parametrize(("source", "tiers"), [("cifar10", 3), ("image-folder", 3)])
def test_tiers_of_pictures(source: str, tiers: int) -> None:
    sized = [load_tier(tier, source) for tier in ("demo", "laptop", "paper")]
    assert len(sized) == tiers
    for tier in sized:
        assert tier.model.projector is not None
        assert tier.pairs == {"both": True}
    paper = sized[-1].unsupervised
    assert (paper.optimizer, paper.weight_decay, paper.decay) == ("lars", 1e-6, "cosine")
    assert paper.learning_rate == pytest.approx(0.3 * paper.batch_size / 256)
    if source == "cifar10":
        epochs = paper.steps * paper.batch_size / 50_000
        assert epochs == pytest.approx(1000, rel=0.01)
        assert paper.warm_up == pytest.approx(paper.steps / 100)
