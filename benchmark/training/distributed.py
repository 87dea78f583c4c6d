"""Several processes that train one model, each with its share of every batch: as torchrun starts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.modules.batchnorm import _BatchNorm

from ident.render.errors import Failed, Impossible

PATIENCE = timedelta(days=1)
"""How long processes wait for each other: the first one takes scores alone, and those of many images take long."""


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.count = len(x)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone(memory_format=torch.contiguous_format)  # it may be another's, too
        dist.all_reduce(grad)
        return grad[dist.get_rank() * ctx.count :][: ctx.count]


def rank() -> int:
    """The number of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """How many there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def share(size: int) -> slice:
    """The part of a batch of so many that is this process's."""
    if size % world():
        raise Impossible(f"a batch of {size}: does not divide among {world()} processes")
    each = size // world()
    return slice(rank() * each, (rank() + 1) * each)


def gather(x: Tensor) -> Tensor:
    """The rows (n, d) of all processes (world * n, d), so that gradients find the way back to each.

    All give as many. With DistributedDataParallel, which takes the mean over processes, a loss of all rows, or of each
    process's own among all, has the gradient that it has in one process with the whole batch.
    """
    gathered: Tensor = _Gather.apply(x) if world() > 1 else x
    return gathered


def launched() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def started() -> int:
    """How many processes torchrun has started, this one among them."""
    return int(os.environ["WORLD_SIZE"]) if launched() else 0


def wait() -> None:
    """For all the others to come here."""
    if dist.is_initialized():
        dist.barrier()


def agree(number: int, otherwise: str) -> None:
    """Fail, saying what else it is, if not all processes have the same number."""
    numbers: list[Any] = [None] * world()
    if world() > 1:
        dist.all_gather_object(numbers, number)
        if set(numbers) != {number}:
            raise Failed(otherwise)


@contextmanager
def joined(device: str) -> Iterator[str]:
    """Join the processes that torchrun has started, if it has; gives the device of this one."""
    if not launched() or dist.is_initialized():
        yield device
        return
    if device != "cpu":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if device == "cpu" else "nccl", timeout=PATIENCE)
    try:
        yield device
        dist.barrier()
    finally:
        dist.destroy_process_group()


def parallel(loss: nn.Module) -> nn.Module:
    """A loss whose gradients are the mean over all processes."""
    return loss if world() == 1 else nn.parallel.DistributedDataParallel(loss)


def with_shared_norms(model: nn.Module) -> nn.Module:
    """The model with batch norms that take mean and variance over the batches of all processes."""
    if world() == 1:
        return model
    if any(parameter.is_cuda for parameter in model.parameters()):
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        return converted
    for name, module in list(model.named_modules()):
        usual = type(module) in (nn.BatchNorm1d, nn.BatchNorm2d) and module.affine and module.track_running_stats
        if usual and module.momentum is not None:
            together = SharedBatchNorm(module.num_features, module.eps, module.momentum)
            together.load_state_dict(module.state_dict())
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, together)
        elif isinstance(module, _BatchNorm):
            raise Impossible(
                f"{name}: this {type(module).__name__} cannot share a batch among processes; leave out --gpus"
            )
    return model


class SharedBatchNorm(_BatchNorm):
    """A batch norm over the batches of all processes on CPUs, where PyTorch has none. All have as large batches."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalised outputs (n, C), or (n, C, ...)."""
        if not self.training:
            return super().forward(x)
        full, but_channels, channels = x.float(), [0, *range(2, x.ndim)], (-1, *(1 for _ in x.shape[2:]))
        mean = all_reduce(full.mean(but_channels)) / world()
        around = full - mean.view(channels)
        variance = all_reduce(around.square().mean(but_channels)) / world()
        with torch.no_grad():
            count = x.numel() // x.shape[1] * world()
            for running, current in ((self.running_mean, mean), (self.running_var, variance * count / (count - 1))):
                assert running is not None
                assert self.momentum is not None
                running.lerp_(current.detach(), self.momentum)
        scale = self.weight * (variance + self.eps).rsqrt()
        normed: Tensor = around * scale.view(channels) + self.bias.view(channels)
        return normed.to(x.dtype)

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions, in evaluation."""
