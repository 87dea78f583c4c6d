"""Files of raw latents, good and hostile."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ident.render.errors import Impossible
from ident.render.stage.gallery import read_raw
from ident.render.worlds.threedident import WORLD


def test_a_file_is_read_back(tmp_path: Path) -> None:
    raw = WORLD.draw(seed=0, split="x", start=0, n=5)
    np.save(tmp_path / "z.npy", raw.astype(np.float64))
    assert np.array_equal(read_raw(tmp_path / "z.npy", WORLD), raw)


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array), allow_pickle=True)
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros((2, 10)))
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../../evil.npy", b"x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy(np.zeros((3, 9))), r"\(3, 9\)"),
        (npy(np.zeros(10)), r"\(10,\)"),
        (npy(np.zeros((0, 10))), r"\(0, 10\)"),
        (npy(np.zeros((2, 10), int)), "int64"),
        (npy(np.zeros((2, 10), complex)), "complex128"),
        (npy(np.full((2, 10), np.nan, np.float32)), "row 0, x is nan"),
        (npy(np.full((2, 10), -np.inf)), "-inf"),
        (npy(np.full((2, 10), 1.5)), "1.5.*raw_latents.npy"),
        (npy(np.full((2, 10), 77.0)), r"77.0, not in \[-1, 1\]$"),
        (npy([{"a": 1}]), "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10)", b"(-1, 10)"), "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10), }     ", b"(9999999999999, 10)}")[:200], "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10), }", b"(20, 10, ((("), "not a .npy file"),
        (npz()[:60], "not a .npy file"),
        (npy(np.full((2, 10), 1 + 1e-12)), "1.000000000001"),
        (npy(np.zeros((20, 10)))[:300], "not a .npy file"),
        (npy(np.zeros((20, 10)))[:20], "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10)", b"(1<<60,)"), "not a .npy file"),
        (npy(np.zeros((20, 10))).replace(b"(20, 10), }    ", b"(99999999, 10),}"), "not a .npy file"),
        (npz(), "not a .npy file"),
        (zipped(), "not a .npy file"),
        (b"", "not a .npy file"),
        (b"0.1 0.2 0.3", "not a .npy file"),
    ],
)
def test_hostile_files(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "z.npy"
    path.write_bytes(content)
    with pytest.raises(Impossible, match=says) as caught:
        read_raw(path, WORLD)
    assert "z.npy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match="No such file"):
        read_raw(tmp_path / "z.npy", WORLD)
    with pytest.raises(Impossible, match=r"is not a file; give a \.npy file of raw latents"):
        read_raw(tmp_path, WORLD)
