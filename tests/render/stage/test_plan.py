"""What is there already is taken up, or left alone: over releases, forced runs and begun imports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ident.render.blender.settings import FORMER, PRESETS, Quality, Settings, preset
from ident.render.errors import Failed, Impossible
from ident.render.stage import plan as planning
from ident.render.stage.plan import TRIAL, Plan, estimate, going_on, take_up
from ident.render.stage.pool import frames
from ident.render.store import web
from ident.render.store.inventory import clear
from ident.render.store.storage import Storage
from ident.render.store.verify import verify
from ident.render.threads import cores
from ident.render.worlds.threedident import WORLD
from tests.render.engines import RECIPE, Painter
from tests.render.store.test_dataset import N, paint


def plan(folder: Path, **changes: Any) -> Plan:
    return replace(Plan(Storage(str(folder)), RECIPE, N, workers=2, engine=Painter), **changes)


def test_a_release_of_ident_changes_no_dataset(tmp_path: Path) -> None:
    paint(tmp_path / "d")
    listed = tmp_path / "d" / "dataset.json"
    made = json.loads(listed.read_text())
    made["render"]["ident"] = "0.0.1"
    listed.write_text(json.dumps(made))
    assert sorted(take_up(plan(tmp_path / "d"), force=False) or {}) == [0, 1, 2]
    assert verify(str(tmp_path / "d"), done=lambda *_: None).wrong == ()
    made["render"]["bpy"] = "4.4.0"
    listed.write_text(json.dumps(made))
    with pytest.raises(Impossible, match=r'another dataset \(render\.bpy is "4\.4\.0", not '):
        take_up(plan(tmp_path / "d"), force=False)


def test_shards_are_as_large_as_those_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def size(n: int, *, place: str = str(tmp_path / "d"), force: bool = False, **changes: Any) -> int:
        return going_on(Storage(place), replace(RECIPE, **changes), n, force=force).shard_size

    assert (size(20), size(64_000), size(20, force=True)) == (16, 1000, 16)
    paint(tmp_path / "d")
    assert (size(64_000), size(64_000, force=True)) == (8, 8)
    assert (size(64_000, force=True, codec="fast"), size(N - 1, force=True)) == (1000, 16)
    (tmp_path / "d" / "dataset.json").write_text("half")
    with pytest.raises(Failed, match=r"not JSON, or cut short .*: give --force to make the dataset anew"):
        size(20)
    assert size(20, force=True) == 16
    monkeypatch.setattr(web, "_open", lambda *_: pytest.fail("the server is asked"))
    with pytest.raises(Impossible, match="nothing that lasts can be written there"):
        size(20, place="http://127.0.0.1:9/d")


def test_a_dataset_that_was_begun_with_an_earlier_preset_goes_on_with_it(tmp_path: Path) -> None:
    def quality(name: str, *, force: bool = False) -> object:
        recipe = replace(RECIPE, settings=Settings(16, preset(name, 16)))
        settings = going_on(Storage(str(tmp_path / "d")), recipe, N, force=force).settings
        assert isinstance(settings, Settings)
        return settings.quality

    assert quality("draft") == preset("draft", 16)
    paint(tmp_path / "d", replace(RECIPE, settings=Settings(16, FORMER["draft"][0])))
    assert "known_ground" not in json.loads((tmp_path / "d" / "dataset.json").read_text())["render"]
    assert quality("draft") == FORMER["draft"][0]
    assert quality("draft", force=True) == preset("draft", 16)
    assert [quality(name) for name in ("balanced", "reference")] == [PRESETS["balanced"], PRESETS["reference"]]
    now = replace(RECIPE, settings=Settings(16, preset("draft", 16)))
    with pytest.raises(Impossible, match=r"render\.known_ground is null, not true"):
        take_up(plan(tmp_path / "d", recipe=now), force=False)


@pytest.mark.parametrize(("name", "quality"), [(name, quality) for name in FORMER for quality in FORMER[name]])
def test_every_earlier_preset_is_kept(name: str, quality: Quality) -> None:
    now, begun = Settings(224, PRESETS[name]), Settings(224, quality)
    assert now.as_begun(begun) == begun
    assert Settings(224, PRESETS["reference"]).as_begun(begun).quality == PRESETS["reference"]


def test_no_worker_shares_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="--workers 2 with --gpus 1: each has a GPU of its own; give fewer"):
        plan(tmp_path, gpus=1, workers=2)


def test_a_begun_import_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".parts").mkdir()
    (tmp_path / ".imported").write_text("{}")
    with pytest.raises(Impossible, match="an import was begun there; give --force"):
        take_up(plan(tmp_path), force=False)
    assert take_up(plan(tmp_path), force=True) is None
    clear(Storage(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_an_estimate_is_for_the_workers_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = plan(tmp_path / "d", n=10**5, workers=None)
    trial = list(frames(WORLD, many.recipe.settings, many.recipe.source(0, TRIAL * cores())))
    monkeypatch.setattr(planning, "frames", lambda *_: trial)  # both are told of the same images
    one, hundred = estimate(many, 1, force=False), estimate(many, 100, force=False)
    assert (one.workers, hundred.workers) == (1, 100)
    assert one.seconds == pytest.approx(100 * hundred.seconds)
    assert one.seconds > 0
    assert not (tmp_path / "d").exists()
