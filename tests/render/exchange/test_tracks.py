"""Tables of tracks: numbers are read, and nothing is evaluated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident.render.errors import Failed
from ident.render.exchange.tracks import read_tracks, tracks_of

HEAD = "id,cat_id,t_0,t_1,t_2,t_3\n"


def test_a_table() -> None:
    rows = 'a,1,"[1.5, 2, 30]","(2.5, 3, 31)",None,"[4, 4, 4]"\nb,2,,"[1,1,1]","[2,2,2e0]",\n'
    first, second = tracks_of(HEAD + rows)
    assert first.tolist() == [[1.5, 2, 30], [2.5, 3, 31]]
    assert second.tolist() == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize(
    "cell",
    [
        "__import__('os').system('touch called')",
        "[1, 2, __import__('os')]",
        "[1, 2]",
        "[1, 2, 3, 4]",
        "[1, 2, 3] + [4]",
        "[1, 2, 1e999]",
        "[1, 2, nan]",
        "[9" + "9" * 300 + ", 1, 1]",
        "=1+1",
        "[-1, 2, 3]",
        "[1, 65, 3]",
        "[1, 2, 0]",
        "(" * 150,
    ],
)
def test_a_cell_with_something_else(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "tracks.csv"
    path.write_text(f'{HEAD}a,1,"[1, 2, 3]","{cell}",,\n')
    with pytest.raises(Failed, match=r"tracks\.csv: line 2, t_1"):
        read_tracks(path)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no table of tracks"),
        ("id,cat_id\n", "0 frames"),
        ("id,cat_id,t_1\n", "its head is"),
        (HEAD, "no object is seen"),
        (HEAD + 'a,1,"[1,2,3]",,,,,\n', "line 2: 6 frames, the head has 4"),
        (HEAD + 'a,1,"[1,2,3]\n', "unexpected end"),
    ],
)
def test_other_tables(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "tracks.csv"
    path.write_text(text)
    with pytest.raises(Failed, match=said):
        read_tracks(path)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tracks = tracks_of(HEAD + text)
    except (Failed, ValueError):
        return
    except Exception as error:
        assert type(error).__name__ == "Error"  # noqa: PT017  the csv module's, which read_tracks words
        return
    assert all(np.isfinite(track).all() for track in tracks)
