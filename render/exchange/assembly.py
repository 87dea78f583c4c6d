"""What others have made becomes shards: images in any order, as they stream by.

Every image is decoded, checked, encoded anew and kept in a journal; when all are there and the archive's own checksum
holds, shards are made of these, and each journal goes with its last row. So there is never a second copy of more than
a shard, and an interrupted import does not encode an image twice. All rows are of the files as they came last: beside
an image the journal has its file's sha256, and the shards are noted with one of all that they were made of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Self

import numpy as np

from ident.render.aliases import Float32s
from ident.render.errors import Failed
from ident.render.exchange.layouts.layout import Item, Latents, Layout, Parts, Picture
from ident.render.exchange.pictures import decode
from ident.render.store.columns import IMAGES, Column, Sums, sums
from ident.render.store.files import IMPORTED, LARGEST_NOTE, PARTS, make_inside, read, remove_folder, write
from ident.render.store.inventory import clear, put_shard
from ident.render.store.journal import Journal
from ident.render.store.manifest import MANIFEST, Manifest, Record
from ident.render.store.recipe import Imported
from ident.render.store.shards import Span
from ident.render.store.storage import Storage
from ident.render.threads import in_order
from ident.render.worlds.threedident import FACTORS

SHARD_SIZE = 1000
OPEN = 200  # journals at a time; systems allow a process some 1,000 files

Encoded = tuple[list[bytes], Sums]
"""An image, the sha256 of the file that it was, and the sums of its pixels."""


@dataclass(frozen=True)
class Note:
    """What a folder says of the import that was begun there, or is done: in the file IMPORTED."""

    key: bytes
    """What tells this import from others."""
    latents: int
    """How many each image has: fewer, where an ident of before did not keep all."""
    ends: list[int]
    """The rows before which each part ends, where shards are made already."""
    records: dict[int, Record]
    made_of: str | None
    """The sha256 of all that the shards are made of."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The note in a folder, if one can be understood."""
        try:
            noted = json.loads(read(folder / IMPORTED, LARGEST_NOTE))
            records = {int(number): Record(**record) for number, record in noted["records"].items()}
            latents = int(noted.get("latents", len(FACTORS)))
            return cls(bytes.fromhex(noted["key"]), latents, [*map(int, noted["ends"])], records, noted["made_of"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, Failed):
            return None

    def write(self, folder: Path) -> None:
        """Leave the note in a folder."""
        write(folder / IMPORTED, json.dumps(asdict(self) | {"key": self.key.hex()}).encode())


class Assembly:
    """An import into a folder: the journals of what has come, and the shards that are made of them."""

    def __init__(self, out: Storage, layout: Layout, source: Imported, codec: str, key: bytes) -> None:
        """Import a source in a layout, with a key that tells it from others."""
        self._out, self._layout, self._source, self._codec, self._key = out, layout, source, codec, key
        self._parts = out.here / PARTS
        self._announced: Parts | None = None
        self._raw: dict[int, Float32s] = {}
        self._seen: dict[int, set[int]] = {}
        self._journals: dict[tuple[int, int], Journal] = {}
        self._column: Column | None = None
        self._records = dict[int, Record]()
        self._ends = list[int]()
        self._made_of: str | None = None
        self._digest = sha256()

    def run(self, items: Iterable[Item], check: Callable[[], object]) -> Manifest:
        """Take in all items, and make shards of them once `check` finds nothing wrong with where they came from."""
        make_inside(self._out.here, PARTS)
        self._resume()
        self._note()
        try:
            self._take_in(items)
            check()
            self._settle()
            self._lay_out()
            manifest = self._make_shards()
        finally:
            for journal in self._journals.values():
                journal.close()
        self._out.write(MANIFEST, manifest.to_json().encode())
        remove_folder(self._parts)
        return manifest

    def _resume(self) -> None:
        """Take up the shards that an earlier run made of these files, but for what was damaged since."""
        note = Note.read(self._out.here)
        if note is None or note.key != self._key:
            return
        self._ends, self._made_of = note.ends, note.made_of
        for number, record in note.records.items():
            if not self._out.fault(Span(number, record.start, record.n).file, record.bytes, record.sha256):
                self._records[number] = record

    def _note(self) -> None:
        note = Note(self._key, len(self._layout.factors), self._ends, self._records, self._made_of)
        note.write(self._out.here)

    def _take_in(self, items: Iterable[Item]) -> None:
        for picture, (encoded, of_image) in in_order(self._encode, self._new(items)):
            self._journal(picture.part, picture.number).add(picture.number % SHARD_SIZE, encoded, of_image)

    def _new(self, items: Iterable[Item]) -> Iterator[Picture]:
        """Note what comes; gives the images that are not there yet."""
        for item in items:
            if isinstance(item, Parts):
                if self._announced not in (None, item):
                    raise Failed(f"{self._source.origin}: its files do not agree on how many parts it has")
                self._announced = item
                continue
            if isinstance(item, Latents):
                if item.part in self._raw:
                    raise Failed(f"{self._source.origin}: raw latents of part {item.part} are there twice")
                self._raw[item.part] = item.raw
                self._digest.update(f"latents {item.part} ".encode() + item.raw.tobytes())
                continue
            if item.number in self._seen.setdefault(item.part, set()):
                raise Failed(f"{self._source.origin}: {item.name} is there twice")
            self._seen[item.part].add(item.number)
            digest = sha256(item.data).digest()
            self._digest.update(f"image {item.part} {item.number} ".encode() + digest)
            if self._column is None:
                image = decode(item.data, item.name)
                self._column = Column(image.shape, image.dtype, self._codec)
            if not self._has(item, digest):
                yield item

    def _encode(self, item: Picture) -> Encoded:
        image, column = decode(item.data, item.name), self._column
        assert column is not None
        if image.shape != column.shape:
            raise Failed(f"{item.name}: {image.shape[0]} pixels a side, the first image has {column.shape[0]}")
        return [column.encode(image), sha256(item.data).digest()], sums(image)

    def _journal(self, part: int, number: int) -> Journal:
        block = part, number // SHARD_SIZE
        journal = self._journals.pop(block, None)
        if journal is None:
            if len(self._journals) >= OPEN:
                self._journals.pop(next(iter(self._journals))).close()
            journal = Journal(self._file(*block), sha256(self._key + b"image, source").digest(), 2)
        self._journals[block] = journal  # the last, as the one used last
        return journal

    def _file(self, part: int, block: int) -> Path:
        return self._parts / f"{part}-{block:05d}.part"

    def _has(self, item: Picture, digest: bytes) -> bool:
        if item.part < len(self._ends) - 1 and (self._ends[item.part] + item.number) // SHARD_SIZE in self._records:
            return True
        row, journal = item.number % SHARD_SIZE, self._journal(item.part, item.number)
        return row in journal and journal.row(row)[0][1] == digest

    def _settle(self) -> None:
        """Note of what the shards are made; refuse to complete those that were made of something else."""
        if self._records and self._made_of != self._digest.hexdigest():
            where = f"{self._source.origin}: has changed since the import was begun"
            if self._out.size(MANIFEST) is not None:
                (self._out.here / IMPORTED).unlink()
                raise Failed(f"{where}; give --force to overwrite {self._out}, or another --out")
            clear(self._out)
            raise Failed(f"{where}; type the command again, which begins anew")
        self._made_of = self._digest.hexdigest()

    def _lay_out(self) -> None:
        """Where each part begins among all rows; an error if an image or its latents are missing."""
        where, announced = self._source.origin, self._announced
        if not self._raw:
            raise Failed(f"{where}: has no latents")
        count = max(self._raw) + 1 if announced is None else announced.count
        if self._layout.contiguous and (len(self._raw) != count or max(self._raw) >= count):
            wrong = next((part for part in range(count) if part not in self._raw), count)
            raise Failed(f"{where}: has latents of {len(self._raw)} parts, not of {count}: look at part {wrong}")
        for part, raw in self._raw.items():
            rows = len(raw) if announced is None or announced.rows is None else announced.rows[part]
            if len(raw) != rows:
                raise Failed(f"{where}: part {part} has {len(raw)} images, its index says {rows}")
            images = self._seen.get(part, set())
            if images != set(range(len(raw))):
                wrong = min(set(range(len(raw))) - images or images - set(range(len(raw))))
                of = f" of part {part}" if count > 1 else ""
                raise Failed(f"{where}: {len(raw)} latents and {len(images)} images{of}, look at image {wrong}")
        if set(self._seen) != set(self._raw):
            raise Failed(f"{where}: images of parts {sorted(self._seen)}, latents of parts {sorted(self._raw)}")
        self._ends = np.cumsum([0, *(len(self._raw.get(part, ())) for part in range(count))]).tolist()

    def _rows(self, start: int, n: int) -> Iterator[tuple[int, Journal, int]]:
        """Of each row of a shard its number there, and where it is kept."""
        for row in range(n):
            part = int(np.searchsorted(self._ends, start + row, side="right")) - 1
            number = start + row - self._ends[part]
            yield row, self._journal(part, number), number % SHARD_SIZE

    def _make_shards(self) -> Manifest:
        assert self._column is not None
        manifest = Manifest(
            n=self._ends[-1],
            world=self._layout.world,
            columns={IMAGES: self._column},
            shard_size=SHARD_SIZE,
            source=self._source.describe(),
            render=None,
            shards={},
        )
        raw = np.concatenate([self._raw[part] for part in sorted(self._raw)])
        for number in range(manifest.count):
            if number in self._records:
                continue
            span, gathered = manifest.span(number), self._parts / f"{number:05d}.rows"
            gathered.unlink(missing_ok=True)
            with Journal(gathered, self._key, 1) as journal:
                for row, source, at in self._rows(span.start, span.n):
                    (image, _), of_image = source.row(at)
                    journal.add(row, [image], of_image)
                part, rows, recipe = gathered.with_suffix(".h5"), raw[span.start :][: span.n], manifest.recipe()
                self._records[number] = put_shard(self._out, part, span, rows, manifest.columns, journal, recipe)
            self._note()
            gathered.unlink()
            self._forget(span.start + span.n)
        return replace(manifest, shards=self._records)

    def _forget(self, end: int) -> None:
        """Remove the journals of which every row is in a shard."""
        for path in list(self._parts.glob("*-*.part")):
            part, block = map(int, path.stem.split("-"))
            if min(self._ends[part] + (block + 1) * SHARD_SIZE, self._ends[part + 1]) <= end:
                if (part, block) in self._journals:
                    self._journals.pop((part, block)).close()
                path.unlink()
