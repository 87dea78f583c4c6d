"""Published datasets of one file: fetched from a server like Zenodo, or imported; and dSprites compared."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ident.render.aliases import Array
from ident.render.errors import Failed
from ident.render.exchange import dsprites as published
from ident.render.worlds import dsprites
from tests.conftest import Run
from tests.servers import serving

TRACKS = b'id,cat_id,t_0,t_1,t_2\na,1,"[(10, 20, 30), None]","[(11, 21, 31), None]",\n'


def masks() -> bytes:
    rng = np.random.default_rng(0)
    lists = [rng.random((3, 64, 64)) > 0.5], [rng.random((3, 3)).astype(np.float32)]
    return pickle.dumps(dict(zip(("pedestrians", "pedestrians_latents"), lists, strict=True)))


def stand_in(folder: Path, record: str, name: str, data: bytes) -> None:
    """Zenodo's record of one file."""
    (folder / "records").mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    sum_ = hashlib.md5(data).hexdigest()
    entry = {"key": name, "checksum": f"md5:{sum_}", "size": len(data), "links": {"self": f"URL/{name}"}}
    (folder / "records" / record).write_text(json.dumps({"files": [entry]}))


@pytest.mark.parametrize(
    ("name", "record", "file", "data", "said"),
    [
        ("kitti-masks", "3931823", "kitti_peds_v2.pickle", masks(), "3 masks in 1 sequences"),
        ("natural-sprites", "3948069", "downscale_keepaspect.csv", TRACKS, "2 places in 1 tracks"),
    ],
)
def test_a_published_file_by_its_name(
    ident_here: Run, tmp_path: Path, name: str, record: str, file: str, data: bytes, said: str
) -> None:
    stand_in(tmp_path / "zenodo", record, file, data)
    with serving(tmp_path / "zenodo") as moods:
        moods.changed = lambda path, data: data.replace(b"URL", moods.url.encode()) if "records" in path else data
        for _ in range(2):  # the second time it is there
            done = ident_here("pull", name, "--zenodo", moods.url)
            assert (done.returncode, done.stdout) == (0, f"data/{name}/{file}: {said}\n"), done.stderr
        there = tmp_path / "data" / name / file
        assert there.read_bytes() == data
        there.write_bytes(b"mine")
        done = ident_here("pull", name, "--zenodo", moods.url)
        assert done.returncode == 2
        assert "holds something else; give --force" in done.stderr
        assert there.read_bytes() == b"mine"
        stand_in(tmp_path / "zenodo", record, file, b"nothing of the kind")
        done = ident_here("pull", name, "--zenodo", moods.url, "--force")
        assert done.returncode == 1
        assert there.read_bytes() == b"mine"
        assert [path.name for path in there.parent.iterdir() if path.name.startswith(file)] == [file]


def test_import_checks_and_keeps(ident_here: Run, tmp_path: Path) -> None:
    (tmp_path / "tracks.csv").write_bytes(TRACKS)
    done = ident_here("import", "tracks.csv", "--from", "natural-sprites", "--out", "data/mine", "--json")
    assert json.loads(done.stdout) == {
        "file": "data/mine/downscale_keepaspect.csv", "holds": "2 places in 1 tracks",
    }  # fmt: skip
    (tmp_path / "code.csv").write_bytes(TRACKS.replace(b"(11, 21, 31)", b"open('called', 'w')"))
    done = ident_here("import", "code.csv", "--from", "natural-sprites", "--out", "data/code")
    assert done.returncode == 1
    assert "was not evaluated" in done.stderr
    assert not (tmp_path / "called").exists()


def npz(path: Path, **arrays: Array) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Array]:
    """All images of a world of fewer classes, as a published file has them."""
    sizes = 3, 6, 4, 3, 2
    count = int(np.prod(sizes))
    for module in (dsprites, published):
        monkeypatch.setattr(module, "SIZES", sizes)
        monkeypatch.setattr(module, "COUNT", count)
    monkeypatch.setattr(published, "AT_ONCE", 100)
    classes = dsprites.classes_of(np.arange(count))
    images = (dsprites.draw(classes) > 0).view(np.uint8)
    return {"imgs": images, "latents_classes": np.insert(classes, 0, 0, 1)}


def test_a_file_like_the_published_one_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = drawn(monkeypatch)
    same = published.compare(npz(tmp_path / "same.npz", **arrays))
    assert (same.images, set(same.different.values()), set(same.worst.values())) == (432, {0}, {0.0})
    arrays["imgs"][200, 0, 0] = 1  # an ellipse
    other = published.compare(npz(tmp_path / "other.npz", **arrays))
    assert other.different == {"square": 0, "ellipse": 1, "heart": 0}
    white = int(dsprites.draw(dsprites.classes_of(np.array([200])))[0].astype(bool).sum())
    assert other.worst["ellipse"] == pytest.approx(1 / white)
    assert "ellipse: 1 differ" in str(other)


def test_a_file_of_other_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = drawn(monkeypatch)
    images, classes = arrays["imgs"], arrays["latents_classes"]
    for name, changed, said in (
        ("few", {"imgs": images[:-1], "latents_classes": classes}, r"imgs: uint8 \(431, 64, 64\); dSprites have"),
        ("small", {"imgs": images[:, ::2], "latents_classes": classes}, r"imgs: uint8 \(432, 32, 64\)"),
        ("kind", {"imgs": images.astype(np.float32), "latents_classes": classes}, "imgs: float32"),
        ("order", {"imgs": images, "latents_classes": classes[::-1].copy()}, "in another order"),
        ("none", {"imgs": images}, "no npz of dSprites"),
        ("objects", {"imgs": np.array([{}]), "latents_classes": classes}, "imgs: object"),
    ):
        with pytest.raises(Failed, match=said):
            published.compare(npz(tmp_path / f"{name}.npz", **changed))
    whole = npz(tmp_path / "whole.npz", **arrays).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Failed, match="no npz of dSprites, or damaged"):
        published.compare(tmp_path / "cut.npz")
    with pytest.raises(Failed, match="No such file"):
        published.compare(tmp_path / "nowhere.npz")


def test_an_array_that_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = drawn(monkeypatch)
    with zipfile.ZipFile(tmp_path / "early.npz", "w") as archive:
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array)
            data = file.getvalue()
            archive.writestr(f"{name}.npy", data[: len(data) // 2] if name == "imgs" else data)
    with pytest.raises(Failed, match="ends before row"):
        published.compare(tmp_path / "early.npz")


@pytest.mark.parametrize(
    ("head", "method", "damaged", "said"),
    [
        (b"-" * 60_000, zipfile.ZIP_STORED, False, "imgs: its head cannot be read, or has more than 1024 bytes"),
        (b"-" * 1000, zipfile.ZIP_STORED, False, "imgs: its head cannot be read"),
        (b"{1: 2, 'a': (", zipfile.ZIP_STORED, False, "imgs: its head cannot be read"),
        (b"{1: 2, 'a': 3}", zipfile.ZIP_STORED, False, "imgs: its head cannot be read"),
        (b"few", zipfile.ZIP_DEFLATED, True, "no npz of dSprites, or damaged .*"),
        (b"few", zipfile.ZIP_LZMA, True, "imgs.npy is packed by another method than the published one"),
    ],
)
def test_an_array_that_is_damaged(
    head: bytes, method: int, damaged: bool, said: str, ident_here: Run, tmp_path: Path
) -> None:
    path = tmp_path / "bad.npz"
    data = b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(range(256)) * 40
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("imgs.npy", data)
        archive.writestr("latents_classes.npy", data)
    if damaged:
        content = bytearray(path.read_bytes())
        content[60:90] = b"\xff" * 30
        path.write_bytes(content)
    with pytest.raises(Failed, match=f"^{path}: {said}$" if damaged else f"^{path}: {said}"):
        published.compare(path)
    done = ident_here("import", "bad.npz", "--from", "dsprites", "--out", "data")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
