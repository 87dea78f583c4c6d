"""Real Blender: reproducible bytes, passes against geometry, errors in one line."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ident.render.blender import engine
from ident.render.blender.boxes import Window, object_points, spotlight_rim, window_of
from ident.render.blender.engine import SCENE_FILE, Engine, to_srgb
from ident.render.blender.settings import AREA, PRESETS, SPOT, SUN, Exposure, Quality, Settings, plain
from ident.render.errors import Failed, Impossible
from ident.render.stage.rerender import psnr
from ident.render.worlds.threedident import WORLD, Scene, place

DRAFT = PRESETS["draft"]

IN_A_NEW_PROCESS = """
import hashlib
from ident.render.worlds.threedident import WORLD
from ident.render.blender.engine import Engine
from ident.render.blender.settings import PRESETS, Settings
from ident.render.worlds.threedident import WORLD, place
values = WORLD.values(WORLD.draw(seed=3, split="test", start=0, n=8))
engine = Engine(Settings(size=64, quality=PRESETS["draft"]))
print(*(hashlib.sha256(engine.image(place(values[i])).tobytes()).hexdigest() for i in (5, 0)))
"""


def test_the_same_scene_gives_the_same_bytes(scenes: list[Scene]) -> None:
    engine = Engine(Settings(size=64, quality=DRAFT))
    first = [engine.image(scene) for scene in scenes]
    assert len({image.tobytes() for image in first}) == len(scenes)
    engine.passes(scenes[3], ("mask", "depth", "normal"))
    backwards = [engine.image(scene) for scene in scenes[::-1]][::-1]
    assert all(np.array_equal(a, b) for a, b in zip(first, backwards, strict=True))
    Engine(Settings(size=32, quality=plain(2))).image(scenes[0])
    again = Engine(Settings(size=64, quality=DRAFT))
    assert np.array_equal(again.image(scenes[7]), first[7])
    done = subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [hashlib.sha256(first[i].tobytes()).hexdigest() for i in (5, 0)]


def test_an_engine_ends_the_one_before_it(scenes: list[Scene]) -> None:
    first, second = Engine(Settings(size=16, quality=DRAFT)), Engine(Settings(size=16, quality=DRAFT))
    second.image(scenes[0])
    with pytest.raises(Failed, match="ended when another was made"):
        first.image(scenes[0])


def test_images_are_what_the_contract_says(scenes: list[Scene], capfd: pytest.CaptureFixture[str]) -> None:
    image = Engine(Settings(size=50, quality=DRAFT)).image(scenes[0])
    assert image.shape == (50, 50, 3)
    assert image.dtype == np.uint8
    assert capfd.readouterr().out == ""


def test_light_by_light_is_the_same_image_as_all_at_once(scenes: list[Scene]) -> None:
    by_light = Quality(tuple(Exposure((light,), 48, 16) for light in (SUN, AREA, SPOT)), denoise=False)
    split = [Engine(Settings(size=48, quality=by_light)).image(scene) for scene in scenes[:2]]
    whole = [Engine(Settings(size=48, quality=plain(256))).image(scene) for scene in scenes[:2]]
    for ours, theirs in zip(split, whole, strict=True):
        assert psnr(ours, theirs) > 38
        assert abs(ours.astype(float).mean() - theirs.mean()) < 0.3


def test_better_presets_come_nearer_to_the_converged_image(scenes: list[Scene]) -> None:
    converged = Quality(tuple(Exposure((light,), 160) for light in (SUN, AREA, SPOT)), denoise=False)
    truth = [Engine(Settings(size=64, quality=converged)).image(scene) for scene in scenes[:3]]
    scores = []
    for name in ("draft", "balanced", "high"):
        engine = Engine(Settings(size=64, quality=PRESETS[name]))
        scores.append(np.mean([psnr(engine.image(s), t) for s, t in zip(scenes, truth, strict=False)]))
    assert scores[0] > 34
    assert scores[0] + 1 < scores[1] < scores[2] - 1


def test_masks_lie_in_the_window_and_end_where_it_ends(scenes: list[Scene]) -> None:
    engine = Engine(Settings(size=96))
    for scene in scenes:
        rows, columns = np.nonzero(engine.passes(scene, ["mask"])["mask"] == 2)
        window = window_of(object_points(scene, engine._setup.vertices), engine._setup.camera, 96)
        if window is None:
            assert not len(rows)
            continue
        assert window.left <= columns.min() <= columns.max() < window.right
        assert window.top <= rows.min() <= rows.max() < window.bottom
        assert window.right - window.left <= columns.max() - columns.min() + 8
        assert window.bottom - window.top <= rows.max() - rows.min() + 8


def test_nothing_that_the_spotlight_lights_is_left_out() -> None:
    engine, windows = Engine(Settings(size=64)), list[Window]()
    raw = np.concatenate([WORLD.draw(seed=5, split="test", start=0, n=20), np.eye(10), -np.eye(10)])
    for values in WORLD.values(raw):
        scene = place(values)
        engine._place(scene)
        lit = engine._render(lights=(SPOT,), samples=8, seed=0, window=engine._setup.whole)["Combined"][..., :3]
        cone = engine._spotlight.data
        rim = spotlight_rim(scene, cone.spot_size / 2, cone.shadow_soft_size)
        window = window_of(
            np.concatenate([object_points(scene, engine._setup.vertices), rim]), engine._setup.camera, 64
        )
        assert window is not None
        windows.append(window)
        assert lit[window.top : window.bottom, window.left : window.right].max() > 0
        lit[window.top : window.bottom, window.left : window.right] = 0
        assert lit.max() == 0
    assert np.mean([window.area for window in windows]) < 0.6 * 64**2


@pytest.mark.parametrize("light", [SUN, AREA, SPOT])
def test_beyond_what_changes_the_bare_ground_is_seen(light: str) -> None:
    engine, shares = Engine(Settings(size=64, quality=DRAFT)), []
    raw = np.concatenate([WORLD.draw(seed=5, split="test", start=0, n=20), np.eye(10), -np.eye(10)])
    for values in WORLD.values(raw):
        scene = place(values)
        engine._place(scene)
        images = []
        for engine._object.hide_render in (False, True):
            taken = engine._render(lights=(light,), samples=8, seed=0, window=engine._setup.whole)["Combined"]
            images.append(taken[..., :3])
        changed = np.zeros((64, 64), bool)
        for window, _ in engine._setup.changed(Exposure((light,), 1, 1), scene):
            if window:
                changed[window.top : window.bottom, window.left : window.right] = True
        engine._object.hide_render = False
        ground = 0.0 if light == SPOT else engine._grounds[light].under(scene.ground_color)
        assert np.array_equal(images[0][~changed], images[1][~changed])  # the same samples, to the last bit
        assert np.abs(images[0] - ground)[~changed].max(initial=0) < 2e-3
        shares.append(changed.mean())
    assert np.mean(shares) < 0.7


def test_the_known_ground_changes_no_image_but_by_its_noise(scenes: list[Scene]) -> None:
    exposures = tuple(Exposure((light,), 64, 64) for light in (SUN, AREA, SPOT))
    for scene in scenes[:3]:
        known, rendered = (
            Engine(Settings(size=64, quality=Quality(exposures, denoise=False, known_ground=known))).image(scene)
            for known in (True, False)
        )
        assert psnr(known, rendered) > 45
        assert abs(known.astype(float).mean() - rendered.mean()) < 0.1


def test_an_object_out_of_the_image() -> None:
    away = place([0, 40, 0, 0, 0, 0, 0, 0, 0, 0])
    engine = Engine(Settings(size=32, quality=DRAFT))
    assert (engine.passes(away, ["mask"])["mask"] == 1).all()
    assert engine.image(away).mean() > 10


def test_passes_against_rays_and_a_plane(scenes: list[Scene]) -> None:
    size = 64
    passes = Engine(Settings(size=size)).passes(scenes[0], ("mask", "depth", "normal"))
    mask, depth, normal = passes["mask"], passes["depth"], passes["normal"]
    assert [array.dtype for array in (mask, depth, normal)] == [np.uint8, np.float32, np.float32]
    assert [array.shape for array in (mask, depth, normal)] == [(size, size), (size, size), (size, size, 3)]
    assert set(np.unique(mask)) == {1, 2}
    ground = mask == 1
    assert np.allclose(normal[ground], (0, 0, 1), atol=1e-5)
    assert np.allclose(np.linalg.norm(normal[~ground], axis=1), 1, atol=1e-4)

    # A pixel's ray in camera space is (x, y, -1); the camera stands at (8, 0, 8) and looks down 45 degrees.
    centres = (np.arange(size) + 0.5) / size - 0.5
    x, y = np.meshgrid(centres * 50 / 35, -centres * 50 / 35)
    down = -np.sqrt(0.5) * (y - 1)  # how far a ray falls per metre along the axis
    assert np.allclose(depth[ground], ((8 + 4.4421) / down)[ground], rtol=1e-3)
    assert (depth[~ground] < ((8 + 4.4421) / down)[~ground]).all()
    assert x.shape == depth.shape


def test_object_and_image_agree_left_right_up_and_down() -> None:
    engine = Engine(Settings(size=32))
    middle = {}
    for name, index, value in (("right", 1, 3), ("left", 1, -3), ("up", 2, 3), ("down", 2, -3)):
        values = np.zeros(10)
        values[index] = value
        rows, columns = np.nonzero(engine.passes(place(values), ["mask"])["mask"] == 2)
        middle[name] = (rows.mean(), columns.mean())
    assert middle["right"][1] > 16 > middle["left"][1]
    assert middle["up"][0] < middle["down"][0]


def test_srgb_against_the_formula_and_the_ends() -> None:
    linear = np.array([-1, 0, 0.001, 0.0031308, 0.01, 0.18, 0.5, 1, 7], np.float32)
    expected = [
        0 if v <= 0 else 12.92 * v if v <= 0.0031308 else 1.055 * min(v, 1) ** (1 / 2.4) - 0.055 for v in linear
    ]
    assert to_srgb(linear).tolist() == [round(255 * value) for value in expected]


def test_an_unknown_pass() -> None:
    with pytest.raises(Impossible, match="'albedo': choose from mask, depth, normal"):
        Engine(Settings(size=16)).passes(place(np.zeros(10)), ["albedo"])


@pytest.mark.skipif(bool(engine.gpus()), reason="there is a GPU here")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(Impossible, match=r"1 GPUs asked for, Cycles sees 0 .*OPTIX, CUDA, HIP, ONEAPI"):
        Engine(Settings(size=16, gpus=1))


def copy_of_the_scene(folder: Path) -> Path:
    for path in (SCENE_FILE, SCENE_FILE.with_suffix(".sha256")):
        shutil.copy(path, folder)
    return folder / SCENE_FILE.name


def test_a_damaged_scene_file(tmp_path: Path) -> None:
    blend = copy_of_the_scene(tmp_path)
    Engine(Settings(size=16), blend=blend)
    whole = blend.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:1000] + b"\0" + whole[1001:]):
        blend.write_bytes(damaged)
        with pytest.raises(Failed, match=r"3dident.blend is damaged \(sha256"):
            Engine(Settings(size=16), blend=blend)
    blend.unlink()
    with pytest.raises(Failed, match=r"3dident\.blend cannot be read"):
        Engine(Settings(size=16), blend=blend)


BUSY = """
import os, time
cores = os.sched_getaffinity(0)
from ident.render.blender.engine import Engine
from ident.render.worlds.threedident import WORLD, place
from ident.render.blender.settings import Settings, plain
engine, scene = Engine(Settings(size=128, quality=plain(24))), place([0] * 10)
engine.image(scene)
wall, cpu = time.perf_counter(), time.process_time()
engine.image(scene)
print((time.process_time() - cpu) / (time.perf_counter() - wall), os.sched_getaffinity(0) == cores)
"""


def test_an_engine_is_one_thread_and_leaves_the_cores_alone() -> None:
    done = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, text=True, check=True)
    busy, same_cores = done.stdout.split()
    assert float(busy) < 1.3
    assert same_cores == "True"


@pytest.mark.slow
def test_a_thousand_images_leak_nothing() -> None:
    code = """
from ident.render.worlds.threedident import WORLD
from ident.render.blender.engine import Engine
from ident.render.blender.settings import PRESETS, Settings
from ident.render.worlds.threedident import WORLD, place

def resident() -> int:
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

values = WORLD.values(WORLD.draw(seed=0, split="train", start=0, n=1000))
engine, memory = Engine(Settings(size=64, quality=PRESETS["draft"])), []
for value in values:
    engine.image(place(value))
    memory.append(resident())
print(memory[99], memory[999])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    early, late = map(float, done.stdout.split())
    assert late < 1.05 * early
