"""`ident pull` and `ident push` as a user types them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ident.render.blender.settings import Settings, plain
from ident.render.exchange.copying import AT_ONCE
from ident.render.exchange.layouts import LAYOUTS
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from tests.conftest import Run, Start
from tests.processes import wait_for
from tests.render.engines import RECIPE
from tests.render.exchange.test_import_ import FILES, RAW, tar
from tests.render.store.test_dataset import WANTED, N, paint
from tests.servers import serving


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of twelve shards with something in them."""
    folder = tmp_path_factory.mktemp("painted")
    paint(folder / "d", replace(RECIPE, settings=Settings(128, plain(1)), codec="fast", passes=("normal",)), 96)
    return folder


def test_push_and_pull(painted: Path, ident: Run, tmp_path: Path) -> None:
    done = ident("push", painted / "d", tmp_path / "served" / "d")
    assert done.returncode == 0, done.stderr
    assert "96 images" in done.stdout
    with serving(tmp_path / "served") as moods:
        done = ident("pull", f"{moods.url}/d", "--json")
        size = Manifest.read(Storage(str(painted / "d"))).disk
        assert json.loads(done.stdout) == {"datasets": [{"out": "data/d", "images": 96, "bytes": size}]}
        assert "fetching: " in done.stderr
        assert ident("verify", "data/d").returncode == 0
        assert "complete" in ident("info", f"{moods.url}/d").stdout
        assert ident("verify", f"{moods.url}/d").returncode == 0


def size_of(path: Path) -> int:
    """Of a file that may get its name in this moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_killed_at_half_and_continued(painted: Path, ident: Run, start: Start, tmp_path: Path) -> None:
    manifest = Manifest.read(Storage(str(painted / "d")))
    largest = max(record.bytes for record in manifest.shards.values())
    with serving(painted) as moods:
        moods.stops_at = manifest.disk * 3 // 4
        going = start("-m", "ident.cli", "pull", f"{moods.url}/d", "--out", "d")
        wait_for(lambda: sum(map(size_of, (tmp_path / "d").rglob("*.*"))) >= manifest.disk // 2)
        assert going.poll() is None
        going.kill()
        going.wait()
    with serving(painted) as moods:
        assert ident("pull", f"{moods.url}/d", "--out", tmp_path / "d").returncode == 0
        # A shard is one piece here: what was on its way to each of the threads may not be in a file yet.
        assert moods.sent <= manifest.disk / 2 + AT_ONCE * largest < manifest.disk
    assert ident("verify", tmp_path / "d").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("pull", "./nowhere"), 2, "nowhere: no dataset there, dataset.json is missing"),
        (("pull", "http://127.0.0.1:9/d"), 1, "127.0.0.1:9 cannot be reached (Connection refused)"),
        (("pull", "foo://bar"), 2, "nobody knows foo://"),
        (("push", "nowhere", "there"), 2, "nowhere: no dataset there"),
        (("push", "nowhere", "http://host/there"), 2, "nothing that lasts can be written there"),
        (("push", "./nowhere", "nowhere/"), 2, "are the same place; give another DEST"),
        (("pull", "data/x", "--force"), 2, "data/x and data/x are the same place; give another --out"),
        (("pull", "3dident", "--mirror", "./d"), 2, "--mirror with 3dident: only a folder with a dataset.json has"),
        (("pull", "./a.tar", "--zenodo", "http://host"), 2, "--zenodo with ./a.tar: only for names and records"),
        (
            ("pull", "./d", "--codec", "fast"),
            2,
            "--codec with ./d: a folder with a dataset.json, and a",
        ),
        (("pull", "./d", "--zenodo", "http://host"), 2, "--zenodo with ./d: only for names and records"),
    ],
)
def test_what_cannot_be(ident_here: Run, arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    done = ident_here(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "source",
    [
        ("3dident", "--zenodo", "https://zenodo.invalid/api"),
        ("https://zenodo.invalid/d",),
        ("https://zenodo.invalid/x.tar",),
    ],
)
def test_without_a_network(ident_here: Run, source: tuple[str, ...], tmp_path: Path) -> None:
    done = ident_here("pull", *source)
    why = r"\((its name is not known here|no answer)\)"  # the second where the look-up itself goes nowhere
    assert re.fullmatch(rf"ident: zenodo\.invalid cannot be reached {why}: is there a network\?\n", done.stderr)
    assert (done.returncode, done.stdout) == (1, "")
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_rude(ident_here: Run, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as moods:
        moods.raw = lambda _: [b"HTTP/1.1 403 \x1b]0;owned\x07\r\n\r\n"]
        for command in ("pull", "info", "verify"):
            done = ident_here(command, f"{moods.url}/d")
            assert done.returncode == 1
            assert done.stderr == f"ident: {moods.url}/d/dataset.json: answers 403 Forbidden\n"
        moods.raw = lambda _: [b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"]
        done = ident_here("pull", f"{moods.url}/x.tar")
        assert done.returncode == 1
        said = "is redirected to 'file:///etc/passwd'; only to http:// and https:// it is followed"
        assert done.stderr == f"ident: {moods.url}/x.tar: {said}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["served"]


def stand_in(folder: Path) -> None:
    """Zenodo's record of 3DIdent, with small archives."""
    (folder / "records").mkdir()
    files = []
    for name in ("3dident_train.tar", "3dident_test.tar"):
        data = tar(FILES).getvalue()
        (folder / name).write_bytes(data)
        sum_ = hashlib.md5(data).hexdigest()
        files.append({"key": name, "checksum": f"md5:{sum_}", "size": len(data), "links": {"self": f"URL/{name}"}})
    (folder / "records" / "4502485").write_text(json.dumps({"files": files}))


def test_the_published_dataset_by_its_name(ident_here: Run, tmp_path: Path) -> None:
    (tmp_path / "zenodo").mkdir()
    stand_in(tmp_path / "zenodo")
    with serving(tmp_path / "zenodo") as moods:
        moods.changed = lambda path, data: data.replace(b"URL", moods.url.encode()) if "records" in path else data
        moods.cut = 0.3
        done = ident_here("pull", "3dident", "--zenodo", moods.url)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "data/3dident/dataset.json: 20 images, 0.0 MB", "data/3dident-test/dataset.json: 20 images, 0.0 MB",
        ]  # fmt: skip
        for folder in ("data/3dident", "data/3dident-test"):
            assert ident_here("verify", folder).returncode == 0
            said = ident_here("info", folder).stdout
            assert "elsewhere, how is not known" in said
            assert "layout 3dident, origin zenodo:4502485/3dident_t" in said
            assert np.array_equal(Dataset(tmp_path / folder).latents, RAW)
        asked = len(moods.asked)
        assert ident_here("pull", "3dident", "--zenodo", moods.url).returncode == 0
        assert len([path for path, _ in moods.asked[asked:] if path.endswith(".tar")]) == 0
        moods.cut, archive = 0.0, tmp_path / "zenodo" / "3dident_test.tar"
        archive.write_bytes(archive.read_bytes()[:-1] + b"x")
        done = ident_here("pull", "3dident", "--zenodo", moods.url, "--out", "other")
        assert done.returncode == 1
        assert "3dident_test.tar: arrived damaged, its md5 is" in done.stderr
        assert not (tmp_path / "other-test" / "dataset.json").exists()
        done = ident_here("pull", f"{moods.url}/3dident_train.tar?download=1")
        assert "data/3dident_train/dataset.json: 20 images" in done.stdout
        done = ident_here("pull", f"{moods.url}/none.tar")
        assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"ident: {moods.url}/none.tar: is not there")
    done = ident_here("import", "zenodo/3dident_train.tar", "--from", "3dident", "--out", "imported", "--codec", "fast")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(Dataset(tmp_path / "imported").images(range(N)), WANTED)


def test_names_that_nobody_knows(ident_here: Run) -> None:
    assert ident_here("pull", "--list").stdout.startswith("3dident: zenodo:4502485, 3dident_train.tar")
    listed = json.loads(ident_here("pull", "--list", "--json").stdout)
    assert listed["3dident"] == ["zenodo:4502485", "3dident_train.tar", "3dident_test.tar"]
    for arguments, said in (
        (("3dindent",), "3dindent: did you mean 3dident?"),
        (
            ("xyz",),
            "xyz: the names are 3dident, causal3dident, kitti-masks, natural-sprites, mnist, cifar10. A URL",
        ),
        ((), "SOURCE is missing"),
        (("zenodo:abc",), "zenodo:abc: give the number of a record"),
    ):
        done = ident_here("pull", *arguments)
        assert done.returncode == 2
        assert said in done.stderr


def test_an_archive_in_no_known_layout(ident_here: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"x/y.txt": b"1", "z.png": b"2"}).getvalue())
    done = ident_here("pull", "./a.tar", "--out", "d")
    assert done.returncode == 2
    assert f"a.tar: in none of the layouts {', '.join(LAYOUTS)}; found x/y.txt, z.png" in done.stderr
