"""Write all that matters in a .blend as JSON: describe.py SCENE.blend OUT.json."""

import json
import sys
from pathlib import Path
from typing import Any

import bpy

SIMPLE = {"BOOLEAN", "INT", "FLOAT", "STRING", "ENUM"}


def plain(value: Any) -> Any:
    """A value of Blender's as JSON holds it, floats to six places."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, bool | int | str) or value is None:
        return value
    try:
        return [plain(part) for part in value]
    except TypeError:
        return type(value).__name__


def values(thing: Any) -> dict[str, Any]:
    """The properties of a thing that are numbers or words."""
    names = [each.identifier for each in thing.bl_rna.properties if each.type in SIMPLE]
    return {name: plain(getattr(thing, name)) for name in names if "session" not in name and name != "filepath"}


def node(one: Any) -> list[Any]:
    """Kind, input values, and the choices that change what the node computes."""
    inputs = {socket.identifier: plain(getattr(socket, "default_value", None)) for socket in one.inputs}
    return [
        one.bl_idname,
        inputs,
        {key: getattr(one, key) for key in ("distribution", "operation") if hasattr(one, key)},
    ]


def tree(graph: Any) -> dict[str, Any]:
    """Nodes and links."""
    ends = [(a.from_node.name, a.from_socket.identifier, a.to_node.name, a.to_socket.identifier) for a in graph.links]
    return {"nodes": {one.name: node(one) for one in graph.nodes}, "links": sorted(ends)}


def thing(one: Any) -> dict[str, Any]:
    """An object: where it is and what it holds."""
    return {
        "type": one.type,
        "matrix": plain(one.matrix_world),
        "pass": one.pass_index,
        "data": values(one.data),
        "tracks": [(each.type, each.target.name, each.track_axis, each.up_axis) for each in one.constraints],
    }


def mesh(one: Any) -> dict[str, Any]:
    """A mesh, vertex for vertex."""
    return {
        "vertices": [plain(vertex.co) for vertex in one.vertices],
        "faces": [list(face.vertices) for face in one.polygons],
        "smooth": all(face.use_smooth for face in one.polygons),
    }


bpy.ops.wm.open_mainfile(filepath=sys.argv[1])
scene = bpy.context.scene
found = {
    "objects": {one.name: thing(one) for one in bpy.data.objects},
    "meshes": {one.name: mesh(one) for one in bpy.data.meshes},
    "groups": {one.name: tree(one) for one in bpy.data.node_groups},
    "materials": {one.name: tree(one.node_tree) for one in bpy.data.materials},
    "world": tree(scene.world.node_tree),
    "render": values(scene.render),
    "cycles": values(scene.cycles),
    "view": values(scene.view_settings) | values(scene.display_settings),
}
Path(sys.argv[2]).write_text(json.dumps(found))
