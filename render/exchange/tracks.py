"""The published tracks of Natural Sprites: where objects in videos are, frame by frame, in a CSV file.

A row is an object and a cell a frame, which was made 64 pixels high and cut into windows of 64 columns that overlap by
half. The cell lists where the object is in each window, in Python's notation, which the published reader evaluates:
`[(10.5, 20.1, 30), None, (3.0, 60.2, 12)]`. Here that is what a cell is, or nothing, or the file is refused.
"""

from __future__ import annotations

import csv
import re
from io import StringIO
from itertools import groupby, zip_longest
from pathlib import Path

import numpy as np

from ident.render.aliases import Float64s
from ident.render.errors import Failed
from ident.render.store.files import read

FILE = "downscale_keepaspect.csv"
LARGEST, MOST_ROWS, MOST_COLUMNS = 2**29, 1_000_000, 10_000
MOST_WINDOWS, LONGEST_CELL = 32, 4000
SIDE = 64
"""Pixels of a window: y and x are less, and the area is no more than all of it."""
NUMBER = r"\s*([+-]?(?:\d{1,12}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,2})?)\s*"
ENTRY = rf"(?:None|[\[(]{NUMBER},{NUMBER},{NUMBER}[\])])"
ENTRIES = re.compile(ENTRY, re.ASCII)
CELL = re.compile(rf"\[\s*(?:{ENTRY}\s*(?:,\s*{ENTRY}\s*){{0,{MOST_WINDOWS - 1}}})?\]", re.ASCII)

Place = tuple[float, float, float]
Tracks = list[Float64s]
"""Of each object in each window its y, x and area (T, 3) in frames that follow each other."""


def read_tracks(path: Path) -> Tracks:
    """The tracks in a published file; where an object is not seen, its track ends, and another one may begin."""
    try:
        text = read(path, LARGEST).decode()
        return tracks_of(text)
    except (Failed, ValueError, csv.Error) as error:
        raise Failed(f"{path}: {error}") from error
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error


def tracks_of(text: str) -> Tracks:
    """The tracks of a file's text."""
    lines = csv.reader(StringIO(text, newline=""), strict=True)
    head = next(lines, [])
    times = head[2:]
    if head[:2] != ["id", "cat_id"] or times != [f"t_{number}" for number in range(len(times))]:
        raise Failed(f"no table of tracks: its head is {', '.join(head)[:100]!r}, not id, cat_id, t_0, t_1, ...")
    if not 1 <= len(times) <= MOST_COLUMNS:
        raise Failed(f"{len(times)} frames; there may be 1 to {MOST_COLUMNS}")
    tracks = Tracks()
    for number, cells in enumerate(lines, 2):
        if number > MOST_ROWS:
            raise Failed(f"it has more than {MOST_ROWS} rows")
        if cells:
            tracks += of_row(cells[2:], number, len(times))
    if not tracks:
        raise Failed("no object is seen in two frames that follow each other")
    return tracks


def of_row(cells: list[str], line: int, most: int) -> Tracks:
    """The tracks of one object: runs of frames in which it is seen in a window."""
    if len(cells) > most:
        raise Failed(f"line {line}: {len(cells)} frames, the head has {most}")
    frames = [places_of(cell, f"line {line}, t_{number}") for number, cell in enumerate(cells)]
    runs = [list(run) for window in zip_longest(*frames) for seen, run in groupby(window, is_seen) if seen]
    return [np.array(run) for run in runs if len(run) > 1]


def is_seen(place: Place | None) -> bool:
    """Whether an object is in a window."""
    return place is not None


def places_of(cell: str, where: str) -> list[Place | None]:
    """The y, x and area of an object in each window of a frame, None where it is not; nothing if it is in none."""
    text = cell.strip()
    if text in ("", "None"):
        return []
    if len(text) > LONGEST_CELL or not CELL.fullmatch(text):
        raise Failed(
            f"{where}: {cell[:60]!r} is no list of (y, x, area) or None for each of at most {MOST_WINDOWS} windows; "
            "it was not evaluated"
        )
    return [place_of(entry, where) for entry in ENTRIES.finditer(text)]


def place_of(entry: re.Match[str], where: str) -> Place | None:
    """The y, x and area of an entry, if it is not None."""
    if entry.group() == "None":
        return None
    y, x, area = map(float, entry.groups())
    if not (0 <= y <= SIDE and 0 <= x <= SIDE and 0 < area <= SIDE**2):
        raise Failed(f"{where}: y {y:g}, x {x:g}, area {area:g} lie outside of {SIDE} x {SIDE} pixels")
    return y, x, area
