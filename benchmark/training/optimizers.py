"""What moves a model's parameters: Adam, Muon and LARS, in full or mixed precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ident.benchmark.training.schedule import Training

MUON = 4.0
"""How much larger Muon's learning rate is, whose steps have the size of an orthogonal matrix."""

MOMENTUM, TRUST = 0.9, 1e-3
"""The share of a step of LARS that goes on in the next, and the share of a weight's norm that a step has."""

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}

TINY = 1e-30
"""That nothing is divided by 0."""

Optimizers = list[tuple[torch.optim.Optimizer, float]]
"""With the highest learning rate of each."""


@dataclass(frozen=True)
class State:
    """What steps change: a model, and what moves it. In float16 losses are scaled, so that small gradients stay."""

    model: nn.Module
    optimizers: Optimizers
    scaler: torch.amp.GradScaler
    precision: str
    memory: nn.Module
    """What batches depend on beside the model; without parameters."""

    @classmethod
    def of(cls, model: nn.Module, training: Training, memory: nn.Module | None = None) -> State:
        """As it is before the first step."""
        device = next(model.parameters()).device.type
        scaler = torch.amp.GradScaler(device, enabled=training.precision == "float16")
        return cls(model, optimizers_of(model, training), scaler, training.precision, memory or nn.Module())

    @property
    def device(self) -> torch.device:
        """The model's."""
        return next(self.model.parameters()).device


def optimizers_of(model: nn.Module, training: Training) -> Optimizers:
    """What moves the model's parameters. Vectors of a module that has `times_the_rate` move so many times as fast.

    A module with `adam_betas`, as a discriminator has them, is moved by an Adam of its own.
    """
    rates = {
        parameter: float(getattr(module, "times_the_rate", 1))
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
        if parameter.requires_grad
    }
    apart: dict[nn.Parameter, Any] = {
        parameter: module.adam_betas
        for module in model.modules()
        if hasattr(module, "adam_betas")
        for parameter in module.parameters()
    }
    rates = {parameter: rate for parameter, rate in rates.items() if parameter not in apart}
    matrices = [parameter for parameter in rates if parameter.ndim in (2, 4) and training.optimizer == "muon"]
    made: Optimizers = []
    if matrices:
        made.append((Muon(matrices), MUON * training.learning_rate))
    for rate in dict.fromkeys(rates.values()):
        others = [it for it in rates if rates[it] == rate and not any(it is matrix for matrix in matrices)]
        if others and training.optimizer == "lars":
            made.append((LARS(others, training.weight_decay), rate * training.learning_rate))
        elif others:
            made.append((torch.optim.Adam(others, fused=True), rate * training.learning_rate))  # one pass over them
    for betas in dict.fromkeys(apart.values()):
        own = [parameter for parameter in apart if apart[parameter] == betas]
        made.append((torch.optim.Adam(own, betas=betas, fused=True), training.learning_rate))
    return made


class LARS(torch.optim.Optimizer):
    """Descent with momentum, by steps of matrices and kernels that are as long as their norms say (You et al., 2017).

    As in SimCLR, vectors (biases, batch norms, precisions) have plain momentum without weight decay.
    """

    def __init__(self, weights: Sequence[nn.Parameter], weight_decay: float) -> None:
        super().__init__(weights, {"lr": 0.0})
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move each weight by its momentum: what is left of the last one, and the gradient times a rate of its own."""
        assert closure is None
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                gradient = weight.grad
                if weight.ndim > 1:
                    gradient = gradient + self.weight_decay * weight
                    norm, away = weight.norm(), gradient.norm()
                    gradient = gradient * torch.where((norm > 0) & (away > 0), TRUST * norm / away.clamp_min(TINY), 1.0)
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                momentum.mul_(MOMENTUM).add_(group["lr"] * gradient)
                weight.sub_(momentum)


class Muon(torch.optim.Muon):
    """Muon for matrices, and for kernels (out, in, h, w) as the matrices (out, in * h * w) that they are in memory."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self.weights = weights
        self.matrices = [nn.Parameter(as_matrix(weight.data, weight)) for weight in weights]
        super().__init__(self.matrices, weight_decay=0.0)

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: ARG002
        """Forget all gradients."""
        for one in (*self.weights, *self.matrices):
            one.grad = None

    def take(self) -> None:
        """Take over the gradients of the weights."""
        for weight, matrix in zip(self.weights, self.matrices, strict=True):
            matrix.grad = None if weight.grad is None else as_matrix(weight.grad, weight)


def as_matrix(x: Tensor, weight: Tensor) -> Tensor:
    """A kernel as a matrix, its elements in the order in which the weight's lie: of that itself, it is a view."""
    if x.ndim == 2:
        return x
    last = weight.is_contiguous(memory_format=torch.channels_last)
    return (x.permute(0, 2, 3, 1) if last else x).flatten(1)


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Products of matrices in less than float32, where that is wanted."""
    return torch.autocast(device.type, PRECISIONS[precision], enabled=PRECISIONS[precision] is not None)
