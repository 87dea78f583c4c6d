"""The layout of Hugging Face datasets: Parquet files with a column of images, and a card that describes them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from ident.render.aliases import Float32s
from ident.render.errors import Failed, Impossible
from ident.render.exchange.layouts import pages
from ident.render.exchange.layouts.layout import Row, Written
from ident.render.exchange.layouts.sharded import Sharded
from ident.render.store.files import content
from ident.render.store.manifest import Manifest

GROUP = 100
"""Rows that a reader loads together."""

READ = ("image", "raw_latents")
"""The columns that are read."""

LARGEST_FILE = 2**30  # bytes, in an archive that streams by

CARD = """---
configs:
- config_name: default
  data_files:
  - split: {split}
    path: data/*-of-{files:05d}.parquet
dataset_info:
  features:
  - name: image
    dtype: image
  - name: raw_latents
    sequence: float32
    length: {width}
  - name: latents
    sequence: float32
    length: {width}
  splits:
  - name: {split}
    num_bytes: {bytes}
    num_examples: {n}
  download_size: {bytes}
  dataset_size: {bytes}
---

# {n} images of 3DIdent, {size} x {size}

`image` shows a scene, `raw_latents` are what it was made of, each in [-1, 1], and `latents` the same in the scene's
units. Column by column:

| | latent | meaning | `latents` = `raw_latents` times | unit |
|---|---|---|---|---|
{latents}

Mean of red, green and blue in [0, 1]: {mean}; standard deviation: {sd}.

    from datasets import load_dataset
    data = load_dataset("<this folder or repository>", split="{split}").with_format("torch")

Where the latents are from, and how the images were rendered (null: not known):

```json
{facts}
```
"""


@dataclass(frozen=True)
class HuggingFace(Sharded):
    """Parquet files with the columns image, raw_latents and latents."""

    meaning = "README.md, data/00000-of-00250.parquet"
    last = ("README.md",)
    pattern = re.compile(
        r"(?P<root>(.*/)?([^/\d][^/]*?-)?)(?P<part>\d{1,9})(-of-(?P<of>\d{1,9}))?(-[0-9a-f]+)?\.parquet"
    )

    def path(self, number: int, count: int, part: int = 0) -> str:  # noqa: ARG002
        """The name of a file."""
        return f"data/{number:05d}-of-{count:05d}.parquet"

    def pack(self, rows: list[Row], start: int) -> bytes:
        """A file."""
        pa, parquet = arrow()
        image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        width = len(self.factors)
        vector = pa.list_(pa.float32(), width)
        # The columns as the reader keeps them in a Parquet file; in its card they have a form of their own.
        described = {"_type": "Sequence", "feature": {"_type": "Value", "dtype": "float32"}, "length": width}
        features = {"image": {"_type": "Image"}, "raw_latents": described, "latents": described}
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        schema = pa.schema([("image", image), ("raw_latents", vector), ("latents", vector)], metadata=metadata)
        raw = np.array([row.raw for row in rows], np.float32)
        columns = [
            pa.array([{"bytes": row.image, "path": f"{i:06d}.png"} for i, row in enumerate(rows, start)], image),
            *(
                pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), width)
                for array in (raw, self.scene_values(raw))
            ),
        ]
        out = io.BytesIO()
        parquet.write_table(pa.table(columns, schema=schema), out, row_group_size=GROUP, compression="none")
        return out.getvalue()

    def unpack(self, file: IO[bytes], what: str) -> Iterator[Row]:
        """The rows of a file, packed by whomever."""
        pa, parquet = arrow()
        try:
            file = file if seekable(file) else io.BytesIO(content(file, what, LARGEST_FILE))
            table = parquet.ParquetFile(file)
            names = table.schema_arrow.names
            if not set(READ) <= set(names):
                raise ValueError(f"the columns are {', '.join(names)}; wanted are {' and '.join(READ)}")
            pages.check(file, dict(zip(READ, (1, len(self.factors)), strict=True)))
            count, promised = 0, table.metadata.num_rows
            for batch in table.iter_batches(1, columns=list(READ)):  # a value may be as large as its page
                for row in batch.to_pylist():
                    count += 1
                    image = row["image"]["bytes"] if isinstance(row["image"], dict) else row["image"]
                    if not isinstance(image, bytes):
                        raise ValueError(f"an image has no bytes, but is {str(row['image'])[:50]}")
                    yield Row(image, np.array(row["raw_latents"], np.float32))
            if count != promised:  # a reader stops at a damaged page
                raise ValueError(f"{count} rows, where {promised} are said to be")
        except (pa.ArrowException, ValueError, TypeError, LookupError, OSError, RecursionError) as error:
            said = " ".join(str(error).split())
            raise Failed(f"{what}: not a Parquet file of images and latents ({said})") from error

    def rest(self, manifest: Manifest, _: Float32s, files: list[Written]) -> dict[str, bytes]:
        """The card."""
        described = json.loads(manifest.to_json())
        rows = [
            f"| {i} | {factor.name} | {factor.meaning} | {factor.scale:.6g} | {factor.unit} |"
            for i, factor in enumerate(self.factors)
        ]
        card = CARD.format(
            split=re.sub(r"\W", "_", str(described["source"].get("split", "train"))),
            files=len(files),
            width=len(self.factors),
            n=manifest.n,
            size=manifest.shape[0],
            bytes=sum(file.bytes for file in files),
            latents="\n".join(rows),
            mean=" ".join(f"{value:.4f}" for value in described["mean"]),
            sd=" ".join(f"{value:.4f}" for value in described["sd"]),
            facts=json.dumps({name: described[name] for name in ("source", "render")}, indent=2),
        )
        return {"README.md": card.encode()}


def seekable(file: IO[bytes]) -> bool:
    """Whether a file can be read in any order."""
    try:
        return file.seekable()
    except AttributeError:  # a tar archive's that streams by
        return False


def arrow() -> tuple[Any, Any]:
    """The library for Parquet, which is an extra."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Impossible("the layout huggingface needs pyarrow: pip install 'ident3d[huggingface]'") from error
    return pyarrow, pyarrow.parquet
