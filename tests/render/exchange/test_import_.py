"""Images in any order, from folders and archives: nothing lost, nothing twice, nothing wrong accepted."""

from __future__ import annotations

import io
import random
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ident.render.errors import Failed, Impossible
from ident.render.exchange import assembly, pictures
from ident.render.exchange.assembly import Assembly
from ident.render.exchange.import_ import counted, import_path
from ident.render.exchange.layouts import LAYOUTS
from ident.render.exchange.layouts.files import File, files_of_archive, paths_below
from ident.render.exchange.layouts.layout import Item
from ident.render.stage.rerender import rendered_world
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import Manifest
from ident.render.store.recipe import Imported
from ident.render.store.storage import Storage
from ident.render.store.verify import verify
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import WANTED, N, paint

RAW = RECIPE.source(0, N)
TREE = LAYOUTS["3dident"]


def png(image: np.ndarray) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


FILES = {
    **{f"train/images/{i:02d}.png": png(image) for i, image in enumerate(WANTED)},
    "train/raw_latents.npy": npy(RAW),
    "train/latents.npy": npy(RAW * 3),
    "readme.txt": b"hello",
}


def tar(files: dict[str, bytes], mode: str = "w") -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    out.seek(0)
    return out


def shuffled(files: dict[str, bytes]) -> dict[str, bytes]:
    names = list(files)
    random.Random(0).shuffle(names)
    return {name: files[name] for name in names}


def bring(found: Iterator[Item], out: Path, layout: str = "3dident", codec: str = "compact") -> Manifest:
    (out / "shards").mkdir(parents=True, exist_ok=True)
    return Assembly(Storage(str(out)), LAYOUTS[layout], Imported(layout, "here"), codec, b"key").run(
        found, lambda: None
    )


def of_tar(files: dict[str, bytes], mode: str = "w") -> Iterator[Item]:
    return TREE.items(files_of_archive(tar(files, mode), "a.tar"), "a.tar")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "SHARD_SIZE", 8)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("codec", ["compact", "fast"])
def test_an_archive_in_any_order(tmp_path: Path, mode: str, codec: str) -> None:
    manifest = bring(of_tar(shuffled(FILES), mode), tmp_path / "d", codec=codec)
    assert (manifest.n, manifest.count, manifest.render) == (N, 3, None)
    data = Dataset(tmp_path / "d")
    assert np.array_equal(data.images(range(N)), WANTED)
    assert np.array_equal(data.latents, RAW)
    assert verify(str(tmp_path / "d"), done=lambda *_: None).wrong == ()
    with pytest.raises(Impossible, match=r"dataset\.json does not say how the images were rendered"):
        rendered_world(manifest)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [".imported", "dataset.json", "shards"]


def files_below(folder: Path) -> Iterator[File]:
    return counted({path.relative_to(folder).as_posix(): path for path in paths_below(folder)}, lambda _: None)


def test_a_folder(tmp_path: Path) -> None:
    for name, data in FILES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    bring(TREE.items(files_below(tmp_path / "in"), "in"), tmp_path / "d")
    assert np.array_equal(Dataset(tmp_path / "d").images(range(N)), WANTED)


def stopped_after(count: int, found: Iterator[Item]) -> Iterator[Item]:
    for i, item in enumerate(found):
        if i == count:
            raise KeyboardInterrupt
        yield item


def test_an_import_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        bring(stopped_after(18, of_tar(FILES)), tmp_path / "d")
    decoded, taken = list[str](), list[str]()
    decode, take = pictures.decode, Storage.take

    def counted(data: bytes, where: str) -> object:
        decoded.append(where)
        return decode(data, where)

    def stopped(self: Storage, part: Path, name: str) -> None:
        if len(taken) == 2:
            raise KeyboardInterrupt
        taken.append(name)
        take(self, part, name)

    monkeypatch.setattr(assembly, "decode", counted)
    monkeypatch.setattr(Storage, "take", stopped)
    with pytest.raises(KeyboardInterrupt):  # two shards are there already
        bring(of_tar(FILES), tmp_path / "d")
    assert 3 <= len(decoded) <= 12
    assert taken == ["shards/00000.h5", "shards/00001.h5"]
    decoded.clear()
    monkeypatch.setattr(Storage, "take", take)
    bring(of_tar(FILES), tmp_path / "d")
    assert len(decoded) == 1  # which says how large images are
    assert np.array_equal(Dataset(tmp_path / "d").images(range(N)), WANTED)
    assert np.array_equal(Dataset(tmp_path / "d").latents, RAW)


def stop_after_two_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the next import, once: notes are made at the start, and after each shard."""
    noted, note = count(1), Assembly._note

    def stopped(self: Assembly) -> None:
        note(self)
        if next(noted) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Assembly, "_note", stopped)


def test_a_shard_that_is_lost_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_after_two_shards(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        bring(of_tar(FILES), tmp_path / "d")
    (tmp_path / "d" / "shards" / "00000.h5").unlink()
    bring(of_tar(FILES), tmp_path / "d")
    assert np.array_equal(Dataset(tmp_path / "d").images(range(N)), WANTED)
    assert verify(str(tmp_path / "d"), done=lambda *_: None).wrong == ()


def import_(
    path: Path, out: Path, *, force: bool = False, tell: Callable[[int, int], object] | None = None
) -> Manifest:
    return import_path(path, "3dident", Storage(str(out)), codec="compact", force=force, tell=tell or (lambda *_: None))


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_an_import_that_was_damaged_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    (tmp_path / "a.tar").write_bytes(tar(FILES).getvalue())
    made = import_(tmp_path / "a.tar", tmp_path / "d")
    shard = tmp_path / "d" / "shards" / "00001.h5"
    data = bytearray(shard.read_bytes())
    shard.unlink()
    if damage == "flip":
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
    decoded, decode = list[str](), pictures.decode

    def counted(data: bytes, where: str) -> object:
        decoded.append(where)
        return decode(data, where)

    monkeypatch.setattr(assembly, "decode", counted)
    assert import_(tmp_path / "a.tar", tmp_path / "d") == made
    assert len(decoded) == 9  # the first, which says how large images are, and those of the shard
    assert verify(str(tmp_path / "d"), done=lambda *_: None).wrong == ()
    decoded.clear()
    assert import_(tmp_path / "a.tar", tmp_path / "d") == made
    assert decoded == []


def test_a_forced_import_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paint(tmp_path / "d")
    (tmp_path / "a.tar").write_bytes(tar(FILES).getvalue())
    with pytest.raises(Impossible, match="holds something else: give --force"):
        import_(tmp_path / "a.tar", tmp_path / "d")
    stop_after_two_shards(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        import_(tmp_path / "a.tar", tmp_path / "d", force=True)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "d" / "shards").iterdir()}
    assert sorted(before) == ["00000.h5", "00001.h5"]
    import_(tmp_path / "a.tar", tmp_path / "d", force=True)
    assert np.array_equal(Dataset(tmp_path / "d").images(range(N)), WANTED)
    assert {name: (tmp_path / "d" / "shards" / name).stat().st_mtime_ns for name in before} == before


@pytest.mark.parametrize(
    ("mode", "value"), [("I;16", 7), ("F", 0.5), ("RGBA", (1, 2, 3, 4)), ("LA", (1, 2)), ("CMYK", (1, 2, 3, 4))]
)
def test_pixels_that_rgb_does_not_hold_are_refused(mode: str, value: Any) -> None:
    file = io.BytesIO()
    Image.new(mode, (16, 16), value).save(file, {"F": "tiff", "CMYK": "jpeg"}.get(mode, "png"))
    with pytest.raises(Failed, match=r"^it: "):
        pictures.decode(file.getvalue(), "it")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1"])
def test_pixels_that_rgb_holds_are_kept(mode: str) -> None:
    file, image = io.BytesIO(), Image.fromarray(WANTED[0]).convert(mode)
    image.save(file, "png")
    assert np.array_equal(pictures.decode(file.getvalue(), "it"), np.asarray(image.convert("RGB")))


def deep(colour: int) -> bytes:
    """A PNG of 16 bits a colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = struct.pack(">IIBBBBB", 16, 16, 16, colour, 0, 0, 0)
    rows = bytes(1 + 16 * 2 * {0: 1, 2: 3, 6: 4}[colour]) * 16
    rows = rows.replace(b"\0" * 8, b"\xff" * 8) if colour == 6 else rows  # opaque
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


FIRST, SECOND = Image.fromarray(WANTED[0]), Image.fromarray(WANTED[1])
TURNED = Image.Exif()
TURNED[0x0112] = 6
LOSING = {
    "RGB of 16 bits": ("its colours have 16 bits, of which 8 could be kept; wanted are 8", deep(2)),
    "an animated PNG": ("is animated", saved(FIRST, "png", save_all=True, append_images=[SECOND])),
    "one with another first image": (
        "is animated",
        saved(FIRST, "png", save_all=True, append_images=[SECOND], default_image=True),
    ),
    "an animated WebP": ("has 2 images", saved(FIRST, "webp", save_all=True, append_images=[SECOND], lossless=True)),
    "two JPEGs in one": ("has 2 images", saved(FIRST, "mpo", save_all=True, append_images=[SECOND])),
    "a turned PNG": ("is to be turned before it is shown, orientation 6", saved(FIRST, "png", exif=TURNED)),
    "a turned JPEG": ("is to be turned before it is shown, orientation 6", saved(FIRST, "jpeg", exif=TURNED)),
}


@pytest.mark.parametrize("kind", LOSING)
def test_nothing_is_lost_without_a_word(kind: str) -> None:
    said, data = LOSING[kind]
    with pytest.raises(Failed, match=f"^it: {said}"):
        pictures.decode(data, "it")


def test_rgba_of_16_bits_is_refused() -> None:
    with pytest.raises(Failed, match=r"^it: its colours have 16 bits"):
        pictures.decode(deep(6), "it")


@pytest.mark.parametrize("options", [{"icc_profile": b"x" * 200}, {"exif": Image.Exif()}, {"dpi": (72, 72)}])
def test_what_is_said_of_an_image_is_no_loss(options: dict[str, Any]) -> None:
    assert np.array_equal(pictures.decode(saved(FIRST, "png", **options), "it"), WANTED[0])


def lacking(name: str) -> dict[str, bytes]:
    return {other: data for other, data in FILES.items() if other != name}


WRONG = {
    "20 latents and 19 images, look at image 7": lacking("train/images/07.png"),
    "20 latents and 21 images, look at image 20": FILES | {"train/images/20.png": png(WANTED[0])},
    "has no latents": lacking("train/raw_latents.npy"),
    r"images/03\.png: not an image": FILES | {"train/images/03.png": b"junk"},
    r"images/03\.png: not an image \(.*": FILES | {"train/images/03.png": FILES["train/images/03.png"][:-20]},
    "32 pixels a side, the first image has 16": FILES | {"train/images/03.png": png(np.zeros((32, 32, 3), np.uint8))},
    "16 x 8 pixels, not a square": FILES | {"train/images/03.png": png(np.zeros((8, 16, 3), np.uint8))},
    r"raw_latents\.npy: not a \.npy file": FILES | {"train/raw_latents.npy": b"\x93NUMPY junk"},
    r"raw_latents\.npy: the shape is": FILES | {"train/raw_latents.npy": npy(RAW[:, :9])},
    "is 3.0, not in": FILES | {"train/raw_latents.npy": npy(RAW * 0 + 3)},
    r"raw_latents\.npy: .*its header says object": FILES | {"train/raw_latents.npy": npy(np.array([{}]))},
    "the member '../etc/passwd' is a link, or lies outside": FILES | {"../etc/passwd": b""},
    "the member '/etc/passwd' is a link, or lies outside": FILES | {"/etc/passwd": b""},
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, said: str) -> None:
    with pytest.raises(Failed, match=said):
        bring(of_tar(WRONG[said]), tmp_path / "d")
    assert not (tmp_path / "d" / "dataset.json").exists()
    bring(of_tar(FILES), tmp_path / "d")
    assert np.array_equal(Dataset(tmp_path / "d").images(range(N)), WANTED)


def test_links_and_cut_archives() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("images/0.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    out.seek(0)
    with pytest.raises(Failed, match=r"'images/0\.png' is a link"):
        list(TREE.items(files_of_archive(out, "a.tar"), "a.tar"))
    whole = tar(FILES, "w:gz").getvalue()
    for data in (whole[: len(whole) // 2], b"junk" * 1000, b""):
        with pytest.raises(Failed, match=r"a\.tar: not a whole tar archive"):
            list(TREE.items(files_of_archive(io.BytesIO(data), "a.tar"), "a.tar"))


def test_two_sets_are_not_mixed() -> None:
    both = FILES | {"test/raw_latents.npy": npy(RAW)}
    with pytest.raises(Impossible, match="holds more than one set, train/ and test/: give one of them"):
        list(of_tar(both))
