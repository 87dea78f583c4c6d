"""Published datasets that are one file: fetched or copied as it is, once a reader that trusts nothing has read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from types import MappingProxyType

from ident.render.aliases import Tell
from ident.render.errors import Failed, Impossible
from ident.render.exchange import dsprites, masks, tracks
from ident.render.exchange.published import Archive
from ident.render.store.files import bounded, check_room, make_folder, make_inside, whole
from ident.render.store.storage import Storage


@dataclass(frozen=True)
class Single:
    """A dataset of one file: its name, and what reads it and says in a line what is in it."""

    file: str
    describe: Callable[[Path, Tell], str]


def describe_masks(path: Path, _: Tell) -> str:
    """How many masks there are."""
    sequences = masks.read_masks(path)
    return f"{sum(len(frames) for frames, _ in sequences)} masks in {len(sequences)} sequences"


def describe_tracks(path: Path, _: Tell) -> str:
    """How many tracks there are."""
    table = tracks.read_tracks(path)
    return f"{sum(map(len, table))} places in {len(table)} tracks"


def describe_dsprites(path: Path, tell: Tell) -> str:
    """How the images differ from the drawn ones."""
    return str(dsprites.compare(path, tell))


SINGLES: Mapping[str, Single] = MappingProxyType(
    {
        "kitti-masks": Single(masks.FILE, describe_masks),
        "natural-sprites": Single(tracks.FILE, describe_tracks),
        "dsprites": Single(dsprites.FILE, describe_dsprites),
    }
)


def fetch(name: str, archive: Archive, out: Path, *, force: bool, tell: Tell) -> str:
    """Bring a published file into a folder, checked by its publisher's sum and by its reader; says what is in it."""
    single = SINGLES[name]
    path = prepared(single, out, archive.md5, force=force)
    if path.is_file() and not force:
        return single.describe(path, tell)
    assert archive.size is not None
    check_room(out, archive.size, f"{archive.size / 1e9:.2f} GB are to come,")
    place, _, file = archive.url.rpartition("/")
    digest, done = md5(usedforsecurity=False), 0
    try:
        with whole(path) as part:
            with part.open("wb") as target:
                for piece in bounded(Storage(place).stream(file), archive.size, archive.url):
                    digest.update(piece)
                    target.write(piece)
                    done += len(piece)
                    tell(done, archive.size)
            if digest.hexdigest() != archive.md5:
                raise Failed(
                    f"{archive.url}: arrived damaged, its md5 is {digest.hexdigest()}, not {archive.md5}; type it again"
                )
            return single.describe(part, tell)
    except FileNotFoundError as error:
        raise Impossible(f"{archive.url}: is not there") from error


def copy(name: str, source: Path, out: Path, *, force: bool, tell: Tell) -> str:
    """Bring a published file that lies on a disk into a folder, if its reader can read it; says what is in it."""
    single = SINGLES[name]
    if not source.is_file():
        raise Impossible(f"{source}: is not a file; give {single.file}")
    description = single.describe(source, tell)
    path = prepared(single, out, None, force=force)
    if path.is_file() and path.read_bytes() == source.read_bytes():
        return description
    if path.exists() and not force:
        raise Impossible(f"{path}: holds something else; give --force to overwrite it, or another --out")
    with whole(path) as part, part.open("wb") as target, source.open("rb") as file:
        while piece := file.read(2**20):
            target.write(piece)
    return description


def prepared(single: Single, out: Path, sum_of_file: str | None, *, force: bool) -> Path:
    """Where a file goes; refused where another one lies that shall not be overwritten."""
    make_folder(out.absolute())
    make_inside(out.parent, out.name)
    path = out / single.file
    if path.is_file() and sum_of_file is not None and not force:
        digest = md5(usedforsecurity=False)
        with path.open("rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
        if digest.hexdigest() != sum_of_file:
            raise Impossible(f"{path}: holds something else; give --force to overwrite it, or another --out")
    return path
