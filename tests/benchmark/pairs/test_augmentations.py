"""SimCLR's augmentations: each change as torchvision makes it, and the draws in distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor
from torchvision.transforms import ColorJitter, RandomResizedCrop
from torchvision.transforms import functional as one

from ident.benchmark.pairs import augmentations
from ident.benchmark.pairs.augmentations import Augmentations
from ident.benchmark.registry import AUGMENTATIONS
from ident.render.errors import Impossible


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


IMAGES = torch.rand(16, 3, 24, 32, generator=generator())


@pytest.mark.parametrize(
    ("ours", "theirs", "low", "high"),
    [
        (augmentations.brightened, one.adjust_brightness, 0.2, 1.8),
        (augmentations.contrasted, one.adjust_contrast, 0.2, 1.8),
        (augmentations.saturated, one.adjust_saturation, 0.2, 1.8),
        (augmentations.hue_shifted, one.adjust_hue, -0.2, 0.2),
    ],
)
def test_each_change_of_colour_is_torchvisions(
    ours: Callable[..., Tensor], theirs: Callable[..., Tensor], low: float, high: float
) -> None:
    factors = torch.linspace(low, high, 16)
    images = torch.cat([IMAGES[:15], torch.full_like(IMAGES[:1], 0.5)])
    expected = torch.stack([theirs(image, float(factor)) for image, factor in zip(images, factors, strict=True)])
    torch.testing.assert_close(ours(images, factors[:, None, None, None]), expected, atol=2e-5, rtol=0)


def test_grey_is_torchvisions() -> None:
    torch.testing.assert_close(augmentations.greyed(IMAGES), one.rgb_to_grayscale(IMAGES, 3), atol=2e-4, rtol=0)


def test_crops_are_torchvisions() -> None:
    where = augmentations.crops(16, 24, 32, (0.08, 1.0), (3 / 4, 4 / 3), generator())
    expected = [one.resized_crop(image, *map(int, crop), [24, 32]) for image, crop in zip(IMAGES, where, strict=True)]
    torch.testing.assert_close(augmentations.cropped(IMAGES, where), torch.stack(expected), atol=2e-5, rtol=0)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (20, 64)])
def test_crops_are_distributed_as_torchvisions(height: int, width: int) -> None:
    ours = augmentations.crops(4000, height, width, (0.08, 1.0), (3 / 4, 4 / 3), generator())
    with torch.random.fork_rng():
        torch.manual_seed(1)
        image = torch.empty(3, height, width)
        theirs = torch.tensor([RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)])
    for column, name in enumerate(("top", "left", "height", "width")):
        assert ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3, name


def test_crops_that_never_fit_are_in_the_middle() -> None:
    where = augmentations.crops(3, 10, 100, (0.9, 1.0), (3 / 4, 4 / 3), generator())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = RandomResizedCrop.get_params(torch.empty(3, 10, 100), [0.9, 1.0], [3 / 4, 4 / 3])
    assert where.tolist() == [list(map(float, expected))] * 3


def test_as_often_as_it_should() -> None:
    images = torch.rand(1, 3, 4, 4, generator=generator()).expand(4000, -1, -1, -1)
    plain = Augmentations(area=(1.0, 1.0), aspect=(1.0, 1.0), grey=0.0)
    changed = (plain.draw(images, generator=generator(1)) != images).flatten(1).any(1).double().mean()
    assert changed == pytest.approx(0.8, abs=0.02)
    grey = replace(plain, jitter=0.0, grey=0.2).draw(images, generator=generator(2))
    assert (grey[:, 0] == grey[:, 1]).flatten(1).all(1).double().mean() == pytest.approx(0.2, abs=0.02)
    whole = replace(plain, jitter=0.0).draw(images, generator=generator(3))
    torch.testing.assert_close(whole, images, atol=1e-6, rtol=0)


def test_colours_are_jittered_in_distribution_as_by_torchvision() -> None:
    image = torch.rand(3, 6, 6, generator=generator())
    ours = Augmentations(crop=False, jitter=1.0, grey=0.0).draw(image.expand(3000, -1, -1, -1), generator=generator())
    theirs = ColorJitter(0.8, 0.8, 0.8, 0.2)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        made = torch.stack([theirs(image) for _ in range(3000)])
    statistics: list[Callable[[Tensor], Tensor]] = [
        lambda x: x.mean((1, 2, 3)),
        lambda x: x.std((1, 2, 3)),
        lambda x: x[:, 0].mean((1, 2)),
        lambda x: x[:, 2, 3, 3],
    ]
    for statistic in statistics:
        assert ks_2samp(statistic(ours), statistic(made)).pvalue > 1e-3


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    draws = [Augmentations().draw(IMAGES, generator=generator(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert draws[0].shape == IMAGES.shape
    assert draws[0].min() >= 0
    assert draws[0].max() <= 1


@pytest.mark.parametrize("recipe", ["zimmermann", "simclr"])
def test_a_part_becomes_what_it_would_among_all(recipe: str) -> None:
    all_of_it = augmentations.RECIPES[recipe].draw(IMAGES, generator=generator(1))
    parts = [
        augmentations.RECIPES[recipe].draw(IMAGES[part], generator=generator(1), of=len(IMAGES), part=part)
        for part in (slice(7), slice(7, 20))
    ]
    assert torch.equal(torch.cat(parts), all_of_it)


def test_blurs_are_torchvisions() -> None:
    for images, kernel in ((IMAGES, [3, 3]), (torch.rand(4, 1, 60, 100, generator=generator()), [11, 7])):
        sigma = torch.linspace(0.1, 2.0, len(images))
        expected = [one.gaussian_blur(image, kernel, [float(s)] * 2) for image, s in zip(images, sigma, strict=True)]
        torch.testing.assert_close(augmentations.blurred(images, sigma), torch.stack(expected), atol=1e-5, rtol=0)


def test_simclrs_flips_and_blurs_half_of_the_images() -> None:
    image = torch.rand(1, 3, 6, 6, generator=generator()).expand(4000, -1, -1, -1)
    still = replace(augmentations.RECIPES["simclr"], crop=False, jitter=0.0, grey=0.0)
    flipped = replace(still, blur=0.0).draw(image, generator=generator(1))
    was = (flipped == image.flip(-1)).flatten(1).all(1)
    assert was.double().mean() == pytest.approx(0.5, abs=0.03)
    assert torch.equal(flipped[~was], image[~was])
    blurred = (replace(still, flip=0.0).draw(image, generator=generator(2)) != image).flatten(1).any(1)
    assert blurred.double().mean() == pytest.approx(0.5, abs=0.03)
    colourless = augmentations.RECIPES["simclr-grey"].draw(IMAGES[:, :1], generator=generator(3))
    assert colourless.shape == IMAGES[:, :1].shape


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_view_has_one_augmentation_and_the_others_are_as_they_were(name: str) -> None:
    images = (255 * torch.rand(64, 3, 16, 16, generator=generator())).round().to(torch.uint8)
    have = torch.rand(64, generator=generator(1)) < 0.5
    seen = torch.cat(list(augmentations.views(images.split(10), have, name, generator=generator(2))))
    assert torch.equal(seen[~have], images[~have].float())
    changed = (seen != images).flatten(1).any(1)
    assert changed[have].double().mean() > 0.9
    if name == "flip":
        assert torch.equal(seen[have], images[have].flip(-1).float())
    if name == "grey":
        assert torch.equal(seen[have][:, 0], seen[have][:, 2])
    if name == "brightness":  # the order of pixels stays, but for those that are as bright as can be
        bright, dull = images[have].flatten(1).argmax(1, keepdim=True), images[have].flatten(1).argmin(1, keepdim=True)
        flat = seen[have].flatten(1)
        torch.testing.assert_close(flat.gather(1, bright)[:, 0], flat.amax(1), atol=1e-3, rtol=0)
        torch.testing.assert_close(flat.gather(1, dull)[:, 0], flat.amin(1), atol=1e-3, rtol=0)


def test_augmentations_that_nobody_knows() -> None:
    with pytest.raises(
        Impossible, match=r"^augmentations 'simclear': choose from zimmermann, simclr, simclr-grey, crop-flip; did"
    ):
        augmentations.recipe_of("simclear")
