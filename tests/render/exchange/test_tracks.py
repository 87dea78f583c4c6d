"""Tables of tracks: numbers are read, and nothing is evaluated."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident.render.errors import Failed
from ident.render.exchange.tracks import read_tracks, tracks_of

HEAD = "id,cat_id,t_0,t_1,t_2,t_3\n"


def test_a_table() -> None:
    rows = (
        'a,1,"[(1.5, 2, 30), None, (5, 6, 7)]","[(2.5, 3, 31), (9, 9, 9), (5.5, 6, 7)]",,"[(4, 4, 4), None, None]"\n'
        'b,2,,"[[1,1,1]]"," [ (2,2,2e0) ] ",None\n'
    )
    tracks = [track.tolist() for track in tracks_of(HEAD + rows)]
    assert tracks == [
        [[1.5, 2, 30], [2.5, 3, 31]],
        [[5, 6, 7], [5.5, 6, 7]],
        [[1, 1, 1], [2, 2, 2]],
    ]


def test_windows_of_a_frame_are_tracks_of_their_own() -> None:
    """Of all pairs of frames that follow each other, window by window, as the published reader takes them."""
    rng = np.random.default_rng(0)
    table = [
        [[None if rng.random() < 0.3 else tuple(rng.uniform(1, 60, 3).tolist()) for _ in range(3)] for _ in range(4)]
        for _ in range(20)
    ]
    text = HEAD + "".join(f"{n},1," + ",".join(f'"{cell!r}"' for cell in row) + "\n" for n, row in enumerate(table))
    pairs = [
        (before, after)
        for row in table
        for one, other in pairwise(row)
        for before, after in zip(one, other, strict=True)
        if before is not None and after is not None
    ]
    ours = [(tuple(a), tuple(b)) for track in tracks_of(text) for a, b in pairwise(track.tolist())]
    assert sorted(ours) == sorted(pairs)


def test_a_window_that_one_frame_lacks_ends_its_track() -> None:
    (track,) = tracks_of(HEAD + 'a,1,"[(1, 1, 1), (2, 2, 2)]","[(1, 1, 1)]","[None, (2, 2, 2)]",[]\n')
    assert track.tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    "cell",
    [
        "__import__('os').system('touch called')",
        "[(1, 2, __import__('os'))]",
        "[1, 2, 3]",
        "(1, 2, 3)",
        "[(1, 2)]",
        "[(1, 2, 3, 4)]",
        "[(1, 2, 3)] + [4]",
        "[(1, 2, 3), (4)]",
        "[(1, 2, 3), none]",
        "[(1, 2, 3) None]",
        "[[(1, 2, 3)]]",
        "[(1, 2, 1e999)]",
        "[(1, 2, nan)]",
        "[(9" + "9" * 300 + ", 1, 1)]",
        "=1+1",
        "[(-1, 2, 3)]",
        "[(1, 65, 3)]",
        "[(1, 2, 0)]",
        "[(1, 2, \u0663)]",
        "(" * 150,
        "[" + ", ".join(["None"] * 33) + "]",
        "[" + " " * 4000 + "None]",
    ],
)
def test_a_cell_with_something_else(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "tracks.csv"
    path.write_text(f'{HEAD}a,1,"[(1, 2, 3)]","{cell}",,\n')
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
        (HEAD + 'a,1,"[(1,2,3)]",,,,,\n', "line 2: 6 frames, the head has 4"),
        (HEAD + 'a,1,"[(1,2,3)]\n', "unexpected end"),
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
