"""The layout of WebDataset: 000000.tar, ... with 000000.png, 000000.raw_latents.npy, 000000.latents.npy a sample."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import IO

import numpy as np

from ident.render.aliases import Float32s
from ident.render.errors import Failed
from ident.render.exchange.layouts.files import LARGEST_IMAGE, checked, files_of_archive, read_json, read_latents
from ident.render.exchange.layouts.layout import Row, Written
from ident.render.exchange.layouts.sharded import Sharded
from ident.render.store.files import content, npy
from ident.render.store.manifest import Manifest
from ident.render.worlds.factors import Factor

IMAGES = ("png", "webp", "jpg", "jpeg")
VECTORS = ("raw_latents.npy", "npy", "json")
MOST_FILES = 100
"""Of a sample."""


@dataclass(frozen=True)
class WebDataset(Sharded):
    """Files that share the name up to the first dot are a sample; `shardindex.json` says which archives there are."""

    meaning = "000000.tar with 000000.png, 000000.raw_latents.npy, ..."
    pattern = re.compile(r"(?P<root>(.*/)?[^/]*?)(?P<part>\d{1,9})\.(tar|tgz|tar\.gz)|(.*/)?shardindex\.json")
    last = ("shardindex.json",)
    listing = ("shardlist", "nsamples")

    def path(self, number: int, count: int, part: int = 0) -> str:  # noqa: ARG002
        """The name of an archive."""
        return f"{number:06d}.tar"

    def pack(self, rows: list[Row], start: int) -> bytes:
        """An archive of samples."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for number, row in enumerate(rows, start):
                assert row.raw is not None
                values = self.scene_values(row.raw)
                for kind, data in ("png", row.image), ("raw_latents.npy", npy(row.raw)), ("latents.npy", npy(values)):
                    member = tarfile.TarInfo(f"{number:06d}.{kind}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        return out.getvalue()

    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The samples of an archive, packed by whomever."""
        members = files_of_archive(file, what)
        for key, group in groupby(members, lambda member: key_of(member[0])):
            sample = dict[str, bytes]()
            for name, opened in group:
                kind = name[len(key) + 1 :]
                if len(sample) >= MOST_FILES:
                    raise Failed(f"{what}: the sample {key} has more than {MOST_FILES} files")
                with opened() as member:
                    wanted = kind in IMAGES or kind in VECTORS
                    sample[kind] = content(member, f"{what}/{name}", LARGEST_IMAGE) if wanted else b""
            image = next((sample[kind] for kind in IMAGES if kind in sample), None)
            raw = raw_latents(sample, f"{what}/{key}", self.factors)
            if image is None or raw is None:
                raise Failed(
                    f"{what}: the sample {key} has {', '.join(sample)}, wanted are png and raw_latents.npy, npy or json"
                )
            yield Row(image, raw)

    def rest(self, _: Manifest, __: Float32s, files: list[Written]) -> dict[str, bytes]:
        """The index of the archives."""
        listed = [{"url": file.name, "nsamples": file.rows, "filesize": file.bytes} for file in files]
        index = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": listed}
        return {"shardindex.json": json.dumps(index, indent=2).encode()}


def key_of(name: str) -> str:
    """What the files of a sample share: the path up to the first dot of its last part."""
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition('.')[0]}"


def raw_latents(sample: dict[str, bytes], what: str, factors: tuple[Factor, ...]) -> Float32s | None:
    """The raw latents (d,) of a sample, in any of the forms that are in use."""
    for kind in VECTORS[:2]:
        if kind in sample:
            return read_latents(io.BytesIO(sample[kind]), f"{what}.{kind}", factors).reshape(-1)
    if "json" not in sample:
        return None
    values = read_json(io.BytesIO(sample["json"]), f"{what}.json")
    try:
        array = np.array(values["raw_latents"] if isinstance(values, dict) else values, np.float64)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise Failed(f"{what}.json: no list of raw latents ({type(error).__name__}: {error})") from error
    return checked(np.atleast_2d(array), f"{what}.json", factors).reshape(-1)
