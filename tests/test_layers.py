"""What each room of the house may import, of ident's own rooms and of other packages; and what reading costs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).parent.parent
TOP = ("render", "benchmark", "cli", "blend_assets")


@dataclass(frozen=True)
class Room:
    """What may be imported in a folder beside itself and the standard library, each by names between spaces."""

    ours: str
    """Folders, without those in them, or single modules."""
    others: str


RENDER = "render render/worlds render/blender render/stage render/store render/exchange render/exchange/layouts"
BENCHMARK = (
    "benchmark benchmark/latents benchmark/sources benchmark/pairs benchmark/models benchmark/losses "
    "benchmark/objectives benchmark/metrics benchmark/training benchmark/suites benchmark/report"
)

ROOMS: Mapping[str, Room] = MappingProxyType(
    {
        "render": Room("", "PIL numpy"),
        "render/worlds": Room("render", "PIL numpy"),
        "render/blender": Room("render render/worlds", "bpy cycles numpy scipy"),
        # Settings say how images are rendered, as data, and load no Blender.
        "render/store": Room(
            "render render/worlds render/blender/settings", "fsspec h5py numpy urllib3 webp zstandard"
        ),
        # The gallery makes figures of what the pool renders.
        "render/stage": Room("render render/worlds render/blender render/store", "PIL numpy ray"),
        "render/exchange": Room(
            "render render/worlds render/blender/settings render/store render/exchange/layouts", "PIL numpy"
        ),
        "render/exchange/layouts": Room("render render/worlds render/store", "numpy pyarrow"),
        "benchmark": Room("render", ""),
        "benchmark/latents": Room("render benchmark", "numpy torch"),
        "benchmark/sources": Room(
            "render render/worlds render/store render/exchange/cifar10 render/exchange/digits render/exchange/folders "
            "render/exchange/masks render/exchange/tracks benchmark benchmark/latents benchmark/training/seeds",
            "PIL numpy torch",
        ),
        "benchmark/pairs": Room(
            "render render/worlds render/store benchmark benchmark/latents benchmark/sources benchmark/training/seeds "
            "benchmark/training/distributed benchmark/training/schedule",
            "faiss h5py matplotlib numpy scipy torch",
        ),
        "benchmark/models": Room("render benchmark benchmark/latents", "numpy torch torchvision"),
        "benchmark/losses": Room("render benchmark benchmark/latents", "numba numpy torch"),
        "benchmark/objectives": Room(
            "render benchmark benchmark/latents benchmark/models benchmark/losses benchmark/pairs/batch "
            "benchmark/training/distributed benchmark/training/seeds",
            "numpy torch",
        ),
        "benchmark/metrics": Room("render render/worlds/factors render/store benchmark", "numba numpy scipy sklearn"),
        "benchmark/training": Room("render render/store benchmark benchmark/objectives", "numpy torch"),
        "benchmark/suites": Room(
            RENDER + " " + BENCHMARK.removesuffix(" benchmark/report"),
            "PIL numpy ray torch",
        ),
        "benchmark/report": Room(
            "render render/store render/worlds/factors benchmark benchmark/latents/notation benchmark/metrics "
            "benchmark/suites",
            "PIL jinja2 matplotlib numpy",
        ),
        "cli": Room(f"{RENDER} {BENCHMARK}", "click rich"),
        "blend_assets": Room("render render/worlds", "bpy click numpy"),  # its generator is a command of its own
    }
)


def is_module(name: str) -> bool:
    """Whether ident has a module or a package of this name."""
    path = ROOT.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The modules that a source imports, with the line: also in functions, and by `import_module` of a text."""
    package = ["ident", *Path(path).parent.parts]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                parents = package[: len(package) + 1 - node.level] if node.level else []
                module = ".".join([*parents, *filter(None, [node.module])])
                for alias in node.names:
                    submodule = f"{module}.{alias.name}"
                    yield node.lineno, submodule if module.startswith("ident") and is_module(submodule) else module
            case ast.Call(
                func=ast.Name(id=("import_module" | "__import__")) | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def offences(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The modules that a source may not import, and of each the file, the line and the rule."""
    folder = Path(path).parent.as_posix()
    room = ROOMS[folder]
    for line, name in imports(path, text):
        first, *rest = name.split(".")
        if first == "ident":
            place = "/".join(rest)
            home = place if (ROOT / place).is_dir() else place.rpartition("/")[0]
            allowed, of = {folder, *room.ours.split()}, "of ident"
            wrong = not {place, home} & allowed
        else:
            allowed, of = set(room.others.split()), "of other packages"
            wrong = first not in allowed | sys.stdlib_module_names
        if wrong:
            may = ", ".join(sorted(allowed)) or "nothing"
            yield (
                (name if first == "ident" else first),
                f"{path}:{line}: imports {name}; {folder} may import, {of}, {may}",
            )


SOURCES = sorted(path.relative_to(ROOT).as_posix() for top in TOP for path in (ROOT / top).rglob("*.py"))


def test_every_folder_has_a_rule() -> None:
    assert {Path(source).parent.as_posix() for source in SOURCES} <= set(ROOMS)


@pytest.mark.parametrize("folder", ROOMS)
def test_a_room_imports_what_it_may(folder: str) -> None:
    lines = [
        line
        for source in SOURCES
        if Path(source).parent.as_posix() == folder
        for _, line in offences(source, (ROOT / source).read_text())
    ]
    assert not lines, "\n".join(["", *lines])


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "render/store/shards.py",
            "import h5py\nimport torch\n",
            "render/store/shards.py:2: imports torch; render/store may import, of other packages, fsspec, h5py",
        ),
        (
            "render/stage/worker.py",
            "def blender():\n    import bpy.types\n",
            "render/stage/worker.py:2: imports bpy.types; render/stage may import, of other packages, PIL, numpy, ray",
        ),
        (
            "render/worlds/threedident.py",
            "from importlib import import_module\nimport_module('bpy')\n",
            "render/worlds/threedident.py:2: imports bpy; render/worlds may import, of other packages, PIL, numpy",
        ),
        (
            "render/store/dataset.py",
            "from ident.benchmark import registry\n",
            "render/store/dataset.py:1: imports ident.benchmark.registry; render/store may import, of ident, render, ",
        ),
        (
            "render/exchange/push.py",
            "from ..stage import stage\n",
            "render/exchange/push.py:1: imports ident.render.stage.stage; render/exchange may import, of ident, render",
        ),
        (
            "render/store/manifest.py",
            "if TYPE_CHECKING:\n    from ident.render.blender.engine import Engine\n",
            "render/store/manifest.py:2: imports ident.render.blender.engine; render/store may import, of ident, ",
        ),
        ("benchmark/metrics/scores.py", "import ident.cli\n", "benchmark/metrics/scores.py:1: imports ident.cli; "),
        ("benchmark/report/page.py", "import rich.table\n", "benchmark/report/page.py:1: imports rich.table; "),
        ("benchmark/suites/runner.py", "import faiss\n", "benchmark/suites/runner.py:1: imports faiss; "),
    ],
)
def test_what_may_not_be_imported_is_named(path: str, text: str, said: str) -> None:
    (line,) = (line for _, line in offences(path, text))
    assert line.startswith(said)


NAMED = re.compile(r"from (ident(?:\.\w+)*) import (\w+(?:, \w+)*)")


def has(module: str, name: str) -> bool:
    """Whether a module of ident, or a package, has a name."""
    path = ROOT.joinpath(*module.split(".")[1:])
    if is_module(f"{module}.{name}"):
        return True
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = list(ast.walk(ast.parse(file.read_text()))) if file.is_file() else []
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.alias)}
    return name in defined | {node.id for node in nodes if isinstance(node, ast.Name)}


@pytest.mark.parametrize("kind", ["*.py", "*.md"])
def test_what_texts_import_is_there(kind: str) -> None:
    """Also in the README, in documents, and in the code that is given to other processes as a text."""
    paths = [path for path in ROOT.rglob(kind) if not {".venv", "build"} & set(path.parts)]
    missing = [
        f"{path.relative_to(ROOT)}: from {module} import {name}"
        for path in paths
        for module, names in NAMED.findall(path.read_text())
        for name in names.split(", ")
        if module != "ident" and not has(module, name)
    ]
    assert not missing, "\n".join(["", *missing])


HEAVY = ("torch", "ray", "faiss", "bpy")


def loaded(*modules: str) -> set[str]:
    """What of HEAVY a new process loads for modules of ident."""
    code = f"import sys, {', '.join(modules)}; print(*set({HEAVY!r}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "folder",
    [
        "render/worlds",
        "render/store",
        "render/exchange",
        "benchmark/metrics",
        "benchmark/report",
        "cli",
    ],
)
def test_readers_need_neither_torch_nor_ray_nor_faiss_nor_bpy(folder: str) -> None:
    names = [source.removesuffix(".py").replace("/", ".") for source in SOURCES if source.startswith(f"{folder}/")]
    modules = [f"ident.{name.removesuffix('.__init__')}" for name in names if not name.endswith("__main__")]
    assert loaded(*modules) == set()


def cpu(*arguments: str) -> float:
    """Seconds of a core that Python takes, at the best of several times."""

    def once() -> float:
        process = subprocess.Popen([sys.executable, "-P", *arguments], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    return min(once() for _ in range(5))


@pytest.mark.parametrize(
    ("what", "most"),
    [
        (("-m", "ident.cli", "--help"), 10),
        (("-c", "import ident.render.store"), 30),
        (("-c", "import ident.benchmark.metrics"), 30),
    ],
)
def test_what_is_typed_often_starts_soon(what: tuple[str, ...], most: float) -> None:
    """Beside a bare start of Python, on whatever machine; `make speed WHAT=imports` has the seconds."""
    assert cpu(*what) < most * cpu("-c", "pass")
