"""Hostile data: what runs code, leads elsewhere, asks for memory, lies, or would lose something on the way.

Each attack is a function that types commands in a field of its own and asserts what must hold. Of every command it must
hold that it ends by itself with a code that was expected, in little memory, with no traceback and no control character
in what it says, and that no foreign code ran.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import re
import resource
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import Any

import faiss
import h5py
import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from ident.benchmark.pairs import neighbours
from ident.render.store.dataset import Dataset
from ident.render.store.recipe import Uniform
from tests.processes import HANG, MARK, end, gone
from tests.render.engines import RECIPE
from tests.render.exchange.test_import_ import FILES, png, tar
from tests.render.store.test_dataset import WANTED, paint
from tests.render.store.test_manifest import HOSTILE as MANIFESTS
from tests.servers import serving

MEMORY, DISK = 3 * 2**29, 2**30
"""Bytes that a command may take, and that a file of it may have."""
OSC = "\x1b]0;owned\x07[/red]"
"""Sets a terminal's title; and a tag of rich's that ends nothing."""
TIER = """
samples = 16
supervised = { steps = 4, batch_size = 8, learning_rate = 1e-3 }
unsupervised = { steps = 100, batch_size = 64, learning_rate = 1e-3 }
"""
TABLE2 = ("bench", "--suite", "table2", "--tier", "tiny.toml", "--row", "normal-box-normal", "--device", "cpu")
TABLE4 = (
    "bench", "--data", "train", "--test-data", "test", "--row", "untrained", "--tier", "tiny.toml",
    "--encoder", "resnet18",
)  # fmt: skip
NUMBERS = count()


@dataclass
class Field:
    """An empty folder, and the command in it."""

    folder: Path
    chance: random.Random
    until: float
    """When the kills are to stop."""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.ran, self.mark = self.folder.with_suffix(".ran"), f"attack-{os.getpid()}-{next(NUMBERS)}"
        self.evil = f"open({str(self.ran)!r}, 'w').close()\n"  # code that says that it ran
        (self.folder / "tiny.toml").write_text(TIER)

    def start(self, *arguments: object, path: str = "") -> subprocess.Popen[str]:
        """Start `ident ARGUMENTS` as installed: Python itself does not look for modules in the current folder."""
        more = {"IDENT_CACHE": str(self.folder / "cache"), MARK: self.mark, "PATH": f"{path}:{os.environ['PATH']}"}
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("ident")), *map(str, arguments)],
            cwd=self.folder, env=os.environ | more, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (DISK, DISK)),
        )  # fmt: skip

    def ident(self, *arguments: object, codes: tuple[int, ...] = (0, 1, 2), path: str = "") -> str:
        """What `ident ARGUMENTS` says."""
        process, typed, until = (
            self.start(*arguments, path=path),
            " ".join(map(str, arguments)),
            time.monotonic() + HANG,
        )
        taken = 0

        def watch() -> None:
            nonlocal taken
            while not gone(process.pid):
                with suppress(OSError):
                    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
                    taken = max(taken, pages * resource.getpagesize())
                if taken > MEMORY or time.monotonic() > until:
                    process.kill()
                time.sleep(0.01)

        watcher = threading.Thread(target=watch)
        watcher.start()
        said = "".join(process.communicate())
        watcher.join()
        assert taken <= MEMORY, f"{typed}: took {taken >> 20} MB"
        self.check(typed, said)
        assert process.returncode in codes, f"{typed}: exit code {process.returncode}, said {said[-300:]!r}"
        return said

    def check(self, typed: str, said: str) -> None:
        """What must hold of every command."""
        assert "Traceback" not in said, f"{typed}: a traceback, {said[-300:]!r}"
        assert not re.search(r"[^\n\r\t -~\u00a0-\uffff]", said), f"{typed}: control characters, {said[-300:]!r}"
        assert "File too large" not in said, f"{typed}: a file of over {DISK >> 20} MB"
        assert not self.ran.exists(), f"{typed}: foreign code ran"

    def program(self, name: str) -> str:
        """Where a program of this name lies that says that it ran: for `path`."""
        (self.folder / name).write_text(f"#!/bin/sh\n: > '{self.ran}'\n")
        (self.folder / name).chmod(0o755)
        return str(self.folder)

    def paint(self, name: str, n: int = 48, **changes: Any) -> Path:
        """A dataset of painted images."""
        paint(self.folder / name, replace(RECIPE, **changes), n)
        return self.folder / name

    def paint_both(self) -> None:
        """A dataset to train on, and one to test on."""
        for split in ("train", "test"):
            self.paint(split, source=Uniform(0, split))


def sums(folder: Path) -> dict[str, str]:
    """The sha256 of all that lies in a folder, but for what is hidden."""
    names = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: sha256(path) for name, path in names.items() if not name.startswith(".")}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def code_in_the_folder(field: Field) -> None:
    """A dataset's folder has modules with the names of ours and of those that we use; a tier names one.

    Settings of matplotlib's there would have LaTeX started.
    """
    field.paint_both()
    for name in ("ident", "numpy", "torch", "ray", "bpy", "faiss", "json", "secrets", "sitecustomize", "mine"):
        (field.folder / f"{name}.py").write_text(field.evil)
    (field.folder / "matplotlibrc").write_text("text.usetex: True")
    description = field.folder / "train/dataset.json"
    description.write_text(description.read_text().replace('"device": "cpu"', '"device": "gpu"'))
    commands = [
        ("info", "train"), ("verify", "train", "--rerender", 1), ("doctor",),
        ("render", "--n", 2, "--size", 16, "--quality", "draft", "--gpus", 0),
        ("pairs", "train", "--conditional", "laplace", "--n", 10, "--plot"),
        (*TABLE2, "--kind", "identity", "--parallel"), TABLE4, ("show", "--grid", "1x1", "--size", 16, "--samples", 1),
    ]  # fmt: skip
    for typed in commands:
        field.ident(*typed, codes=(0, 1), path=field.program("latex"))
        end(field.mark)
    (field.folder / "tiny.toml").write_text('model = { encoder = "mine:encoder" }\n' + TIER)
    assert "mine" in field.ident(*TABLE4[:-2], codes=(2,))


def pickles(field: Field) -> None:
    """Code in files of weights and of arrays."""

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, (field.evil,)

    content = pickle.dumps(Evil())
    checkpoint = field.folder / "results/table2/tiny/normal-box-normal-unsupervised-seed0/checkpoint.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(hashlib.sha256(content).digest() + content)
    assert "is damaged" in field.ident(*TABLE2, "--kind", "unsupervised", codes=(1,))
    np.save(field.folder / "z.npy", np.array([Evil()] * 10), allow_pickle=True)
    field.ident("show", "--raw-latents", "z.npy", "--out", "d", codes=(2,))


def interpreters(field: Field) -> None:
    """PostScript by the name of a picture, and a Ghostscript that says that it ran."""
    field.paint_both()
    field.ident(*TABLE4, codes=(0,))
    (picture,) = field.folder.rglob("neighbours.png")
    picture.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 96 96\n%%EndComments\nshowpage\n%%EOF\n")
    assert "neighbours.png" in field.ident("report", codes=(0,), path=field.program("gs"))


def links(field: Field) -> str:
    """Every name that we write or clear in an output leads to somebody's files."""
    field.paint("data")
    (field.folder / "a.tar").write_bytes(tar(FILES).getvalue())
    theirs, folders = field.folder / "theirs", (".parts", "shards", "images", "table2", ".index")
    theirs.mkdir()
    commands: list[tuple[object, ...]] = [
        ("pull", "./data", "--out"), ("push", "data"), ("import", "a.tar", "--from", "3dident", "--out"),
        ("export", "data", "--to", "3dident", "--out"), (*TABLE2, "--kind", "identity", "--out"),
    ]  # fmt: skip
    files = (".lock", "dataset.json", ".imported", ".exported", "raw_latents.npy")
    for number, (command, name) in enumerate(product(commands, (*folders, *files))):
        for file in ("precious", "00000.h5", "00000.part"):
            (theirs / file).write_text("mine")
        before, out = sums(theirs), field.folder / f"out{number}"
        out.mkdir()
        (out / name).symlink_to(theirs if name in folders else theirs / "precious")
        field.ident(*command, out, *(("--force",) if field.chance.random() < 0.5 else ()))
        assert theirs.exists(), f"{command[0]}: a folder behind the link {name} is gone"
        assert sums(theirs) == before, f"{command[0]}: files behind the link {name} are others"
    return f"{number + 1} commands"


def replaced_archive(field: Field) -> None:
    """On the server another archive of the same size takes the place of the first while that is fetched."""
    turned = {f"train/images/{i:02d}.png": png(image) for i, image in enumerate(WANTED[::-1])}
    archives = [tar(files).getvalue() for files in (FILES, FILES | turned)]
    assert len(archives[0]) == len(archives[1])
    (field.folder / "a.tar").write_bytes(archives[0])
    with serving(field.folder) as moods:
        moods.breaks = [len(archives[0]) // 2] * 2  # the size is asked for first
        moods.changed = lambda *_: archives[not moods.breaks]
        field.ident("pull", f"{moods.url}/a.tar", "--out", "d", codes=(0, 1))
    if (field.folder / "d/dataset.json").exists():
        images = Dataset(field.folder / "d").images(range(20))
        whole = [np.array_equal(images, wanted) for wanted in (WANTED, WANTED[::-1])]
        assert any(whole), "images of two archives are in one dataset"


def foreign_index(field: Field) -> None:
    """An index of other latents, with checksums that fit."""
    latents = np.ascontiguousarray(Dataset(field.paint("data", 300)).latents)
    pairs = ("pairs", "data", "--conditional", "laplace", "--index", "hnsw", "--n", 500, "--out")
    key = f"{neighbours.factory('hnsw', 300, 10)} {faiss.__version__} {latents.shape} ".encode() + latents.tobytes()
    digest, index = hashlib.sha256(key).digest(), faiss.serialize_index(neighbours.build(latents[::-1].copy(), "hnsw"))
    field.ident(*pairs, "one.h5", codes=(0,))
    (field.folder / "data/.index").mkdir(exist_ok=True)
    path = field.folder / f"data/.index/hnsw-{digest.hex()[:16]}.faiss"
    path.write_bytes(digest + hashlib.sha256(index.tobytes()).digest() + index.tobytes())
    field.ident(*pairs, "two.h5", codes=(0,))
    with h5py.File(field.folder / "one.h5") as one, h5py.File(field.folder / "two.h5") as two:
        assert np.array_equal(one["positive"], two["positive"]), "positives are those of a foreign index"


def memory_bombs(field: Field) -> None:
    """Small files that ask for gigabytes: headers of an archive, a table, compressed arrays."""
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME):
        header = tarfile.TarInfo("x")
        header.type, header.size = kind, 6 * 2**30
        with (field.folder / "bomb.tar").open("wb") as file:
            file.write(header.tobuf())
            file.truncate(header.size + 2**12)
        field.ident("import", "bomb.tar", "--from", "3dident", "--out", "d", codes=(1, 2))
    (field.folder / "hf/data").mkdir(parents=True)
    image = pa.array([{"bytes": bytes(2**31 - 2**20), "path": None}])
    table = pa.table({"image": image, "raw_latents": pa.array([[0.5] * 10], pa.list_(pa.float32()))})
    parquet.write_table(table, field.folder / "hf/data/train-00000-of-00001.parquet", compression="zstd")
    del table, image
    field.ident("import", "hf", "--from", "huggingface", "--out", "d", codes=(1, 2))
    field.ident(*TABLE2, "--kind", "identity", codes=(0,))
    (recovered,) = field.folder.rglob("recovered.npz")
    with zipfile.ZipFile(recovered, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("latents", "recovered"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                shape = {"descr": "<f8", "fortran_order": False, "shape": (2**25, 10)}
                np.lib.format.write_array_header_1_0(member, shape)  # type: ignore[no-untyped-call]
                for _ in range(160):
                    member.write(bytes(2**24))
    assert "recovered.npz" in field.ident("report", codes=(0,))


def foreign_results(field: Field) -> None:
    """Results of other versions, and with markup and control characters in them, among one of ours."""
    field.ident(*TABLE2, "--kind", "identity", codes=(0,))
    (path,) = field.folder.rglob("result.json")
    every = [{"format": 99}, {"scores": None}, {"row": "../x"}, {"own": "[/red]"}, {"own": OSC}, {"seed": [1]}]
    for number, changes in enumerate(every):
        other = path.parent.with_name(f"normal-box-normal-foreign{number}-identity-seed0")
        other.mkdir()
        (other / "result.json").write_text(json.dumps(json.loads(path.read_text()) | changes))
    for typed in (("report",), (*TABLE2, "--kind", "identity")):
        said = field.ident(*typed, codes=(0,))
        assert "normal-box-normal-foreign0" in said, f"{typed[0]}: names no foreign result"


def control_characters(field: Field) -> None:
    """Sequences that set a terminal's title, in the texts of a dataset and in names."""
    description = field.paint("data") / "dataset.json"
    good = json.loads(description.read_text())
    for changes in ({"positives": {OSC: OSC, "conditional": "x", "seed": 0}}, {"source": {"kind": OSC}}, {OSC: 1}):
        description.write_text(json.dumps(good | changes))
        for typed in (("info", "data"), ("info", "data", "--json"), ("verify", "data"), ("pairs", "data")):
            field.ident(*typed)
    (field.folder / "a.tar").write_bytes(tar({f"x/{OSC}.txt": b"1"}).getvalue())
    field.ident("pull", "./a.tar", "--out", "d", codes=(1, 2))
    field.ident("info", OSC, codes=(2,))


def lossy_pictures(field: Field) -> None:
    """Pictures of which a shard would keep less than they have: 16 bits a channel, more than one frame."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    moving = field.folder / "moving.png"
    Image.fromarray(WANTED[0]).save(moving, save_all=True, append_images=[Image.fromarray(WANTED[1])])
    pictures = {"moving": moving.read_bytes()}
    for name, kind, channels in (("grey", 0, 1), ("colour", 2, 3), ("alpha", 6, 4)):
        rows = b"".join(b"\0" + field.chance.randbytes(2 * channels * 16) for _ in range(16))
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 16, kind, 0, 0, 0))
        pictures[name] = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    for name, picture in pictures.items():
        (field.folder / "a.tar").write_bytes(tar(FILES | {"train/images/07.png": picture}).getvalue())
        assert "07.png" in field.ident("import", "a.tar", "--from", "3dident", "--out", name, codes=(1, 2))


def lies(field: Field) -> str:
    """Manifests that lie, and flipped bits in shards."""
    data, names = field.paint("data", 20, passes=("mask", "normal")), field.chance.sample(sorted(MANIFESTS), 12)
    good = (data / "dataset.json").read_text()
    for name in names:
        description = json.loads(good)
        MANIFESTS[name](description)
        (data / "dataset.json").write_text(json.dumps(description))
        field.ident("info", "data", codes=(1,))
    (data / "dataset.json").write_text(good)
    whole = (data / "shards/00001.h5").read_bytes()
    for _ in range(8):
        flipped = bytearray(whole)
        flipped[field.chance.randrange(len(whole))] ^= 1 << field.chance.randrange(8)
        (data / "shards/00001.h5").write_bytes(flipped)
        field.ident("verify", "data", codes=(1,))
    return f"{len(names)} manifests, 8 bits"


Attack = Callable[[Field], str | None]
DATA: tuple[Attack, ...] = (
    code_in_the_folder, pickles, interpreters, links, replaced_archive, foreign_index, memory_bombs, foreign_results,
    control_characters, lossy_pictures, lies,
)  # fmt: skip
