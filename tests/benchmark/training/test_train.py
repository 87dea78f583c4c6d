"""The training loop: the same after any interruption, stopped by what is not finite, safe from damaged checkpoints."""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
from torch import Tensor, nn

from ident.benchmark.training import optimizers
from ident.benchmark.training.checkpoints import DIGEST, Progress
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.seeds import seeded
from ident.benchmark.training.train import Batch, train
from ident.render.errors import Failed, Impossible

TRAINING = Training(steps=120, batch_size=8, learning_rate=1e-2, optimizer="muon", warm_up=10, constant=0.5, looks=6)

A = '{"name": "a"}'
"""A recipe."""


class Line:
    """Learns a linear map; the loss may go wrong at a step, and something may happen in it."""

    memory = nn.Module()

    def __init__(self, wrong_at: int = -1, happens: Callable[[int], object] = lambda _: None) -> None:
        with seeded(0):
            self.model: nn.Module = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 3))
        self.wrong_at, self.happens = wrong_at, happens

    def batches(self, first: int) -> Iterator[Batch]:
        number = first
        while True:
            x = torch.randn(8, 3, generator=torch.Generator().manual_seed(number))
            yield {"x": x, "number": torch.tensor(number)}
            number += 1

    def loss(self, batch: Batch) -> Tensor:
        number = int(batch["number"])
        self.happens(number)
        error = nn.functional.mse_loss(self.model(batch["x"]), 2 * batch["x"])
        return error * float("nan") if number == self.wrong_at else error

    def look(self) -> dict[str, float]:
        assert not self.model.training
        return {"score": float(self.model(torch.ones(1, 3)).sum())}


def quiet(*_: object) -> None:
    """Tell nobody."""


def weights(task: Line) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in task.model.parameters()]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_stopped_run_goes_on_to_the_last_bit(tmp_path: Path, optimizer: str, precision: str) -> None:
    training = replace(TRAINING, optimizer=optimizer, precision=precision)
    alone = Line()
    through = train(alone, training, tmp_path / "alone.pt", A, quiet)

    def stop(number: int) -> None:
        if number == 57:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(Line(happens=stop), training, tmp_path / "stopped.pt", A, quiet)
    again = Line()
    seen: list[int] = []
    on = train(again, training, tmp_path / "stopped.pt", A, lambda step, _: seen.append(step))
    assert seen[0] > 57
    assert all(torch.equal(a, b) for a, b in zip(weights(alone), weights(again), strict=True))
    assert on.history == through.history
    assert [point["step"] for point in on.history] == [20, 40, 60, 80, 100, 120]
    assert not torch.equal(weights(Line())[0], weights(again)[0])


def test_what_is_not_finite_stops_it_and_the_last_good_checkpoint_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    with pytest.raises(Failed, match=r"nan at step 78; the last good checkpoint is kept: .*c\.pt"):
        train(Line(wrong_at=77), TRAINING, path, A, quiet, seconds_between=0)
    again = Line()
    seen: list[int] = []
    train(again, TRAINING, path, A, lambda step, _: seen.append(step))
    assert 50 < seen[0] <= 100
    alone = Line()
    train(alone, TRAINING, tmp_path / "d.pt", A, quiet)
    assert all(torch.equal(a, b) for a, b in zip(weights(alone), weights(again), strict=True))
    with pytest.raises(Failed, match="nan at step 3; no checkpoint was written yet"):
        train(Line(wrong_at=2), TRAINING, tmp_path / "e.pt", A, quiet)


class Broken(Line):
    """Whose loss is finite at a step, and its gradient is not."""

    def __init__(self, broken_at: int) -> None:
        super().__init__()
        self.broken_at = broken_at

    def loss(self, batch: Batch) -> Tensor:
        error = super().loss(batch)
        if int(batch["number"]) == self.broken_at:
            error = error + (0 * self.model(batch["x"]).sum()).sqrt()  # 0, of infinite slope
        return error

    def look(self) -> dict[str, float]:
        scores = super().look()
        if not math.isfinite(scores["score"]):
            raise Impossible("latents or recovered ones are not finite")
        return scores


def test_weights_that_are_not_finite_are_never_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    with pytest.raises(Failed, match="a weight is not finite at step 1; no checkpoint was written yet"):
        train(Broken(0), replace(TRAINING, looks=1), path, A, quiet, seconds_between=0)
    with pytest.raises(Failed, match="at step 60: latents or recovered ones are not finite; the last good"):
        train(Broken(59), TRAINING, path, A, quiet, seconds_between=0)
    again, alone = Line(), Line()
    assert train(again, TRAINING, path, A, quiet).history[1]["step"] == 40  # it went on, and to the same end
    train(alone, TRAINING, tmp_path / "e.pt", A, quiet)
    assert all(torch.equal(a, b) for a, b in zip(weights(alone), weights(again), strict=True))


def saved(path: Path) -> Path:
    train(Line(), replace(TRAINING, steps=20), path, A, quiet)
    return path


class Evil:
    """What runs when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("evil"),))


def rewritten(path: Path, **changes: Any) -> bytes:
    content = BytesIO()
    torch.save(torch.load(BytesIO(path.read_bytes()[DIGEST:])) | changes, content)
    return signed(content.getvalue())


def signed(content: bytes) -> bytes:
    return sha256(content).digest() + content


def flipped(path: Path) -> bytes:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    return bytes(content)


def packed(path: Path) -> bytes:
    """The same checkpoint, whose weights PyTorch would unpack, however large they are."""
    content = BytesIO()
    with ZipFile(BytesIO(path.read_bytes()[DIGEST:])) as whole, ZipFile(content, "w", ZIP_DEFLATED) as archive:
        for name in whole.namelist():
            archive.writestr(name, whole.read(name))
    return signed(content.getvalue())


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (lambda path: path.read_bytes()[:-500], Failed, "is damaged"),
        (lambda path: b"", Failed, "is damaged"),  # noqa: ARG005
        (lambda path: b"hello", Failed, "is damaged"),  # noqa: ARG005
        (lambda path: pickle.dumps(Evil()), Failed, "is damaged"),  # noqa: ARG005
        (lambda path: signed(pickle.dumps(Evil())), Failed, "is damaged"),  # noqa: ARG005
        (lambda path: signed(b"ustar" * 200), Failed, "is damaged"),  # noqa: ARG005
        (flipped, Failed, "is damaged"),
        (packed, Failed, "is damaged"),
        (lambda path: rewritten(path, format=9), Impossible, "of format 9, this version of ident reads 2"),
        (
            lambda path: rewritten(path, recipe='{"name": "b"}'),
            Impossible,
            "belongs to another run, of name 'b', not 'a'; give",
        ),
        (lambda path: rewritten(path, recipe="b"), Failed, "is damaged"),
        (lambda path: rewritten(path, recipe="[3]"), Failed, "is damaged"),
        (lambda path: rewritten(path, recipe=3), Failed, "is damaged"),
        (lambda path: rewritten(path, model={}), Failed, "does not fit"),
        (lambda path: rewritten(path, optimizers=[]), Failed, "does not fit"),
        (lambda path: rewritten(path, optimizers=[3, 3]), Failed, "does not fit"),
        (lambda path: rewritten(path, progress={"place": 3}), Failed, "does not fit"),
        (lambda path: rewritten(path, progress={"step": -5}), Failed, "does not fit"),
        (lambda path: rewritten(path, progress={"step": 3.5}), Failed, "does not fit"),
        (lambda path: rewritten(path, progress={"step": 3, "history": 3}), Failed, "does not fit"),
    ],
)
def test_hostile_checkpoints(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], bytes],
    error: type[Exception],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path / "c.pt")
    content = damage(path)
    path.write_bytes(content)
    with pytest.raises(error, match=says):
        train(Line(), TRAINING, path, A, quiet)
    assert path.read_bytes() == content
    assert not Path("evil").exists()


def test_a_checkpoint_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.pt")
    with pytest.raises(Failed, match=r"c\.pt: is not a file; delete it to begin that run anew"):
        train(Line(), TRAINING, tmp_path / "c.pt", A, quiet)


def test_the_learning_rate_rises_stays_and_falls() -> None:
    rates = [TRAINING.rate(step) for step in range(120)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9:61] == pytest.approx([1.0] * 52)
    assert rates[90] == pytest.approx(0.5)
    assert rates[119] == pytest.approx(1 / 60)
    assert [Training(steps=5, batch_size=2, learning_rate=1).rate(step) for step in range(5)] == [1.0] * 5


def test_muon_moves_matrices_and_adam_the_rest() -> None:
    made = optimizers.optimizers_of(Line().model, TRAINING)
    assert [type(optimizer).__name__ for optimizer, _ in made] == ["Muon", "Adam"]
    shapes = [{p.ndim for group in optimizer.param_groups for p in group["params"]} for optimizer, _ in made]
    assert shapes == [{2}, {1}]
    (adam, rate), *none = optimizers.optimizers_of(Line().model, replace(TRAINING, optimizer="adam"))
    assert (type(adam).__name__, rate, none) == ("Adam", TRAINING.learning_rate, [])
    assert len(list(adam.param_groups[0]["params"])) == 4


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": 0}, "steps 0"),
        ({"batch_size": 1}, "batch_size 1: give a whole number from 2 on"),
        ({"batch_size": 2.5}, "batch_size 2.5"),
        ({"learning_rate": -1.0}, "learning_rate -1.0"),
        ({"constant": 1.5}, "constant 1.5"),
        ({"optimizer": "sgd"}, "optimizer 'sgd': choose from adam, muon"),
        ({"precision": "int8"}, "precision 'int8'"),
    ],
)
def test_the_impossible_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Impossible, match=says):
        replace(TRAINING, **changes)


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
def test_no_space_for_a_checkpoint(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
    try:

        def fill(step: int, _: object) -> None:
            if step == 60:
                with suppress(OSError):
                    (disk / "filler").write_bytes(bytes(2**17))

        with pytest.raises(Failed, match=r"run\.pt: No space left on device; the last good checkpoint is kept"):
            train(Line(), TRAINING, disk / "run.pt", A, fill, seconds_between=0)
        assert {path.name for path in disk.iterdir()} == {"filler", "run.pt"}
        (disk / "filler").unlink()
        seen: list[int] = []
        train(Line(), TRAINING, disk / "run.pt", A, lambda step, _: seen.append(step), seconds_between=0)
        assert seen[0] > 20
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_muon_moves_kernels_as_the_matrices_that_they_are(memory: torch.memory_format) -> None:
    with seeded(0):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 4, 1, bias=False))
    model = model.to(memory_format=memory)
    before = [weight.detach().clone() for weight in model.parameters()]
    ((muon, highest),) = optimizers.optimizers_of(model, TRAINING)
    assert isinstance(muon, optimizers.Muon)
    assert highest == optimizers.MUON * TRAINING.learning_rate
    x = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        muon.zero_grad()
        model(x).square().mean().backward()
        matrices = [nn.Parameter(weight.detach().clone().flatten(1)) for weight in model.parameters()]
        for matrix, weight in zip(matrices, model.parameters(), strict=True):
            assert weight.grad is not None
            matrix.grad = weight.grad.clone().flatten(1)
        expected = torch.optim.Muon(matrices, lr=0.1, momentum=0.0, weight_decay=0.0)
        expected.step()
        for group in muon.param_groups:
            group.update(lr=0.1, momentum=0.0)
        muon.take()
        muon.step()  # type: ignore[no-untyped-call]
        for matrix, weight in zip(matrices, model.parameters(), strict=True):
            assert torch.allclose(weight.detach().flatten(1), matrix.detach(), atol=2e-3)
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_a_module_may_learn_faster() -> None:
    class Fast(nn.Linear):
        times_the_rate = 10.0

    model = nn.Sequential(nn.Linear(3, 3), Fast(3, 3), nn.Linear(3, 3))
    for parameter in model[2].parameters():
        parameter.requires_grad = False
    found = optimizers.optimizers_of(model, replace(TRAINING, optimizer="adam"))
    assert [(len(it.param_groups[0]["params"]), rate) for it, rate in found] == [(2, 1e-2), (2, 1e-1)]


def test_first_weights_follow_from_the_seed_and_disturb_nobody() -> None:
    before = torch.get_rng_state()
    drawn = []
    for seed in (0, 0, 1):
        with seeded(seed):
            drawn.append(nn.Linear(3, 3).weight)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(before, torch.get_rng_state())


def test_progress_knows_how_long_it_took(tmp_path: Path) -> None:
    done = train(Line(), replace(TRAINING, steps=20), tmp_path / "c.pt", A, quiet)
    assert isinstance(done, Progress)
    assert done.seconds > 0
