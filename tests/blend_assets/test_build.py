"""The committed scene file is what the generator makes, and what is published of the scene."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from ident.render.blender.engine import SCENE_FILE

DESCRIBE = Path(__file__).with_name("describe.py")


def describe(blend: Path, folder: Path) -> dict[str, Any]:
    out = folder / "scene.json"
    subprocess.run([sys.executable, str(DESCRIBE), str(blend), str(out)], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return describe(SCENE_FILE, tmp_path_factory.mktemp("committed"))


def test_the_generator_makes_the_committed_scene(tmp_path: Path, committed: dict[str, Any]) -> None:
    rebuilt = tmp_path / "rebuilt.blend"
    subprocess.run([sys.executable, "-m", "ident.blend_assets.build", str(rebuilt)], check=True, capture_output=True)
    assert rebuilt.with_suffix(".sha256").read_text().endswith("  rebuilt.blend\n")
    assert describe(rebuilt, tmp_path) == committed


@pytest.mark.parametrize(
    ("argument", "code", "says"),
    [
        ("--help", 0, "Build the scene file"),
        ("--out", 2, "No such option"),
        ("scene", 2, "scene: give a name that ends in .blend"),
        ("nowhere/scene.blend", 2, "nowhere: is no folder"),
    ],
)
def test_the_generator_has_a_command_line(tmp_path: Path, argument: str, code: int, says: str) -> None:
    command = [sys.executable, "-m", "ident.blend_assets.build", argument]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert says in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


def test_the_file_is_small_and_knows_no_machine() -> None:
    packed = SCENE_FILE.read_bytes()
    assert len(packed) < 500_000
    with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
        content = reader.read()
    assert content.startswith(b"BLENDER")
    for folder in (b"/root", b"/home", bytes(SCENE_FILE.parent)):
        assert folder not in content


def test_lights_camera_and_ground_are_the_published_ones(committed: dict[str, Any]) -> None:
    objects = committed["objects"]
    assert set(objects) == {"Object", "Ground", "Camera", "LightDynamic", "LightStatic", "Spotlight"}
    sun, area, spot = (objects[name]["data"] for name in ("LightDynamic", "LightStatic", "Spotlight"))
    assert (sun["type"], sun["energy"], sun["angle"]) == ("SUN", 0.5, 0.199337)
    assert (area["type"], area["shape"], area["size"]) == ("AREA", "SQUARE", 1)
    assert area["energy"] == pytest.approx(39.26991, abs=1e-4)
    assert (spot["energy"], spot["shadow_soft_size"], spot["use_soft_falloff"]) == (3000, 0.5, True)
    assert (spot["spot_size"], spot["spot_blend"]) == (pytest.approx(0.610865), pytest.approx(0.1))
    assert objects["Spotlight"]["tracks"] == [["TRACK_TO", "Object", "TRACK_NEGATIVE_Z", "UP_Y"]]
    assert objects["Ground"]["matrix"][2][3] == pytest.approx(-4.4421)
    looks = np.array(objects["Camera"]["matrix"])[:3]
    half = np.sqrt(0.5)
    assert np.allclose(looks, [[0, -half, half, 8], [1, 0, 0, 0], [0, half, half, 8]], atol=1e-6)
    assert committed["cycles"]["max_bounces"] == 0
    assert committed["world"]["nodes"]["Background"][1]["Strength"] == 0


def test_the_shader_is_the_published_one(committed: dict[str, Any]) -> None:
    """Followed from the output back: mix(mix(diffuse, velvet, Fresnel 1.4), glossy, Fresnel 1.2)."""
    nodes, links = (committed["groups"]["Surface"][key] for key in ("nodes", "links"))

    def behind(node: str, socket: str) -> str:
        return next(str(link[0]) for link in links if link[2:] == [node, socket])

    kinds = {name: node[0] for name, node in nodes.items()}
    outer = behind(next(name for name, kind in kinds.items() if kind == "NodeGroupOutput"), "Socket_1")
    inner = behind(outer, "Shader")
    diffuse, velvet, glossy = behind(inner, "Shader"), behind(inner, "Shader_001"), behind(outer, "Shader_001")
    assert kinds[diffuse] == "ShaderNodeBsdfDiffuse"
    assert nodes[diffuse][1]["Roughness"] == 0
    assert kinds[velvet] == "ShaderNodeBsdfSheen"
    assert (nodes[velvet][1]["Roughness"], nodes[velvet][2]["distribution"]) == (pytest.approx(0.6), "ASHIKHMIN")
    assert kinds[glossy] == "ShaderNodeBsdfAnisotropic"
    assert (nodes[glossy][1]["Roughness"], nodes[glossy][2]["distribution"]) == (pytest.approx(0.5916), "BECKMANN")
    assert nodes[glossy][1]["Color"] == pytest.approx([0.8, 0.8, 0.8, 1])
    raised = behind(behind(inner, "Fac"), "IOR")
    assert (kinds[raised], nodes[raised][2]["operation"]) == ("ShaderNodeMath", "ADD")
    assert nodes[raised][1]["Value_001"] == pytest.approx(0.2)
    assert kinds[behind(raised, "Value")] == kinds[behind(behind(outer, "Fac"), "IOR")] == "NodeGroupInput"
    for material in ("Object", "Ground"):
        group = next(n for n in committed["materials"][material]["nodes"].values() if n[0] == "ShaderNodeGroup")
        assert list(group[1].values()) == [pytest.approx(1.2)]
