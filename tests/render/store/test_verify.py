"""A check that cannot be made is refused before the others are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ident.render.errors import Impossible
from ident.render.stage.rerender import rendered_world
from ident.render.store.verify import verify
from tests.render.store.test_dataset import paint


def test_nothing_is_rendered_again_where_nothing_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = paint(tmp_path / "d")
    (tmp_path / "d" / "shards" / "00000.h5").unlink()
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    with pytest.raises(Impossible, match=r"rendering needs Python 3\.11, here is .*: type "):
        rendered_world(manifest)
    assert len(verify(str(tmp_path / "d"), done=lambda *_: None).wrong) == 1
