"""Datasets that were made before format 2: read, continued and verified as ever.

tests/golden has two that are complete. `format1/killed` is what a killed run of `ident render --n 20 --seed 7 --size 16
--quality draft --passes mask --shard-size 8` left: shard 0 is listed, 1 is finished and noted, 2 has two of its rows.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ident.render.blender.settings import Settings, preset
from ident.render.stage.worker import Beat, Job, Worker
from ident.render.store.dataset import Dataset
from ident.render.store.format1 import former_recipe, upgraded_recipe
from ident.render.store.manifest import Manifest
from ident.render.store.recipe import Recipe, Uniform
from ident.render.store.storage import Storage
from ident.render.store.verify import verify
from ident.render.worlds.threedident import WORLD
from tests import golden
from tests.conftest import Run
from tests.render.engines import Painter

KILLED = Path(__file__).parent / "format1" / "killed"
TYPED = ("--seed", 7, "--size", 16, "--quality", "draft", "--passes", "mask", "--shard-size", 8, "--gpus", 0)
RECIPE = Recipe(Uniform(7, "train"), Settings(16, preset("draft", 16)), ("mask",), shard_size=8)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    shutil.copytree(KILLED, tmp_path / "d")
    return tmp_path / "d"


def test_it_is_read_as_what_it_is(killed: Path) -> None:
    manifest = Manifest.read(Storage(str(killed)))
    assert (manifest.world, manifest.shape, list(manifest.columns)) == (WORLD.facts, (16, 16, 3), ["images", "mask"])
    assert (manifest.complete, manifest.done, manifest.n) == (False, 8, 20)
    assert manifest.settings(WORLD) == RECIPE.settings


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_recipe_is_told_in_both_formats(split: str) -> None:
    told = json.loads((golden.FOLDER / split / "dataset.json").read_text())
    recipe = upgraded_recipe(told)
    assert Manifest.read(Storage(str(golden.FOLDER / split))).recipe() == recipe
    former = former_recipe(recipe)
    assert former is not None
    assert json.dumps(former) == json.dumps({name: told[name] for name in former})  # in this order, as keys need it
    assert former_recipe({**recipe, "world": {**recipe["world"], "name": "other"}}) is None


class Unused(Painter):
    """An engine that must not be asked for an image."""

    def image(self, scene: Any) -> npt.NDArray[np.uint8]:
        raise AssertionError(scene)


def test_rows_that_a_killed_run_had_are_not_rendered_again(killed: Path) -> None:
    job = Job(Storage(str(killed)), RECIPE, "me", engine=Unused)
    manifest = Manifest.of(RECIPE, 20, {})
    *_, noted = Worker(job).render(manifest.span(1))
    assert noted.n == 8  # type: ignore[union-attr]

    beats = Worker(job).render(manifest.span(2))
    beat = next(beats)
    assert isinstance(beat, Beat)
    assert beat.rows == 2
    with pytest.raises(RuntimeError, match="image 18: AssertionError"):
        next(beats)


def test_a_killed_run_is_continued_with_more_images(killed: Path, ident: Run) -> None:
    before = [(killed / "shards" / f"0000{i}.h5").read_bytes() for i in (0, 1)]
    ended = ident("render", "--n", 29, "--out", killed, *TYPED)
    assert ended.returncode == 0, ended.stderr
    assert [(killed / "shards" / f"0000{i}.h5").read_bytes() for i in (0, 1)] == before
    assert json.loads((killed / "dataset.json").read_text())["format"] == 2
    assert np.array_equal(Dataset(killed).latents, WORLD.draw(seed=7, split="train", start=0, n=29))
    ended = ident("verify", killed, "--rerender", 29)
    assert "29 of 29 identical when rendered again" in ended.stdout, ended.stderr


def test_a_complete_one_is_continued(tmp_path: Path, ident: Run) -> None:
    shutil.copytree(golden.FOLDER / "test", tmp_path / "d")
    before = golden.columns(tmp_path / "d")
    typed = ("--seed", 6, "--split", "test", "--size", 16, "--quality", "draft", "--gpus", 0)
    ended = ident("render", "--n", 84, "--out", tmp_path / "d", *typed)
    assert ended.returncode == 0, ended.stderr
    after = golden.columns(tmp_path / "d")
    assert all(np.array_equal(rows, after[name][:80]) for name, rows in before.items())
    ended = ident("verify", tmp_path / "d", "--rerender", 9)
    assert "9 of 9 identical when rendered again" in ended.stdout, ended.stderr


def test_a_shard_of_another_recipe_is_found(killed: Path) -> None:
    told = json.loads((killed / "dataset.json").read_text())
    told["render"]["exposures"][0]["samples"] += 1
    (killed / "dataset.json").write_text(json.dumps(told))
    _, wrong = verify(str(killed), done=lambda *_: None).wrong
    assert wrong.endswith("00000.h5: it was made by another recipe than dataset.json says")
