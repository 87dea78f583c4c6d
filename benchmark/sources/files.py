"""Files that others have published: where they are looked for, what to type for them, and which one it is."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from ident.render.errors import Impossible


def place_of(place: str, name: str, file: str, stand_in: str) -> Path:
    """The file of a published dataset at a place: itself, or in the folder that `ident pull` makes."""
    path = Path(place or f"data/{name}")
    path = path / file if path.is_dir() or not path.suffix else path
    if not path.is_file():
        raise Impossible(f"{path}: is not there; type ident pull {name}, or --source {stand_in} for stand-ins")
    return path


def digest_of(path: Path) -> str:
    """The sha256 of a file."""
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()
