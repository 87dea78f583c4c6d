"""The published tracks of Natural Sprites: where objects in videos are, frame by frame, in a CSV file.

Its cells hold Python's notation for numbers, which the published reader evaluates. Here a cell is three numbers in
brackets, None or nothing, or the file is refused.
"""

from __future__ import annotations

import csv
import re
from io import StringIO
from pathlib import Path

import numpy as np

from ident.render.aliases import Float64s
from ident.render.errors import Failed
from ident.render.store.files import read

FILE = "downscale_keepaspect.csv"
LARGEST, MOST_ROWS, MOST_COLUMNS, LONGEST_CELL = 2**29, 1_000_000, 10_000, 200
SIDE = 64
"""Pixels of a frame: y and x are less, and the area is no more than all of it."""
NUMBER = r"\s*([+-]?(?:\d{1,12}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,2})?)\s*"
CELL = re.compile(rf"\s*[\[(]{NUMBER},{NUMBER},{NUMBER}[\])]\s*")

Tracks = list[Float64s]
"""Of each object its y, x and area (T, 3) in frames that follow each other."""


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
    """The tracks of one object: runs of frames in which it is seen."""
    if len(cells) > most:
        raise Failed(f"line {line}: {len(cells)} frames, the head has {most}")
    runs: list[list[tuple[float, float, float]]] = [[]]
    for number, cell in enumerate(cells):
        place = place_of(cell, f"line {line}, t_{number}")
        if place is not None:
            runs[-1].append(place)
        elif runs[-1]:
            runs.append([])
    return [np.array(run) for run in runs if len(run) > 1]


def place_of(cell: str, where: str) -> tuple[float, float, float] | None:
    """The y, x and area of a cell, if an object is seen there."""
    if cell.strip() in ("", "None"):
        return None
    match = CELL.fullmatch(cell) if len(cell) <= LONGEST_CELL else None
    if match is None:
        raise Failed(f"{where}: {cell[:60]!r} is not (y, x, area), None or nothing; it was not evaluated")
    y, x, area = map(float, match.groups())
    if not (0 <= y <= SIDE and 0 <= x <= SIDE and 0 < area <= SIDE**2):
        raise Failed(f"{where}: y {y:g}, x {x:g}, area {area:g} lie outside of {SIDE} x {SIDE} pixels")
    return y, x, area
