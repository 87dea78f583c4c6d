"""Exact positives: rendered by the same stage with the same guarantees, and as far from their anchors as wished for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ident.benchmark.pairs.positives import DrawnPositives
from ident.benchmark.pairs.samplers import NearestSampler, RenderedSampler, open_sampler
from ident.render import plugins
from ident.render.errors import Failed, Impossible
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from ident.render.store.verify import verify
from ident.render.worlds.threedident import WORLD, place
from tests.conftest import Run
from tests.render.engines import RECIPE, painting
from tests.render.store.test_dataset import paint

PAIRED = replace(RECIPE, positives=DrawnPositives("laplace(0.05)", 0))


def test_a_positive_depends_on_its_image_alone() -> None:
    drawn, raw = DrawnPositives("laplace(0.05)", 3), RECIPE.source(0, 50)
    whole = drawn(0, raw)
    assert np.array_equal(whole[20:30], drawn(20, raw[20:30]))
    assert not np.array_equal(whole, DrawnPositives("laplace(0.05)", 4)(0, raw))
    assert whole.dtype == np.float32
    assert np.abs(whole).max() <= 1


def test_they_lie_in_the_shards(tmp_path: Path) -> None:
    paint(tmp_path / "d", PAIRED, 20)
    data = Dataset(tmp_path / "d")
    wanted = DrawnPositives("laplace(0.05)", 0)(0, data.latents)
    assert np.array_equal(data.positive_latents, wanted)
    images = np.stack([painting(place(values), 16) for values in WORLD.values(wanted)])
    assert np.array_equal(data.positives(range(20)), images)
    assert verify(str(tmp_path / "d"), done=lambda *_: None).wrong == ()
    said = json.loads((tmp_path / "d" / "dataset.json").read_text())
    assert said["positives"] == {"conditional": "laplace(0.05)", "seed": 0}
    paint(tmp_path / "without", n=20)
    assert "positives" not in json.loads((tmp_path / "without" / "dataset.json").read_text())
    assert data.manifest.moments() == Dataset(tmp_path / "without").manifest.moments()
    with pytest.raises(Impossible, match="has no positives; there are images"):
        Dataset(tmp_path / "without").positives([0])


NONSENSE = [
    (3, "not iterable"),
    ({"seed": 0}, "no 'conditional'"),
    ({"conditional": "a\nb", "seed": 0}, r"positives.conditional is 'a\\nb'"),
    ({"conditional": "x", "seed": -1}, "positives.seed is -1"),
    ({"conditional": "x", "seed": 0, "code": 3}, "positives.code is 3"),
    ({"conditional": "x", "seed": 0, "\x1b]0;owned\x07": 1}, r"unknown in positives: '\\x1b\]0;owned\\x07'"),
]


@pytest.mark.parametrize(("positives", "says"), NONSENSE)
def test_a_manifest_that_says_nonsense_of_them(tmp_path: Path, positives: object, says: str) -> None:
    paint(tmp_path / "d", PAIRED, 20)
    file = tmp_path / "d" / "dataset.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"positives": positives}))
    with pytest.raises(Failed, match=rf"not a dataset\.json that this version of ident understands \(.*{says}"):
        Manifest.read(Storage(str(tmp_path / "d")))


def test_pairs_are_rendered_ones_where_there_are_such(tmp_path: Path) -> None:
    paint(tmp_path / "d", PAIRED, 100)
    data = Dataset(tmp_path / "d")

    def kind(conditional: str | None, **more: object) -> type:
        return type(open_sampler(data, conditional, **{"space": "box", "seed": 0, **more}))  # type: ignore[arg-type]

    assert kind(None) is kind("laplace") is kind("laplace", pairs="rendered") is RenderedSampler
    assert kind("laplace", pairs="nearest") is kind("normal") is kind("laplace", subset=("x",)) is NearestSampler
    for conditional, more, said in (
        ("normal", {"pairs": "rendered"}, r"its positives follow laplace\(0.05\), not normal"),
        (None, {"pairs": "rendered", "subset": ("x",)}, "leave out --latents"),
        (None, {"pairs": "nearest"}, "conditional: give one"),
    ):
        with pytest.raises(Impossible, match=said):
            kind(conditional, **more)
    pairs = open_sampler(data, None, space="box", seed=0).draw(0, 50)
    assert np.array_equal(pairs.positive_latents, data.positive_latents[pairs.anchor])
    paint(tmp_path / "without", n=20)
    with pytest.raises(Impossible, match="was rendered without positives"):
        open_sampler(Dataset(tmp_path / "without"), None, space="box", seed=0, pairs="rendered")


@pytest.mark.slow
def test_the_commands(ident: Run, tmp_path: Path) -> None:
    small = ("--n", 48, "--size", 64, "--quality", "draft", "--shard-size", 16)
    arguments = ("render", *small, "--positives", "laplace(0.3)")
    done = ident(*arguments, "--out", "one", "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert ident(*arguments, "--out", "two").returncode == 0
    shards = [[path.read_bytes() for path in sorted((tmp_path / name / "shards").iterdir())] for name in ("one", "two")]
    assert shards[0] == shards[1]
    done = ident("verify", "one", "--rerender", 4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "positives conditional laplace(0.3), seed 0" in " ".join(ident("info", "one").stdout.split())
    done = ident("pairs", "one", "--n", 2000, "--show", 4, "--plot")
    assert "The positives were rendered for their anchors." in done.stdout
    assert (tmp_path / "pairs-images.png").exists()
    done = ident(*arguments[:-1], "laplace(0.2)", "--out", "one")
    assert done.returncode == 2
    assert 'positives.conditional is "laplace(0.3)", not "laplace(0.2)"' in done.stderr
    done = ident("render", "--n", 8, "--out", "three", "--positives", "vmf(3)")
    assert (done.returncode, "vmf(3): lives on a sphere" in done.stderr) == (2, True)


def test_positives_of_a_users_own_conditional(tmp_path: Path) -> None:
    mine = "tests.benchmark.latents.test_distributions:Uneven(0.25)"
    drawn = DrawnPositives(mine, 0)
    assert drawn.describe() == {"conditional": mine, "code": plugins.digest(mine.partition("(")[0]), "seed": 0}
    paint(tmp_path / "d", replace(RECIPE, positives=drawn), 24)
    data = Dataset(tmp_path / "d")
    moved = np.abs(data.positive_latents - data.latents)
    assert np.allclose(moved.max(1), 0.25, atol=1e-6)
    assert type(open_sampler(data, mine, space="box", seed=0)) is RenderedSampler
    with pytest.raises(Impossible, match="is a user's own, which is not loaded here"):
        open_sampler(data, None, space="box", seed=0)
