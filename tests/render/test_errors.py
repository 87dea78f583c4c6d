"""The two errors are of Python's own kinds, and what catches those kinds does not take ours for something else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from ident.benchmark.suites.tiers import load_tier
from ident.render.blender.settings import Settings
from ident.render.errors import Failed, Impossible
from ident.render.exchange import published
from ident.render.exchange.layouts.files import untarring


def test_what_python_programs_catch() -> None:
    with pytest.raises(ValueError, match="size 3: give a whole number"):
        Settings(size=3)
    with suppress(RuntimeError):
        raise Failed("on the way")
    assert not issubclass(Impossible, RuntimeError)
    assert not issubclass(Failed, ValueError)


def test_a_tier_that_asks_for_the_impossible_is_still_a_tier(tmp_path: Path) -> None:
    tier = tmp_path / "mine.toml"
    tier.write_text("samples = 2\nsupervised = {}\nunsupervised = {}")
    with pytest.raises(Impossible, match=r"mine.toml: supervised: lacks steps, batch_size, learning_rate"):
        load_tier(str(tier))


def test_an_address_that_is_none_is_no_answer_of_zenodo() -> None:
    with pytest.raises(Impossible, match=r"http://\[/records/7': is not a URL"):
        published.record("7", "http://[")


def test_what_a_reader_refuses_is_no_fault_of_the_archive() -> None:
    with pytest.raises(Impossible, match=r"^two sets$"), untarring("a.tar"):
        raise Impossible("two sets")
    with pytest.raises(Failed, match=r"a.tar: not a whole tar archive \(odd\)"), untarring("a.tar"):
        raise ValueError("odd")
