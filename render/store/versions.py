"""One version of a file that may be replaced where it lies: what tells it from others, and its bytes, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from ident.render.errors import Failed
from ident.render.store.retries import Again, patiently


@dataclass(frozen=True)
class Version:
    """What tells a file from those that had its name before or get it later, as far as its server says."""

    size: int | None = None
    etag: str = ""
    modified: str = ""
    strong: bool = False
    """Whether files of this ETag, or of this date where there is none, are the same byte by byte."""

    @property
    def mark(self) -> str:
        """The best of what tells it from others."""
        return self.etag or self.modified

    def differs(self, other: Version) -> bool:
        """Whether the two cannot be the same."""
        pairs = (self.size, other.size), (self.etag, other.etag), (self.modified, other.modified)
        return any(one != two for one, two in pairs if one not in (None, "") and two not in (None, ""))


def one_version(open_at: Callable[[int, bytes], Iterator[bytes]], what: str, size: int | None) -> Iterator[bytes]:
    """The bytes of one version of a source, as `patiently` has them; `open_at` gets the sha256 of those before, too."""
    seen = sha256()

    def chunks(place: int) -> Iterator[bytes]:
        for chunk in open_at(place, seen.digest()):
            seen.update(chunk)
            place += len(chunk)
            yield chunk
        if size is not None and place < size:
            raise Again(f"ends after {place} bytes of {size}")

    return patiently(chunks, what)


def beyond(chunks: Iterator[bytes], start: int, digest: bytes | None, what: str) -> Iterator[bytes]:
    """What comes after the first `start` bytes, which must have the sha256 `digest`, if one is given."""
    skipped = sha256()
    for chunk in chunks:
        skipped.update(chunk[:start])
        rest, start = chunk[start:], max(0, start - len(chunk))
        if not start:
            if digest not in (None, skipped.digest()):
                raise changed(what)
            digest = None
        if rest:
            yield rest
    if start:
        raise Again(f"ends {start} bytes before the place where it broke off")


def changed(what: str) -> Failed:
    """The error for a file of which one part has come, and of which there is another version now."""
    return Failed(f"{what}: was replaced on its server while it was fetched; type the command again, which begins anew")
