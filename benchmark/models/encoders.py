"""Encoders, and the space that their output is brought to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ident.benchmark.models.dense import layers
from ident.benchmark.registry import ENCODERS, takes
from ident.render.errors import Impossible


class ToSphere(nn.Module):
    """To a sphere around zero, of a radius that is fixed or learned."""

    log_radius: Tensor

    def __init__(self, radius: float = 1.0, *, learnable: bool = False) -> None:
        super().__init__()
        hold(self, "log_radius", torch.tensor(math.log(radius)), learnable)

    def forward(self, z: Tensor) -> Tensor:
        """Points (n, dim) on the sphere."""
        return self.log_radius.exp() * nn.functional.normalize(z.float(), dim=-1)


class ToBox(nn.Module):
    """To a box from zero, of sides that are fixed or learned, each for itself."""

    log_sides: Tensor

    def __init__(self, dim: int, side: float = 1.0, *, learnable: bool = True) -> None:
        super().__init__()
        hold(self, "log_sides", torch.full((dim,), math.log(side)), learnable)

    def forward(self, z: Tensor) -> Tensor:
        """Points (n, dim) in the box."""
        return self.log_sides.exp() * torch.sigmoid(z.float())


class ToUnbounded(nn.Module):
    """Leaves everything where it is."""

    def forward(self, z: Tensor) -> Tensor:
        """The same points (n, dim)."""
        return z.float()


class Whitening(nn.Module):
    """Takes observations to mean zero and covariance one, of which a sample (n, dim) gives the measure.

    Mixed latents differ by a factor of more than 100 in how far they move the observations: where products are taken in
    bfloat16 the weak ones would be lost to rounding, and everywhere they would be learned last.
    """

    mean: Tensor
    matrix: Tensor

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        variances, directions = torch.linalg.eigh(torch.cov(x.double().T))
        self.register_buffer("mean", x.mean(0))
        self.register_buffer("matrix", ((directions * variances.rsqrt()) @ directions.T).float())

    def forward(self, x: Tensor) -> Tensor:
        """White observations (n, dim), in full precision."""
        with torch.autocast(x.device.type, enabled=False):
            return (x.float() - self.mean) @ self.matrix


class Pixels(nn.Module):
    """Takes images (n, 3, H, W) of 0 to 255 to mean zero and variance one of each channel, by those of a dataset."""

    mean: Tensor
    sd: Tensor

    def __init__(self, mean: Sequence[float], sd: Sequence[float]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("sd", sd)):
            self.register_buffer(name, 255 * torch.tensor(values, dtype=torch.float32)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """The same, channels last, as convolutions are fastest."""
        return ((images.float() - self.mean) / self.sd).contiguous(memory_format=torch.channels_last)


def hold(module: nn.Module, name: str, value: Tensor, learnable: bool) -> None:
    """A value as a parameter, or as a buffer: both move with the module and are saved with it."""
    if learnable:
        module.register_parameter(name, nn.Parameter(value))
    else:
        module.register_buffer(name, value)


OUTPUTS: dict[str, Callable[[int, float], nn.Module]] = {
    "sphere": lambda dim, side: ToSphere(),  # noqa: ARG005
    "learned-sphere": lambda dim, side: ToSphere(learnable=True),  # noqa: ARG005
    "box": ToBox,
    "unbounded": lambda dim, side: ToUnbounded(),  # noqa: ARG005
}
"""By the name of the model's space, of so many latents; the side is that of a box at the start."""


def encoder(
    dim: int,
    space: str,
    side: float = 1.0,
    network: str = "mlp",
    *,
    outputs: int = 1,
    shape: tuple[int, ...] | None = None,
    projector: Sequence[int] = (),
) -> nn.Sequential:
    """A network, of ours or of the user's, perhaps a projector, and the space that the output is brought to.

    It gives so many outputs for each latent; of images of this shape, if it can be made for that.
    """
    if outputs > 1 and space != "unbounded":
        raise Impossible(f"space {space}: the objective takes {outputs} outputs for each latent; give unbounded")
    entry = ENCODERS.load(network)
    known = {} if shape is None else {"channels": shape[0], "shape": shape}
    of_images = {name: value for name, value in known.items() if name in takes(entry)}
    if projector:
        if outputs > 1:
            raise Impossible(
                f"projector: the objective takes {outputs} outputs for each latent; leave the projector out"
            )
        parts = entry(projector[0], **of_images), nn.Sequential(*layers(*projector, activation=nn.ReLU))
        return nn.Sequential(*parts, OUTPUTS[space](projector[-1], side))
    return nn.Sequential(entry(outputs * dim, **of_images), OUTPUTS[space](dim, side))


def for_images(encoder: nn.Sequential, moments: tuple[Sequence[float], Sequence[float]]) -> nn.Sequential:
    """An encoder of images of 0 to 255 whose channels have this mean and standard deviation, from 0 to 1."""
    return nn.Sequential(Pixels(*moments), encoder.to(memory_format=torch.channels_last))


def whitened(encoder: nn.Sequential, x: Tensor) -> nn.Sequential:
    """An encoder that sees observations as those of a sample (n, dim) whitened, and begins with outputs that are.

    These are then about linear in the observations, with nothing folded on anything else.
    """
    white = Whitening(x)
    network = encoder[0]
    if not (isinstance(network, nn.Sequential) and isinstance(network[-1], nn.Linear)):
        raise Impossible(
            "whiten: is for an encoder that is an nn.Sequential and ends in an nn.Linear; give another tier"
        )
    hidden, last = network[:-1], network[-1]
    with torch.no_grad():
        features = hidden(white(x))
        centred = features - features.mean(0)
        _, spread, directions = torch.linalg.svd(centred, full_matrices=False)
        weight = directions[: last.out_features] * (len(x) ** 0.5 / spread[: last.out_features, None])
        last.weight.copy_(weight)
        last.bias.copy_(-weight @ features.mean(0))
    return nn.Sequential(white, *encoder)
