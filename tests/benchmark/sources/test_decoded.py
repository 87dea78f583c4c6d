"""Latents that a decoder of digits shows: the VAE's training and its cache, and what runs on it have."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ident.benchmark.sources.data import FILES, Data
from ident.benchmark.sources.decoded import Decoded
from ident.benchmark.suites import decodings, digits_vae
from ident.benchmark.suites.rows import Row, row_of
from ident.benchmark.suites.runner import perform
from ident.benchmark.suites.runs import Run
from ident.benchmark.suites.task import RowTask
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.seeds import generator_of
from ident.render.errors import Failed, Impossible
from ident.render.exchange.digits import FILES as FILES_OF
from tests.digits import bars, write_digits

TRAINING = Training(4, 16, 1e-3, looks=1)
TIER = replace(
    load_tier("demo", "digits"), name="quick", decoder=TRAINING, unsupervised=TRAINING, samples=240
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Digits, and a cache of its own."""
    monkeypatch.setenv("IDENT_CACHE", str(tmp_path / "cache"))
    return write_digits(tmp_path / "digits")


def row(objective: str = "aninfonce", **more: object) -> Row:
    settings = {"id": "one", "source": "decoded(sphere(4))", "pairs": "drawn(anisotropic(5, 5, 5, 25))"}
    return row_of({**settings, "objective": objective, "space": "sphere", "kinds": ["unsupervised"], **more})


def run_of(folder: Path, *metrics: str, **more: object) -> Run:
    return Run("mine", row(**more), "unsupervised", 1, TIER, {FILES: Data(str(folder), "", 0)}, ("r2", *metrics))  # type: ignore[arg-type]


class Ramp(nn.Module):
    """A decoder that can be seen through: the first pixels are the latents' logits."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        images: torch.Tensor = nn.functional.pad(z, (0, 784 - z.shape[1])).unflatten(1, (1, 28, 28))
        return images


def source_of(folder: Path, space: str = "sphere(4)") -> Decoded:
    data = {FILES: Data(str(folder), "", 0)}
    return Decoded(space, seed=0, data=data, decoders=lambda *_: Ramp())


def test_latents_are_decoded_as_long_as_normal_ones(folder: Path) -> None:
    source = source_of(folder)
    z, images = source.samples("test", 700)
    shown = torch.cat(list(images))
    assert shown.shape == (700, 1, 28, 28)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(700))
    torch.testing.assert_close(torch.logit(shown.flatten(1)[:, :4] / 255), 2 * z, atol=1e-4, rtol=1e-4)
    again, _ = source_of(folder).samples("test", 700)
    assert torch.equal(z, again)


def test_its_digits_are_those_of_the_files(folder: Path) -> None:
    source = source_of(folder).pictures
    assert (len(source), source.counts()) == (300, (300, 60))
    labels, parts = source.classified(50, 10)
    images = torch.cat(list(parts))[:, 0].numpy()
    train, test = bars(300, 300), bars(60, 60)
    np.testing.assert_array_equal(images, np.concatenate([train[0][:50], test[0][:10]]))
    np.testing.assert_array_equal(labels[:, 0], np.concatenate([train[1][:50], test[1][:10]]))
    np.testing.assert_array_equal(source.images(np.array([7, 3]))[:, 0], train[0][[7, 3]])
    assert len(np.unique(source.drawn(0, 200))) > 100
    np.testing.assert_array_equal(source.drawn(3, 20), source_of(folder).pictures.drawn(3, 20))
    assert not np.array_equal(source.drawn(3, 20), source.drawn(4, 20))


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ("sphere(4, 2)", r"latents of sphere\(4, 2\)"),
        ("box(4)", "give a sphere of radius 1"),
        ("sphere(65)", "2 to 64"),
    ],
)
def test_other_spaces_have_no_decoder(folder: Path, space: str, said: str) -> None:
    with pytest.raises(Impossible, match=said):
        source_of(folder, space)


def test_without_digits_it_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match=r"nowhere: has no train-images-idx3-ubyte; type ident pull mnist"):
        source_of(tmp_path / "nowhere")
    with pytest.raises(Impossible, match="300 pictures, a batch has 301"):
        source_of(write_digits(tmp_path)).pictures.checked(301)


def test_a_damaged_file_of_the_test_split_is_refused_before_a_training(folder: Path) -> None:
    images = folder / FILES_OF["test"][0]
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(Failed, match=f"{images}: "):
        source_of(folder)


def weights(folder: Path, tier: object = TIER, dim: int = 4) -> dict[str, torch.Tensor]:
    steps = list[int]()
    decoder = digits_vae.decoder_of(tier, folder, dim, lambda step, _: steps.append(step))  # type: ignore[arg-type]
    return {**decoder.state_dict(), "steps": torch.tensor(sum(steps))}


def test_a_decoder_is_trained_once_for_its_settings_and_data(folder: Path, tmp_path: Path) -> None:
    first, second = weights(folder), weights(folder)
    assert (int(first.pop("steps")) > 0, int(second.pop("steps"))) == (True, 0)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert len(list((tmp_path / "cache/decoders").glob("*.pt"))) == 1
    longer = weights(folder, replace(TIER, decoder=replace(TRAINING, steps=5)))
    assert int(longer.pop("steps")) > 0
    other = weights(write_digits(tmp_path / "other", train=301))
    assert int(other.pop("steps")) > 0
    assert not any(torch.equal(first["4.weight"], one["4.weight"]) for one in (longer, other))
    assert len(list((tmp_path / "cache/decoders").glob("*.pt"))) == 3
    with pytest.raises(Impossible, match="tier mine: has no decoder"):
        weights(folder, replace(TIER, name="mine", decoder=None))


def test_a_damaged_decoder_is_not_taken(folder: Path, tmp_path: Path) -> None:
    weights(folder)
    (path,) = (tmp_path / "cache/decoders").glob("*.pt")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Failed, match=f"{path}: is damaged .*; delete it"):
        weights(folder)


def test_it_learns_to_reconstruct(folder: Path) -> None:
    """The evidence lower bound is far better than that of the pixels' means, which is what no latent can tell."""
    images = torch.from_numpy(bars(300, 300)[0].copy()).float() / 255
    mean = images.mean(0).clamp(1e-3, 1 - 1e-3)
    blind = nn.functional.binary_cross_entropy(mean.expand_as(images), images, reduction="none").sum((1, 2)).mean()
    losses = list[float]()
    longer = replace(TIER, decoder=Training(150, 64, 2e-3, looks=1))
    vae = digits_vae.trained(longer, folder, 4, lambda _, last: losses.append(last["loss"]))
    assert losses[-1] < 0.8 * float(blind)
    z = 2 * nn.functional.normalize(torch.randn(64, 4, generator=generator_of(0)), dim=1)
    shown = torch.sigmoid(vae.objective.decoder(z))
    assert shown.std(0).max() > 0.2  # latents decide what is seen


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"pairs": "augmented(simclr-grey)"},
        {"pairs": "augmented(crop-flip)", "objective": "beta-vae(1)", "space": "unbounded"},
        {"pairs": "augmented-or-not", "objective": "told", "space": "unbounded"},
    ],
)
def test_runs_to_their_results(folder: Path, tmp_path: Path, more: dict[str, object]) -> None:
    run = run_of(folder, "classes", "knn(5)", "augmentation(crop)", "augmentation(all)", **more)
    digits_vae.prepare([run], lambda *_: None)
    result = perform(run, tmp_path, "cpu", lambda *_: None)
    assert result is not None
    assert {"r2", "mcc", "classes", "knn(5)", "augmentation(crop)"} <= set(result.scores["test"])
    assert len(result.scores["test"]["r2"].per_latent) == 4
    assert 0 <= result.scores["test"]["knn(5)"].value <= 1
    assert result.settings["decoder"]["steps"] == 4
    assert (tmp_path / run.name / "neighbours.png").exists()
    for name in ("traversals.png", "views.png"):
        assert (tmp_path / run.name / name).exists() == (more.get("objective") == "beta-vae(1)")


def test_pairs_of_digits_are_views_of_one(folder: Path) -> None:
    task = RowTask(run_of(folder, pairs="augmented(crop-flip)"), "cpu")
    batch = next(task.batches(0))
    plain = task.source.pictures.images(task.source.pictures.drawn(0, 16))
    assert torch.equal(batch.observations, plain.repeat(2, 1, 1, 1))
    views = task.pairs.prepare(batch).observations
    assert views.shape == (32, 1, 28, 28)
    assert 0 <= views.min() < views.max() <= 255
    assert not torch.equal(views[:16], views[16:])


def test_half_of_the_digits_are_augmented_and_it_is_said_which(folder: Path) -> None:
    task = RowTask(run_of(folder, pairs="augmented-or-not", objective="told", space="unbounded"), "cpu")
    plain = next(task.batches(0))
    batch = task.pairs.prepare(plain)
    changed = (batch.observations != plain.observations).flatten(1).any(1)
    assert batch.factors is not None
    assert torch.equal(changed, batch.factors[:, 0] > 0)
    assert 2 < int(changed.sum()) < 14
    logits = task.encode(batch.observations)[:, 0].detach()
    shares = torch.where(changed, torch.sigmoid(logits), torch.sigmoid(-logits))
    assert float(task.loss(plain).detach()) == pytest.approx(-float(shares.log().mean()), rel=1e-4)


def killed(folder: Path) -> None:
    """Train a decoder, and die on the way."""

    def tell(step: int, _: dict[str, float]) -> None:
        if step:
            signal.raise_signal(signal.SIGKILL)

    digits_vae.decoder_of(replace(TIER, decoder=replace(TRAINING, steps=8, looks=8)), folder, 4, tell)


def test_a_killed_training_leaves_no_decoder(folder: Path, tmp_path: Path) -> None:
    code = f"from pathlib import Path; from {__name__} import killed; killed(Path({str(folder)!r}))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not list((tmp_path / "cache/decoders").glob("*.pt"))
    whole = weights(folder, replace(TIER, decoder=replace(TRAINING, steps=8, looks=8)))
    assert int(whole["steps"]) > 0


def test_histograms_are_as_high_as_there_are_values() -> None:
    values = torch.cat([torch.zeros(40), torch.ones(20), 2 * torch.ones(10)])
    bars = decodings.histogram(values, 8, 3)
    assert bars.sum(0).tolist() == [8, 4, 2]
    assert bars[-1].tolist() == [1, 1, 1]
    assert bars[0].tolist() == [1, 0, 0]
