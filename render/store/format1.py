"""Format 1 of dataset.json, which knew one world: 3DIdent, in square images of red, green and blue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ident.render.checked import check_names, whole_number
from ident.render.store.codecs import CODECS, FAST
from ident.render.store.columns import IMAGES, POSITIVE_LATENTS, POSITIVES
from ident.render.worlds.threedident import WORLD

LATENTS = [
    {"name": factor.name, "meaning": factor.meaning, "unit": factor.unit, "scale": factor.scale}
    for factor in WORLD.factors
]
PASSES = {"mask": ([], "uint8"), "depth": ([], "float32"), "normal": ([3], "float32")}
RECIPE = ("size", "codec", "passes", "shard_size", "source", "render", "latents", "positives")
REST = ("format", "complete", "n", "mean", "sd", "shards")


def upgraded(described: Mapping[str, Any]) -> dict[str, Any]:
    """A dataset.json of format 1 as format 2 says it; what both have in common is checked by whoever reads that."""
    check_names(described, "dataset.json", (*RECIPE, *REST))
    return {**{name: described[name] for name in REST}, "format": 2, **upgraded_recipe(described)}


def upgraded_recipe(described: Mapping[str, Any]) -> dict[str, Any]:
    """The part of it that its shards have, too: how it was made."""
    size, codec, passes = whole_number(described["size"], "size", 16, 4096), described["codec"], described["passes"]
    if codec not in CODECS:
        raise ValueError(f"codec {codec!r}, not one of {', '.join(CODECS)}")
    for name in passes:
        if name not in PASSES:
            raise ValueError(f"pass {name!r}, not one of {', '.join(PASSES)}")
    if [name for name in PASSES if name in passes] != passes:
        raise ValueError(f"passes {passes!r}")
    if described["latents"] != LATENTS:
        raise ValueError(f"latents other than {', '.join(WORLD.names)}, with their units and scales")
    image = {"shape": [size, size, 3], "dtype": "uint8", "codec": codec}
    columns = [{"name": IMAGES, **image}]
    for name in passes:
        of_pixel, dtype = PASSES[name]
        columns.append({"name": name, "shape": [size, size, *of_pixel], "dtype": dtype, "codec": FAST})
    positives = described.get("positives")
    if positives is not None:
        latents = {"shape": [len(WORLD.factors)], "dtype": "float32", "codec": FAST}
        columns += [{"name": POSITIVES, **image}, {"name": POSITIVE_LATENTS, **latents}]
    render = described["render"]
    if render is not None and "size" in render:
        raise ValueError("unknown in render: 'size'")
    return {
        "shard_size": described["shard_size"],
        "world": WORLD.facts.describe(),
        "columns": columns,
        "source": described["source"],
        **({} if positives is None else {"positives": positives}),
        "render": render if render is None else {**render, "size": size},
    }


def former_recipe(described: Mapping[str, Any]) -> dict[str, Any] | None:
    """A recipe of format 2 as format 1 said it, by which a run that was begun then goes on; None if it could not."""
    if described["world"] != WORLD.facts.describe() or described["render"] is None:
        return None
    columns = {column["name"]: column for column in described["columns"]}
    positives = described.get("positives")
    return {
        "size": columns[IMAGES]["shape"][0],
        "codec": columns[IMAGES]["codec"],
        "passes": [name for name in columns if name in PASSES],
        "shard_size": described["shard_size"],
        "source": described["source"],
        "render": {name: value for name, value in described["render"].items() if name != "size"},
        "latents": LATENTS,
        **({} if positives is None else {"positives": positives}),
    }
