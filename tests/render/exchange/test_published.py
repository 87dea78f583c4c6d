"""Zenodo's records, as odd and as hostile as they come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ident.render.errors import Failed, Impossible
from ident.render.exchange import published
from ident.render.exchange.published import archives_of, record
from tests.servers import Moods, serving


@pytest.fixture
def moods(tmp_path: Path) -> Iterator[Moods]:
    with serving(tmp_path) as moods:
        yield moods


def file(name: str, **changes: Any) -> dict[str, Any]:
    """A file as a record lists it."""
    listed = {"key": name, "size": 1, "checksum": f"md5:{'0' * 32}", "links": {"self": f"https://host/{name}"}}
    return listed | changes


def answer(moods: Moods, text: str) -> None:
    moods.raw = lambda _: [b"HTTP/1.0 200 OK\r\n\r\n", text.encode()]


ODD = {
    "a/x.tar": (file("a/x.tar"), "at 'https://host/a/x.tar'"),
    "x.tar": (file("x.tar", links={"self": "file:///x.tar"}), "at 'file:///x.tar'"),
    "\x1b]0;owned.tar": (file("\x1b]0;owned.tar"), r"at 'https://host/\x1b]0;owned.tar'"),
    "sum.tar": (file("sum.tar", checksum="sha1:00"), "checksum 'sha1:00', size 1"),
    "size.tar": (file("size.tar", size="1"), f"checksum 'md5:{'0' * 32}', size '1'"),
    "links.tar": (file("links.tar", links={}), "no 'self'"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_file_that_is_not_to_be_trusted(moods: Moods, name: str) -> None:
    """It is left out and named; alone, nothing is left."""
    listed, why = ODD[name]
    said = f"zenodo:1: file {name!r} is left out: {why}"
    answer(moods, json.dumps({"files": [listed]}))
    with pytest.raises(Failed) as failed:
        archives_of("zenodo:1", moods.url, pytest.fail)
    assert str(failed.value) == said
    answer(moods, json.dumps({"files": [listed, file("good.tar.gz")]}))
    warnings = list[str]()
    archives = archives_of("zenodo:1", moods.url, warnings.append)
    assert {suffix: archive.url for suffix, archive in archives.items()} == {"-good": "https://host/good.tar.gz"}
    assert warnings == [said]


def test_files_that_nobody_wants_may_be_odd(moods: Moods) -> None:
    names = [*published.names()["3dident"].archives.values()]
    answer(moods, json.dumps({"files": [file("a/read me.txt"), file("old.tar", size=None), *map(file, names)]}))
    archives = archives_of("3dident", moods.url, pytest.fail)
    assert [archive.url for archive in archives.values()] == [f"https://host/{name}" for name in names]


def test_an_archive_that_is_wanted_and_odd(moods: Moods) -> None:
    train, test = published.names()["3dident"].archives.values()
    answer(moods, json.dumps({"files": [file(train, size=None), file(test)]}))
    with pytest.raises(Failed) as failed:
        archives_of("3dident", moods.url, pytest.fail)
    said = f"file '{train}' is left out: checksum 'md5:{'0' * 32}', size None"
    assert str(failed.value) == f"zenodo:4502485: has no {train}, but {test}; zenodo:4502485: {said}"


def test_archives_of_nearly_the_same_name(moods: Moods) -> None:
    names = ("data.v1.tar", "data.v2.tar", "x.tar", "x.tgz")
    answer(moods, json.dumps({"files": [file(name) for name in (*names, "notes.txt")]}))
    assert list(archives_of("zenodo:1", moods.url, pytest.fail)) == ["-data.v1", "-data.v2", "-x.tar", "-x.tgz"]


ANSWERS = {
    "has more than 16777216 bytes": " " * (published.LARGEST_RECORD + 1),
    "not an answer that Zenodo gives (JSONDecodeError: ": "{",
    "not an answer that Zenodo gives (KeyError: 'files')": "{}",
    "not an answer that Zenodo gives (TypeError: ": '{"files": [1]}',
    "not an answer that Zenodo gives (RecursionError: ": "[" * 100_000,
}


@pytest.mark.parametrize("said", ANSWERS)
def test_a_record_that_is_none(moods: Moods, said: str) -> None:
    answer(moods, ANSWERS[said])
    with pytest.raises(Failed) as failed:
        record("1", moods.url)
    assert str(failed.value).startswith(f"{moods.url}/records/1: {said}")


def test_a_record_without_archives(moods: Moods) -> None:
    answer(moods, json.dumps({"files": [file("notes.txt")]}))
    with pytest.raises(Impossible, match=r"^zenodo:1: has no archive, but notes\.txt$"):
        archives_of("zenodo:1", moods.url, pytest.fail)
