"""What commands write stays below the folder that the user names: no link is followed, nothing else is deleted."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ident.cli.commands import ident as command
from ident.render.errors import Failed, Impossible
from ident.render.store.dataset import Dataset
from ident.render.store.manifest import Manifest
from ident.render.store.storage import Storage
from tests.render.store.test_dataset import WANTED, N, paint

LAYOUTS = ("3dident", "causal3dident", "webdataset", "mds", "huggingface")
ROW = ("--suite", "table2", "--row", "normal-box-normal")
IDENTITY = ("bench", *ROW, "--kind", "identity", "--device", "cpu", "--out")
RUN = "table2/laptop/laplace-box-laplace-identity-seed0"


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, the same in a layout of others, and results."""
    folder = tmp_path_factory.mktemp("painted")
    paint(folder / "d")
    typed("export", folder / "d", "--to", "3dident", "--out", folder / "tree")
    typed(*IDENTITY, folder / "results")
    return folder


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of the user's with files that are called as ours are."""
    folder = tmp_path / "precious"
    (folder / "tensorboard").mkdir(parents=True)
    for name in ("keep.txt", "00000.h5", "00000.part", "0-00000.part", ".ident-01234567", "0.png"):
        (folder / name).write_text(f"precious {name}")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def typed(*arguments: object) -> Result:
    """What a command does; one that waits for a pipe is interrupted."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(120)
    try:
        return CliRunner().invoke(command, list(map(str, arguments)))
    finally:
        signal.alarm(0)


def arguments(name: str, painted: Path, out: Path) -> list[object]:
    """A command that writes to a folder."""
    kind, _, layout = name.partition(" ")
    return {
        "pull": ["pull", painted / "d", "--out", out],
        "push": ["push", painted / "d", out],
        "import": ["import", painted / "tree", "--from", "3dident", "--out", out],
        "export": ["export", painted / "d", "--to", layout, "--out", out],
        "bench": [*IDENTITY, out],
        "report": ["report", painted / "results", "--out", out],
    }[kind]


COMMANDS = ("pull", "push", "import", *(f"export {layout}" for layout in LAYOUTS), "bench", "report")
FOLDERS = [
    ("pull", ".parts"),
    ("pull", "shards"),
    ("push", "shards"),
    ("import", ".parts"),
    ("import", "shards"),
    ("export 3dident", "images"),
    ("export causal3dident", "images_0"),
    ("export huggingface", "data"),
    ("bench", "table2"),
    ("bench", "table2/laptop"),
    ("bench", RUN),
]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(("name", "place"), FOLDERS)
def test_a_link_in_place_of_a_folder_of_ours(
    painted: Path, precious: Path, tmp_path: Path, name: str, place: str, force: bool
) -> None:
    before, link = content(precious), tmp_path / "out" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    done = typed(*arguments(name, painted, tmp_path / "out"), *(["--force"] if force else []))
    assert content(precious) == before
    assert isinstance(done.exception, Impossible)
    refused = f"{link}: is a link, and nothing goes where it leads; remove it, or give another"
    assert refused in str(done.exception) or (not force and "holds something else" in str(done.exception))
    assert link.is_symlink()


LOCKS = [(name, ".lock") for name in COMMANDS if name not in ("bench", "report")] + [("bench", "table2/laptop/.lock")]
TRAPS: dict[str, Callable[[Path, Path], object]] = {
    "is a link, and nothing goes where it leads; remove it": lambda path, file: path.symlink_to(file),
    "is another file's second name, which would be changed with it": lambda path, file: os.link(file, path),
    "is not a file; remove it": lambda path, _: os.mkfifo(path),
}
LINK, NAME, PIPE = TRAPS.values()


def nowhere(path: Path, file: Path) -> None:
    path.symlink_to(file.with_name("new"))


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize(("name", "place"), LOCKS)
def test_a_lock_that_is_none(painted: Path, precious: Path, tmp_path: Path, name: str, place: str, trap: str) -> None:
    before, lock = content(precious), tmp_path / "out" / place
    lock.parent.mkdir(parents=True)
    TRAPS[trap](lock, precious / "keep.txt")
    done = typed(*arguments(name, painted, tmp_path / "out"))
    assert content(precious) == before
    assert isinstance(done.exception, Impossible)
    assert f"{lock}: {trap}" in str(done.exception)


def sum_of(painted: Path) -> str:
    return Manifest.read(Storage(str(painted / "d"))).shards[0].sha256[:16]


IN_PLACE = [
    ("pull", ".parts/00000.{sum}"),
    ("import", ".parts/0-00000.part"),
    ("import", ".parts/00000.rows"),
    ("import", ".parts/00000.h5"),
    ("export 3dident", "images/.ident-00.png.part"),
    ("export mds", ".ident-shard.00000.mds.part"),
]
"""What is written under the name that it has."""
RENAMED = [
    ("pull", "shards/00000.h5"),
    ("pull", "dataset.json"),
    ("push", "shards/00000.h5"),
    ("push", "dataset.json"),
    ("import", ".imported"),
    ("import", "dataset.json"),
    ("export 3dident", ".exported"),
    ("export 3dident", "images/00.png"),
    ("export mds", "index.json"),
    ("bench", f"{RUN}/result.json"),
    ("bench", f"{RUN}/recovered.npz"),
    ("report", "index.html"),
    ("report", "results.jsonl"),
]
"""What appears under its name when it is whole."""


@pytest.mark.parametrize(
    ("name", "place", "trap"),
    [
        *((*file, trap) for file in IN_PLACE for trap in (LINK, NAME, PIPE, nowhere)),
        *((*file, trap) for file in RENAMED for trap in (LINK, PIPE)),
    ],
)
def test_a_file_of_ours_that_is_none(
    painted: Path, precious: Path, tmp_path: Path, name: str, place: str, trap: Callable[[Path, Path], object]
) -> None:
    before, path = content(precious), tmp_path / "out" / place.format(sum=sum_of(painted))
    begun = name == "import" and ".parts" in place
    if begun:  # of another one all is removed first
        typed(*arguments(name, painted, tmp_path / "out"))
        for file in ("dataset.json", "shards/00000.h5"):
            (tmp_path / "out" / file).unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    trap(path, precious / "keep.txt")
    done = typed(*arguments(name, painted, tmp_path / "out"), *(["--force"] if name != "bench" and not begun else []))
    assert content(precious) == before
    assert done.exception is None or isinstance(done.exception, Impossible | Failed), done.exc_info


@pytest.mark.parametrize("name", COMMANDS)
def test_the_folder_itself_may_be_a_link(painted: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "out").symlink_to(tmp_path / "real" / "below")
    for out in (tmp_path / "link" / "new", tmp_path / "out"):
        done = typed(*arguments(name, painted, out))
        assert done.exception is None, done.exc_info
    assert content(tmp_path / "real" / "new").keys() == content(tmp_path / "real" / "below").keys()


@pytest.mark.parametrize("name", ["pull", "import"])
def test_what_lies_in_parts_and_is_not_ours_stays(painted: Path, tmp_path: Path, name: str) -> None:
    parts = tmp_path / "out" / ".parts"
    (parts / "00001.part").mkdir(parents=True)
    for file in ("mine.txt", "00000.part", ".ident-01234567"):
        (parts / file).write_text("?")
    done = typed(*arguments(name, painted, tmp_path / "out"), "--force")
    assert done.exception is None, done.exc_info
    assert sorted(path.name for path in parts.iterdir()) == ["00001.part", "mine.txt"]
    assert np.array_equal(Dataset(tmp_path / "out").images(range(N)), WANTED)


def test_a_mark_of_others_deletes_nothing_but_an_export(painted: Path, tmp_path: Path) -> None:
    """Of as many files as it claims, in no time, and only those of its layout."""
    (tmp_path / "out" / "images").mkdir(parents=True)
    mark = '{"dataset": "", "layout": "3dident", "files": [1000000000000]}'
    for name, text in ((".exported", mark), ("images/000000000007.png", "7"), ("images/7.png", "7"), ("a.png", "7")):
        (tmp_path / "out" / name).write_text(text)
    done = typed(*arguments("export mds", painted, tmp_path / "out"), "--force")
    assert done.exception is None, done.exc_info
    assert {name for name in content(tmp_path / "out") if name.endswith("png")} == {"images/7.png", "a.png"}


def test_the_index_beside_a_dataset(precious: Path, tmp_path: Path) -> None:
    data = tmp_path / "d"
    paint(data, n=100)  # of fewer no index is kept
    (data / ".index").symlink_to(precious)
    before = content(precious)
    done = typed(
        "pairs", data, "--conditional", "normal(0.5)", "--n", 10, "--index", "hnsw", "--out", tmp_path / "p.h5"
    )
    assert content(precious) == before
    assert isinstance(done.exception, Impossible | None)


@pytest.mark.parametrize(("name", "trap"), [("p.h5", LINK), ("p.h5", PIPE), ("p.png", NAME), ("p-images.png", nowhere)])
def test_the_files_of_pairs(
    painted: Path, precious: Path, tmp_path: Path, name: str, trap: Callable[[Path, Path], object]
) -> None:
    before = content(precious)
    trap(tmp_path / name, precious / "keep.txt")
    given = ["pairs", painted / "d", "--conditional", "normal(0.5)", "--n", 10, "--out", tmp_path / "p.h5"]
    done = typed(*given, "--plot", "--show", 2, "--force")
    assert content(precious) == before
    assert done.exception is None, done.exc_info
    assert (tmp_path / name).is_file()
    assert not (tmp_path / name).is_symlink()


def test_a_pipe_is_not_waited_for(painted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the files that commands read first."""
    monkeypatch.chdir(tmp_path)
    for arguments_, place in (
        (["info", "out"], "out/dataset.json"),
        (["verify", "out"], "out/dataset.json"),
        (["verify", "damaged"], "damaged/shards/00000.h5"),
        (["pull", painted / "d", "--out", "out"], "out/dataset.json"),
        (["report", "results"], "results/table2/laptop/a/result.json"),
        (["pairs", painted / "d", "--conditional", "normal(0.5)", "--n", 10], "pairs.h5"),
        (["import", "pipe", "--from", "mds", "--out", "there"], "pipe"),
        (["show", "--raw-latents", "pipe", "--out", "there"], "pipe"),
    ):
        shutil.rmtree(tmp_path / "damaged", ignore_errors=True)
        shutil.copytree(painted / "d", tmp_path / "damaged")
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        done = typed(*arguments_)
        assert done.exit_code == 1
        assert place in f"{done.exception} {done.output}"
        path.unlink()
