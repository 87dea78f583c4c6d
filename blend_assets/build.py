"""Build 3dident.blend, the published scene, from Newell's control points and the numbers below.

    python -m ident.blend_assets.build --help

The latents move and colour three of its objects: Object, Ground and Spotlight. Everything else stays as it is here.
"""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import bpy
import click

from ident.blend_assets import teapot
from ident.render.worlds.threedident import RISE

SCENE = Path(__file__).with_name("3dident.blend")

OBJECT_SCALE = 1.5
GROUND_SIDE = 1500.0


def surface_shader() -> bpy.types.NodeTree:
    """The shader of object and ground, as one node group: diffuse, velvet and glossy, mixed by two Fresnel terms.

    The colour is that of the object that wears it, so that a new colour recompiles no shader.
    """
    group = bpy.data.node_groups.new("Surface", "ShaderNodeTree")
    group.interface.new_socket("IOR", in_out="INPUT", socket_type="NodeSocketFloat").default_value = 1.2
    group.interface.new_socket("Shader", in_out="OUTPUT", socket_type="NodeSocketShader")

    def node(kind: str, **inputs: Any) -> Any:
        """A new node with its inputs: a socket is linked, anything else is a value."""
        made = group.nodes.new(kind)
        for name, value in inputs.items():
            if isinstance(value, bpy.types.NodeSocket):
                group.links.new(value, made.inputs[name])
            else:
                made.inputs[name].default_value = value
        return made

    ior = node("NodeGroupInput").outputs["IOR"]
    color = node("ShaderNodeObjectInfo").outputs["Color"]
    diffuse = node("ShaderNodeBsdfDiffuse", Color=color, Roughness=0.0)
    velvet = node("ShaderNodeBsdfSheen", Color=color, Roughness=0.6)
    velvet.distribution = "ASHIKHMIN"
    glossy = node("ShaderNodeBsdfAnisotropic", Color=(0.8, 0.8, 0.8, 1.0), Roughness=0.5916)
    glossy.distribution = "BECKMANN"
    raised = node("ShaderNodeMath")
    raised.operation = "ADD"
    group.links.new(ior, raised.inputs[0])
    raised.inputs[1].default_value = 0.2

    def mix(ior: bpy.types.NodeSocket, first: bpy.types.Node, second: bpy.types.Node) -> Any:
        made = node("ShaderNodeMixShader", Fac=node("ShaderNodeFresnel", IOR=ior).outputs["Fac"])
        group.links.new(first.outputs[0], made.inputs[1])
        group.links.new(second.outputs[0], made.inputs[2])
        return made

    base = mix(raised.outputs[0], diffuse, velvet)
    node("NodeGroupOutput", Shader=mix(ior, base, glossy).outputs[0])
    return group


def add(name: str, data: bpy.types.ID, location: tuple[float, float, float] = (0, 0, 0)) -> bpy.types.Object:
    """A new object in the scene."""
    made = bpy.data.objects.new(name, data)
    made.location = location
    bpy.context.scene.collection.objects.link(made)
    return made


def mesh(name: str, vertices: Any, faces: Any, shader: bpy.types.NodeTree) -> bpy.types.Mesh:
    """A smooth mesh with a material of its own around the shared shader."""
    made = bpy.data.meshes.new(name)
    made.from_pydata(vertices, [], faces)
    made.shade_smooth()
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    tree = material.node_tree
    tree.nodes.clear()
    surface = tree.nodes.new("ShaderNodeGroup")
    surface.node_tree = shader
    tree.links.new(surface.outputs["Shader"], tree.nodes.new("ShaderNodeOutputMaterial").inputs["Surface"])
    made.materials.append(material)
    return made


def light(name: str, kind: str, **numbers: Any) -> bpy.types.Light:
    made = bpy.data.lights.new(name, kind)
    for key, value in numbers.items():
        setattr(made, key, value)
    return made


def add_objects() -> None:
    shader = surface_shader()
    pot = teapot.build()
    half = GROUND_SIDE / 2
    corners = [(-half, -half, 0.0), (half, -half, 0.0), (half, half, 0.0), (-half, half, 0.0)]
    target = add("Object", mesh("Object", pot.vertices.tolist(), pot.faces, shader))
    target.scale = (OBJECT_SCALE,) * 3
    ground = add("Ground", mesh("Ground", corners, [(0, 1, 2, 3)], shader), (0, 0, -RISE))
    ground.pass_index, target.pass_index = 1, 2  # the values of the mask; the background is 0


def add_lights() -> None:
    """Sun and area light face straight down; the spotlight follows the object."""
    add("LightDynamic", light("LightDynamic", "SUN", energy=0.5, angle=0.199337))
    add("LightStatic", light("LightStatic", "AREA", shape="SQUARE", size=1.0, energy=39.26991), (0, 0, 7))
    cone = {"spot_size": 0.610865, "spot_blend": 0.1, "shadow_soft_size": 0.5, "use_soft_falloff": True}
    spotlight = add("Spotlight", light("Spotlight", "SPOT", energy=3000.0, **cone))
    track = spotlight.constraints.new("TRACK_TO")
    track.target = bpy.data.objects["Object"]
    track.track_axis, track.up_axis = "TRACK_NEGATIVE_Z", "UP_Y"

    world = bpy.data.worlds.new("World")
    world.use_nodes = True
    world.node_tree.nodes["Background"].inputs["Strength"].default_value = 0.0
    bpy.context.scene.world = world


def add_camera() -> None:
    """At (8, 0, 8), looking at the origin."""
    camera = bpy.data.cameras.new("Camera")
    camera.lens, camera.sensor_width, camera.sensor_fit = 35.0, 50.0, "AUTO"
    camera.clip_start, camera.clip_end = 0.1, 100.0
    bpy.context.scene.camera = add("Camera", camera, (8, 0, 8))
    bpy.context.scene.camera.rotation_euler = (math.pi / 4, 0, math.pi / 2)


def set_renderer() -> None:
    """Direct light only; the image is the sRGB curve of the linear colours and nothing else."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.render.resolution_x = scene.render.resolution_y = 224
    scene.render.resolution_percentage = 100
    scene.render.dither_intensity = 0.0
    scene.display_settings.display_device = "sRGB"
    scene.view_settings.view_transform, scene.view_settings.look = "Standard", "None"
    cycles = scene.cycles
    cycles.samples, cycles.sampling_pattern = 512, "BLUE_NOISE"
    cycles.use_auto_tile = False  # or large images pass through files
    cycles.max_bounces, cycles.transparent_max_bounces, cycles.blur_glossy = 0, 8, 2.0
    cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", 1.5
    cycles.use_light_tree = cycles.use_adaptive_sampling = cycles.use_denoising = False
    cycles.sample_clamp_direct = cycles.sample_clamp_indirect = 0.0


def build() -> None:
    """Make the scene in an empty Blender."""
    os.environ["HOME"] = "/"  # Blender keeps it in the file, as its file browser's folder
    bpy.ops.wm.read_factory_settings(use_empty=True)
    add_objects()
    add_lights()
    add_camera()
    set_renderer()


def save(path: Path) -> None:
    """Write the scene file, and beside it its sha256, which the engine checks before Blender reads the file."""
    build()
    bpy.ops.wm.save_as_mainfile(filepath=str(path.absolute()), compress=True, relative_remap=False)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".sha256").write_text(f"{digest}  {path.name}\n")


@click.command()
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False), default=SCENE)
def main(out: Path) -> None:
    """Build the scene file, and beside it its checksum.

    OUT ends in .blend.  [default: the file that this package renders]
    """
    if out.suffix != ".blend":
        raise click.BadParameter(f"{out}: give a name that ends in .blend", param_hint="OUT")
    if not out.absolute().parent.is_dir():
        raise click.BadParameter(f"{out.parent}: is no folder; make it first", param_hint="OUT")
    save(out)


if __name__ == "__main__":
    main()
