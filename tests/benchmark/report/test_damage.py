"""Results that are damaged, foreign or hostile, and what lies beside them: named and left out."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from ident.benchmark.report import attachments, page, reading
from ident.benchmark.suites.results import Result
from ident.render.errors import Impossible
from ident.render.worlds.threedident import WORLD
from tests.benchmark.report.conftest import changed, written
from tests.render.test_bombs import little_memory


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text(path.read_text()[:-9]),
        lambda path: path.write_text('{"loss": 0.5}'),
        lambda path: path.write_text("[" * 100_000),
        lambda path: changed(path, suite="table9"),
        lambda path: changed(path, row="box-normal"),
        lambda path: changed(path, row=3),
        lambda path: changed(path, kind=["unsupervised"]),
        lambda path: changed(path, seed="0"),
        lambda path: changed(path, own=3),
        lambda path: changed(path, tier="../../x"),
        lambda path: changed(path, learned=[1.0] * 10),
        lambda path: changed(path, recipe="3"),
        lambda path: changed(path, seconds=10**400),
        lambda path: changed(path, scores={"test/../x": json.loads(path.read_text())["scores"]["test"]}),
        lambda path: changed(path, format="3"),
        lambda path: changed(path, seed=1),  # there are two of it then
        lambda path: changed(path, seed=2**64),
        lambda path: changed(path, format=2),
        lambda path: changed(path, format=2**70),
        lambda path: path.write_bytes(b"\xff\xfe" + path.read_bytes()),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("null"),
        lambda path: replaced(path, lambda: path.mkdir()),
        lambda path: replaced(path, lambda: os.mkfifo(path)),
        lambda path: replaced(path, lambda: path.symlink_to("/dev/zero")),
        lambda path: replaced(path, lambda: path.symlink_to("/proc/self/mem")),  # which nobody can read
        lambda path: path.write_text(re.sub(r'"value": -?[\d.]+', '"value": NaN', path.read_text(), count=1)),
        lambda path: path.write_text(re.sub(r'"low": -?[\d.]+', '"low": -Infinity', path.read_text(), count=1)),
        lambda path: path.write_text(re.sub(r'"high": -?[\d.]+', '"high": 1e308', path.read_text(), count=1)),
        lambda path: path.write_text(re.sub(r'"per_latent": \[[^,]*,', '"per_latent": [', path.read_text(), count=1)),
        lambda path: changed(path, suite="aninfonce"),
        lambda path: changed(path, machine={"ident": nested(11)}),
        lambda path: changed(path, machine=["ident"]),
        lambda path: changed(path, data={"a": nested(900)}),
        lambda path: changed(path, recipe=json.dumps({"objective": nested(20)})),
        lambda path: changed(path, recipe=json.dumps({"objective": ["a:b"]})),
        lambda path: changed(path, recipe=json.dumps({"objective": "a:\x1b[2J"})),
        lambda path: changed(path, own="\x1b]0;owned\x07"),
        lambda path: changed(path, own="x" * 1000),
        lambda path: changed(path, history=[{"step": 10**30, "loss": 1.0, "r2": 0.5, "mcc": 0.5}]),
        lambda path: changed(path, history=[{"step": 1, "loss": 1e308, "r2": 0.5, "mcc": 0.5}]),
        lambda path: changed(path, history=[{"step": 1, "loss": "x", "r2": 0.5, "mcc": 0.5}]),
        lambda path: changed(path, history={"step": 1}),
    ],
)
def test_what_is_damaged_or_foreign_is_named_and_left_out(results: Path, damage: Callable[[Path], Any]) -> None:
    path = results / "table1" / "quick" / "sphere-laplace-vmf-unsupervised-seed0" / "result.json"
    damage(path)
    said = list[str]()
    lines = next(part.lines for part in reading.read(results / "table1", said.append).parts)
    assert len(said) == 1
    assert "sphere-laplace-vmf-unsupervised-seed" in said[0]
    assert "left out" in said[0]
    assert len(next(line for line in lines if line.row.id == "sphere-laplace-vmf").results["unsupervised"]) == 1


def test_a_folder_of_foreign_results_alone_is_refused(results: Path) -> None:
    for path in results.glob("table1/quick/*/result.json"):
        changed(path, format=2)
    said = list[str]()
    with pytest.raises(Impossible, match=r"table1: none of its 3 results can be read; give a folder that ident bench"):
        reading.read(results / "table1", said.append)
    assert len(said) == 3
    assert all(text.endswith("result.json: " + FOREIGN) for text in said)


FOREIGN = (
    "is of format 2, this version of ident reads 3; run it again, or read it by the version that wrote it; left out"
)


def replaced(path: Path, make: Callable[[], object]) -> None:
    path.unlink()
    make()


def nested(levels: int) -> object:
    """Lists in lists."""
    return [nested(levels - 1)] if levels else 0


def test_pictures_that_are_damaged_are_named_and_left_out(results: Path) -> None:
    run = results / "table4" / "quick" / "box-normal-unsupervised-seed0"
    (run / "neighbours.png").write_bytes(b"\x89PNG")
    np.savez(run / "recovered.npz", latents=np.zeros((9, 3)), recovered=np.zeros((9, 3)))
    (run / "checkpoint.pt").write_bytes(b"of a run that was stopped")
    said = list[str]()
    text, made = written(results / "table4", warn=said.append)
    assert "recovered.npz: is damaged (latents (9, 3) and recovered ones (9, 3), of 10); left out" in said[0]
    assert "neighbours.png: is damaged" in said[1]
    assert not [name for name in made["files"] if "table4-quick-0-neighbours" in name]
    assert "<summary>box-normal, " in text


def test_no_other_program_is_started(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives an EPS to Ghostscript, by whatever name it lies there."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # which it has looked for once
    run = results / "table4" / "quick" / "box-normal-unsupervised-seed0"
    (run / "neighbours.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n%%EndComments\nshowpage\n")
    said = list[str]()
    written(results / "table4", warn=said.append)
    assert not (tmp_path / "started").exists()
    assert f"{run}/neighbours.png: is damaged (cannot identify image file" in said[0]


def test_arrays_and_pictures_of_gigabytes(results: Path) -> None:
    run = results / "table4" / "quick" / "box-normal-unsupervised-seed0"
    with ZipFile(run / "recovered.npz", "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("latents.npy", "recovered.npy"):
            with archive.open(name, "w") as file:
                header = {"descr": "<f8", "fortran_order": False, "shape": (2**22, 10)}
                np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]
                for _ in range(20):
                    file.write(bytes(2**24))
    (run / "neighbours.png").write_bytes(saved(Image.new("1", (9000, 9000))))
    said = list[str]()
    with little_memory():
        written(results / "table4", warn=said.append)
    assert f"{run}/recovered.npz: is damaged (latents is packed, which ident bench does not do); left out" in said
    assert f"{run}/neighbours.png: is damaged (9000 x 9000 pixels, more than 67108864 in all); left out" in said


def saved(image: Image.Image) -> bytes:
    file = BytesIO()
    image.save(file, "png")
    return file.getvalue()


def stored(shape: tuple[int, ...], more: bytes = b"") -> bytes:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_STORED) as archive:
        with archive.open("latents.npy", "w") as array:
            header = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(array, header)  # type: ignore[no-untyped-call]
        archive.writestr("recovered.npy", b"")
        archive.comment = more
    return file.getvalue()


@pytest.mark.parametrize(
    ("said", "data", "size"),
    [
        ("its header says float64 .1000000000000, 10.", stored((10**12, 10)), 0),
        ("it is cut short: 0 bytes of 800000", stored((10**4, 10)), 0),
        ("no archive of two arrays", stored((1, 10), b"comment"), 0),
        ("no archive of two arrays", b"PK", 0),
        ("3221225472 bytes, more than 134217728", stored((1, 10)), 3 * 2**30),
    ],
)
def test_what_is_no_archive_of_arrays(tmp_path: Path, said: str, data: bytes, size: int) -> None:
    path = tmp_path / "recovered.npz"
    path.write_bytes(data)
    os.truncate(path, max(size, len(data)))
    with little_memory(2**24), pytest.raises(ValueError, match=said):
        attachments.pair(path, 10)


def test_a_result_of_gigabytes_is_named_and_left_out(results: Path) -> None:
    path = results / "table1" / "quick" / "sphere-laplace-vmf-unsupervised-seed0" / "result.json"
    os.truncate(path, 2**30)
    said = list[str]()
    with little_memory():
        reading.read(results / "table1", said.append)
    assert said == [f"{path}: has more than 4194304 bytes; left out"]


def result_in(folder: Path) -> Result:
    run = ("table4", "quick", "box-normal", "", "unsupervised", 0)
    return Result(*run, "{}", WORLD.names, {}, (), (), 0.0, {}, {}, folder)


def of_zeros(path: Path, value: float) -> None:
    np.savez(path, latents=np.zeros((9, 10)), recovered=np.full((9, 10), value))


@pytest.mark.parametrize("name", ["recovered.npz", "neighbours.png"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.write_bytes(b"PK\x03\x04" + bytes(99)),
        lambda path: path.write_bytes(b""),
        lambda path: of_zeros(path, float("nan")),
        lambda path: np.savez(path, latents=np.array([{}]), recovered=np.zeros(3)),
        lambda path: np.savez(
            path, latents=np.arange(90.0).reshape(9, 10), recovered=np.geomspace(1, 1e300, 90).reshape(9, 10)
        ),
    ],
)
def test_what_lies_beside_a_result_may_be_anything(tmp_path: Path, name: str, damage: Callable[[Path], Any]) -> None:
    path = tmp_path / name
    damage(path.with_suffix(".npz"))
    path.with_suffix(".npz").rename(path)
    said = list[str]()
    assert page.Maker(said.append).of_first(result_in(tmp_path), "row") == []
    assert len(said) == 1
    assert said[0].startswith(f"{path}: is damaged (")
    assert said[0].endswith("); left out")


def test_scores_beyond_all_measure_are_drawn(results: Path) -> None:
    path = results / "table1" / "quick" / "sphere-laplace-vmf-unsupervised-seed0" / "result.json"
    result = json.loads(path.read_text())
    result["scores"]["test"]["r2"] |= {"value": -1e90, "low": -1e90, "per_latent": [-1e90] * 10, "chance": -1e90}
    result["history"] = [point | {"loss": 1e90, "r2": -1e90} for point in result["history"]]
    path.write_text(json.dumps(result))
    shutil.rmtree(results / "table1" / "quick" / "sphere-laplace-vmf-unsupervised-seed1")
    assert "<summary>sphere-laplace-vmf, " in written(results / "table1")[0]
