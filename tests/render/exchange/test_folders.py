"""Folders of classes: which images are listed, how they are decoded, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ident.render.errors import Failed, Impossible
from ident.render.exchange import folders


def write(path: Path, image: object, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(image, np.uint8)).save(path, **options)
    return path


def grey(value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((20, 20, 3), value, np.uint8)


def test_one_image_of_six_is_held_out(tmp_path: Path) -> None:
    for name, count in (("dogs", 7), ("cats", 6)):
        for number in range(count):
            write(tmp_path / name / f"{number}.png", grey(number))
    (tmp_path / "readme.txt").touch()
    (tmp_path / "cats" / "notes.txt").touch()
    (tmp_path / ".cache").mkdir()
    folder = folders.read_folder(tmp_path)
    assert folder.classes == ("cats", "dogs")
    train, test = folder.splits["train"], folder.splits["test"]
    assert (len(train), len(test)) == (11, 2)
    assert [path.relative_to(tmp_path).as_posix() for path in test.paths] == ["cats/5.png", "dogs/5.png"]
    assert test.labels.tolist() == [0, 1]
    assert train.labels.tolist() == [0] * 5 + [1] * 6


def test_splits_have_folders_of_their_own(tmp_path: Path) -> None:
    for split, count in (("train", 3), ("val", 1)):
        for name in ("a", "b"):
            for number in range(count):
                write(tmp_path / split / name / f"{number}.JPEG", grey(9))
    folder = folders.read_folder(tmp_path)
    assert {split: len(images) for split, images in folder.splits.items()} == {"train": 6, "test": 2}
    (tmp_path / "val" / "c").mkdir()
    write(tmp_path / "val" / "c" / "0.png", grey(1))
    with pytest.raises(
        Impossible, match=f"^{tmp_path}: class c is in one of its splits alone; give folders of the same"
    ):
        folders.read_folder(tmp_path)


def test_what_is_decoded_is_the_middle(tmp_path: Path) -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 200
    assert (folders.decode(write(tmp_path / "wide.png", wide), 20) == 200).all()
    assert folders.decode(tmp_path / "wide.png", 8).shape == (8, 8, 3)
    assert (folders.decode(write(tmp_path / "grey.png", np.full((30, 20), 7)), 16) == 7).all()
    many = np.full((30, 20, 4), 9, np.uint8)
    Image.fromarray(many, "CMYK").save(tmp_path / "cmyk.jpg")
    assert folders.decode(tmp_path / "cmyk.jpg", 16).shape == (16, 16, 3)
    turned = Image.fromarray(wide)
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    upright = folders.decode(tmp_path / "turned.jpg", 20)
    assert upright.mean() > 150


def test_folders_without_classes(tmp_path: Path) -> None:
    says = "folders of classes; give 2 to 65536, with image files in each"
    with pytest.raises(Impossible, match=f"^{tmp_path}: has 0 {says}"):
        folders.read_folder(tmp_path)
    write(tmp_path / "0.png", grey(1))
    with pytest.raises(Impossible, match=f"^{tmp_path}: has 0 {says}"):
        folders.read_folder(tmp_path)
    write(tmp_path / "a" / "0.png", grey(1))
    with pytest.raises(Impossible, match=f"^{tmp_path}: has 1 {says}"):
        folders.read_folder(tmp_path)
    (tmp_path / "b").mkdir()
    with pytest.raises(Impossible, match=f"^{tmp_path / 'b'}: has no image; give files that end in .jpeg, .jpg, .png"):
        folders.read_folder(tmp_path)
    write(tmp_path / "b" / "0.png", grey(1))
    with pytest.raises(Impossible, match=f"^{tmp_path}: too few images, none is left to test on; give 6 or more"):
        folders.read_folder(tmp_path)
    with pytest.raises(Impossible, match=r"none: No such file or directory; give a folder of classes"):
        folders.read_folder(tmp_path / "none")


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "0.png", grey(1))
    root = tmp_path / "root"
    for name in ("a", "b"):
        write(root / name / "0.png", grey(1))
    (root / "b" / "1.png").symlink_to(outside)
    with pytest.raises(Impossible, match=f"^{root / 'b' / '1.png'}: is a link, which is not followed; put files"):
        folders.read_folder(root)
    (root / "b" / "1.png").unlink()
    (root / "c").symlink_to(outside.parent)
    with pytest.raises(Impossible, match=f"^{root / 'c'}: is a link, which is not followed"):
        folders.read_folder(root)
    (tmp_path / "link.png").symlink_to(outside)
    with pytest.raises(Failed, match=f"^{tmp_path / 'link.png'}: is a link, which is not followed$"):
        folders.decode(tmp_path / "link.png", 16)


def test_files_that_are_no_images(tmp_path: Path) -> None:
    path = tmp_path / "0.png"
    for content in (b"", b"\x89PNG\r\n\x1a\n" + b"0" * 50, b"GIF89a"):
        path.write_bytes(content)
        with pytest.raises(Failed, match=rf"^{path}: not an image \("):
            folders.decode(path, 16)
    whole = write(tmp_path / "1.png", np.random.default_rng(0).integers(256, size=(64, 64, 3)))
    whole.write_bytes(whole.read_bytes()[:3000])
    with pytest.raises(Failed, match=f"^{whole}: "):
        folders.decode(whole, 16)
    write(tmp_path / "2.png", np.zeros((9000, 9000), np.uint8), compress_level=1)
    with pytest.raises(Failed, match=r"9000 x 9000 pixels; an image may have 67108864"):
        folders.decode(tmp_path / "2.png", 16)
    write(tmp_path / "3.png", np.zeros((1, 300), np.uint8))
    with pytest.raises(Failed, match=r"300 x 1 pixels; give an image"):
        folders.decode(tmp_path / "3.png", 16)
    os.mkfifo(tmp_path / "4.png")
    with pytest.raises(Failed, match=r"is not a file"):
        folders.decode(tmp_path / "4.png", 16)
