"""dataset.json that refuses what it does not understand, in both formats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ident.render.blender.settings import PRESETS, Settings
from ident.render.errors import Failed, Impossible
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import Manifest
from ident.render.store.recipe import Uniform
from ident.render.store.storage import Storage
from ident.render.worlds import Category, Factor, World, WorldFacts
from ident.render.worlds.threedident import WORLD
from tests import golden
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

Told = dict[str, Any]
Change = Callable[[Told], object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "painted"
    paint(place, replace(RECIPE, passes=("mask", "normal")))
    return place


def test_manifests_come_back_as_they_went(folder: Path) -> None:
    manifest = Manifest.read(Storage(str(folder)))
    assert Manifest.from_json(manifest.to_json(), "here") == manifest
    assert manifest.settings(WORLD) == RECIPE.settings
    assert (manifest.factors, manifest.shape) == (WORLD.factors, (16, 16, 3))
    for name, quality in PRESETS.items():
        recipe = replace(RECIPE, settings=Settings(32, quality, gpus=4))
        again = Manifest.from_json(Manifest.of(recipe, 5, {}).to_json(), name)
        assert again.settings(WORLD) == Settings(32, quality, gpus=1)


def test_a_manifest_shares_nothing_with_whoever_made_it(folder: Path) -> None:
    manifest = Manifest.read(Storage(str(folder)))
    shards, render = dict(manifest.shards), json.loads(json.dumps(manifest.render))
    other = replace(manifest, shards=shards, render=render)
    shards.clear()
    render["exposures"].clear()
    assert other == manifest


def test_a_dataset_of_a_world_that_nobody_knows_is_read(tmp_path: Path, folder: Path) -> None:
    """It carries its factors; what is said of how it was rendered is looked at by those who know its engine."""
    told = json.loads((folder / "dataset.json").read_text())
    factors = tuple(replace(factor, meaning="another") for factor in WORLD.factors)
    told["world"] = WorldFacts("theirs", "0" * 64, factors).describe()
    told["render"] = {"by": "hand", "strokes": [1, 2, {"of": "oil"}]}
    (tmp_path / "dataset.json").write_text(json.dumps(told))
    (tmp_path / "shards").symlink_to(folder / "shards")
    data = Dataset(tmp_path)
    assert data.factors == factors
    assert data.names == WORLD.names
    assert (data.image(3) == Dataset(folder).image(3)).all()


def change(name: str, value: Any) -> Change:
    return lambda told: told.__setitem__(name, value)


def change_shard(name: str, value: Any) -> Change:
    return lambda told: told["shards"][1].__setitem__(name, value)


def change_column(number: int, name: str, value: Any) -> Change:
    return lambda told: told["columns"][number].__setitem__(name, value)


def change_world(name: str, value: Any) -> Change:
    return lambda told: told["world"].__setitem__(name, value)


def change_factor(name: str, value: Any) -> Change:
    return lambda told: told["world"]["factors"][1].__setitem__(name, value)


BOTH: dict[str, Change] = {
    "format None": lambda told: told.pop("format"),
    "format True": change("format", True),
    "format 3, not 1 or 2; a later version of ident reads it": change("format", 3),
    "no 'n'": lambda told: told.pop("n"),
    "unknown in dataset.json: 'later'": change("later", 1),
    "n is 0": change("n", 0),
    "n is True": change("n", True),
    "n is '20'": change("n", "20"),
    "n is 1e\\+300": change("n", 1e300),
    "shard_size is -1": change("shard_size", -1),
    "shard_size is None": change("shard_size", None),
    "not a dataset.json that this": change("source", "uniform"),
    "source 'zzz', not one of uniform": change("source", {"kind": "zzz", "seed": 1}),
    "seed 'x'": change("source", {"kind": "uniform", "seed": "x", "split": "train"}),
    "split 5": change("source", {"kind": "uniform", "seed": 0, "split": 5}),
    "split '../x'": change("source", {"kind": "uniform", "seed": 0, "split": "../x"}),
    "missing 1 required positional argument: 'seed'": change("source", {"kind": "uniform", "split": "train"}),
    "unknown in source: 'world'": change("source", {"kind": "uniform", "seed": 0, "split": "x", "world": "os:system"}),
    "no 'exposures'": change("render", {}),
    "no 'bpy'": lambda told: told["render"].pop("bpy"),
    "render.bpy is 4": lambda told: told["render"].update(bpy=4),
    "render is '.x1b.2J'": lambda told: told["render"].update(ident="\x1b[2J"),
    r"render is '\\x1b\[2J\]'": lambda told: told["render"].update({"\x1b[2J]": 1}),
    "unknown in render: 'later'": lambda told: told["render"].update(later=1),
    "unknown in render.exposures: 'later'": lambda told: told["render"]["exposures"][0].update(later=1),
    "render.device 'tpu'": lambda told: told["render"].update(device="tpu"),
    "lights": lambda told: told["render"]["exposures"][0].update(lights=["Sun"]),
    "samples is 1.5": lambda told: told["render"]["exposures"][0].update(samples=1.5),
    "mean is .0.1": change("mean", [0.1, 0.2, 0.3]),
    "sd is None": change("sd", None),
    "complete is False, by the . shards of .": change("complete", False),
    "complete is True, by the . shards of .": lambda told: told["shards"].pop(),
    r"the number of shards is 1099511627776": lambda told: told.update(n=2**40, shard_size=1, shards=[
        {**told["shards"][0], "n": 1, "file": f"shards/0000{i}.h5", "start": i, "sums": [0] * 6} for i in range(2)
    ]),
    "a shard '../../etc/passwd'": change_shard("file", "../../etc/passwd"),
    "a shard '/etc/passwd'": change_shard("file", "/etc/passwd"),
    "a shard 'shards/00000.h5'": change_shard("file", "shards/00000.h5"),
    "a shard .* from 10000 on": change_shard("start", 10_000),
    "rows from 17 on": change_shard("start", 17),
    "of 7 rows": change_shard("n", 7),
    "n is True,": change_shard("n", True),
    "n is 8.0,": change_shard("n", 8.0),
    "bytes is -5": change_shard("bytes", -5),
    "sha256 is 'abc'": change_shard("sha256", "abc"),
    r"sha256 is '\.\./": change_shard("sha256", "../" * 20 + "abcd"),
    "unexpected keyword argument 'later'": change_shard("later", 1),
    "00001.h5 is there twice": lambda told: told["shards"].append(told["shards"][1]),
    "sums are .1, 2, 3., not 6 numbers": change_shard("sums", [1, 2, 3]),
    "sums is -1": change_shard("sums", [-1] * 6),
    "sums is 1000000000,": change_shard("sums", [10**9] * 6),
    "sums is 0,": change_shard("sums", [9, 9, 9, 0, 0, 0]),
    "iterable": change_shard("sums", 3),
    "not a dataset.json": change("shards", {"a": 1}),
    "not a dataset.json that": change("shards", None),
}  # fmt: skip

HOSTILE: dict[str, Change] = {
    **BOTH,
    "unknown in dataset.json: 'size'": change("size", 16),
    "no 'world'": lambda told: told.pop("world"),
    "unknown in world: 'later'": change_world("later", 1),
    "world '../3dident': give a name": change_world("name", "../3dident"),
    "digest 'abc' of world 3dident": change_world("digest", "abc"),
    "digest None of world 3dident": change_world("digest", None),
    "0 factors: give 1 to 256": change_world("factors", []),
    "1000 factors: give 1 to 256": lambda told: told["world"].update(
        factors=[{**told["world"]["factors"][0], "name": str(i)} for i in range(1000)]),
    "several factors are called x": change_factor("name", "x"),
    "factors other than those of world 3dident": change_factor("scale", 7.0),
    "kind 'spiral' of a factor: choose from interval, circle, category": change_factor("kind", "spiral"),
    "kind .'interval'. of a factor": change_factor("kind", ["interval"]),
    "factor 'y': 'later' is missing or unknown": change_factor("later", 1),
    "factor 'y': 'names', 'high', 'low'|factor 'y': .* is missing or unknown": change_factor("kind", "category"),
    "low is 'a': give a number": change_factor("low", "a"),
    "from 2.0 to 1.0: give two numbers": change_factor("low", 2),
    "high is inf": change_factor("high", float("inf")),
    "high is nan": change_factor("high", float("nan")),
    "high is 1e.300": change_factor("high", 1e300),
    "the scale of y is True": change_factor("scale", True),
    "the scale of y is 0": change_factor("scale", 0),
    "the unit of a factor is '.n'": change_factor("unit", "\n"),
    "the meaning of a factor is ": change_factor("meaning", "x" * 10**6),
    "columns are no list": change("columns", {"images": {}}),
    "columns are no list of 1": change("columns", []),
    "columns are no list of 1 to 64": lambda told: told.update(
        columns=[{**told["columns"][0], "name": f"a{i}"} for i in range(65)]),
    "no column 'images'": lambda told: told["columns"].pop(0),
    "unknown in columns: 'later'": change_column(0, "later", 1),
    "no 'codec'": lambda told: told["columns"][0].pop("codec"),
    "codec 'pickle': choose from compact, fast": change_column(0, "codec", "pickle"),
    "the codec of images is .'fast'.": change_column(0, "codec", ["fast"]),
    r"codec 'compact': does not keep uint8 \(16, 16\); choose from fast": change_column(1, "codec", "compact"),
    "column '../x', not a name": change_column(1, "name", "../x"),
    "column 7, not a name": change_column(1, "name", 7),
    "column 'images' collides": change_column(1, "name", "images"),
    "column 'latents' collides": change_column(1, "name", "latents"),
    "column 'index' collides": change_column(1, "name", "index"),
    "column 'images_crc32' collides": change_column(1, "name", "images_crc32"),
    "column 'images_offsets' collides": change_column(1, "name", "images_offsets"),
    "the dtype of mask is 'object'": change_column(1, "dtype", "object"),
    "the dtype of mask is .'uint8'.": change_column(1, "dtype", ["uint8"]),
    "the shape of mask is 16": change_column(1, "shape", 16),
    "the shape of mask is 0,": change_column(1, "shape", [16, 0]),
    "the shape of mask is -1,": change_column(1, "shape", [16, -1]),
    "the shape of mask is True,": change_column(1, "shape", [16, True]),
    "the shape of mask is 1000000,": change_column(1, "shape", [16, 10**6]),
    "a row of mask has more than 268435456 bytes": change_column(1, "shape", [2**16, 2**16]),
    "the shape of mask is .1, 1, 1, 1, 1": change_column(1, "shape", [1] * 5),
    "images are float32": lambda told: told["columns"][0].update(dtype="float32", codec="fast"),
    r"images are uint8 \(16, 16\)": lambda told: told["columns"][0].update(shape=[16, 16], codec="fast"),
    r"images are uint8 \(16, 16, 2\)": lambda told: told["columns"][0].update(shape=[16, 16, 2], codec="fast"),
    r"images are \(32, 32, 3\), by the settings": change_column(0, "shape", [32, 32, 3]),
    "both columns of a dataset with positives": change("positives", {"conditional": "laplace", "seed": 0}),
    "positives.seed is -1": change("positives", {"conditional": "laplace", "seed": -1}),
    "size is 100000, not a whole number from 16": lambda told: told["render"].update(size=100_000),
    "render is 'cpu'": change("render", "cpu"),
    "render nests too deep": lambda told: told["render"].update(device=[[[[[[[[[[1]]]]]]]]]]),
}  # fmt: skip

FORMER: dict[str, Change] = {
    **BOTH,
    "size is 100000": change("size", 100_000),
    "codec 'pickle', not one of compact, fast": change("codec", "pickle"),
    "pass 'x'": change("passes", ["x"]),
    "pass 'm'": change("passes", "mask"),
    "passes .'normal', 'mask'.": change("passes", ["normal", "mask"]),
    "latents other than x, y": lambda told: told["latents"].pop(),
    "latents other than x, .* with their units and scales": lambda told: told["latents"][0].update(scale=7.0),
    "unknown in dataset.json: 'world'": change("world", {}),
    "unknown in render: 'size'": lambda told: told["render"].update(size=16),
}
# Its shards are of other sizes.
FORMER["complete is False, by the . shards of ."] = change("complete", False)


def check_refused(place: Path, text: str, said: str) -> None:
    (place / "dataset.json").write_text(text)
    with pytest.raises(Failed, match=rf"dataset\.json: .*({said})"):
        Dataset(place)


@pytest.mark.parametrize("said", HOSTILE)
def test_a_manifest_that_lies_is_refused(tmp_path: Path, folder: Path, said: str) -> None:
    told = json.loads((folder / "dataset.json").read_text())
    HOSTILE[said](told)
    check_refused(tmp_path, json.dumps(told), said)


@pytest.mark.parametrize("said", FORMER)
def test_a_manifest_of_format_1_that_lies_is_refused(tmp_path: Path, said: str) -> None:
    told = json.loads((golden.FOLDER / "train" / "dataset.json").read_text())
    FORMER[said](told)
    check_refused(tmp_path, json.dumps(told), said)


def test_texts_that_are_no_manifest(tmp_path: Path, folder: Path) -> None:
    whole = (folder / "dataset.json").read_text()
    for text in ("", "[", "[]", "null", "3", whole[:-3], whole[: len(whole) // 2], "[" * 100_000, "\x00\xff"):
        check_refused(tmp_path, text, "not ")
    for unending in ("/dev/zero", None):
        (tmp_path / "dataset.json").unlink()
        if unending:
            (tmp_path / "dataset.json").symlink_to(unending)
        else:
            os.mkfifo(tmp_path / "dataset.json")
        with pytest.raises(Failed, match=r"dataset\.json: is not a file"):
            Dataset(tmp_path)
    (tmp_path / "dataset.json").unlink()
    with (tmp_path / "dataset.json").open("wb") as file:
        file.truncate(2**29)
    with pytest.raises(Failed, match=r"dataset\.json: has more than 67108864 bytes"):
        Dataset(tmp_path)


def test_recipes_that_cannot_be() -> None:
    discs = World("discs", (Factor("colour", Category(("red", "blue"))),), picture=RECIPE.world.values)  # type: ignore[arg-type]
    for recipe, said in (
        (lambda: replace(RECIPE, codec="zip"), "codec 'zip': choose from compact, fast"),
        (lambda: replace(RECIPE, shard_size=0), "shard size 0: give a whole number from 1"),
        (lambda: replace(RECIPE, passes=("x",)), "pass 'x': choose from mask, depth, normal"),
        (lambda: Uniform(-1, "train"), "seed -1"),
        (lambda: Uniform(0, "../x"), "split '../x': give a name of letters"),
        (lambda: Uniform(0, ""), "split '': give a name of letters"),
        (lambda: discs.settings(size=0), "size 0: give a whole number of pixels from 1"),
        (lambda: discs.settings(quality="high"), "quality high: the pictures of this world have a size, and nothing"),
        (lambda: World("bare", discs.factors).settings(), "world bare: has neither a picture nor a scene"),
    ):
        with pytest.raises(Impossible, match=said):
            recipe()
