"""What users of each format's own library type to read a set, or to write one; run in a process of its own.

`python libraries.py read mds FOLDER FILE.npz` reads what is in the folder; `write` makes a set of what is in the file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def read_webdataset(folder: Path) -> Any:
    """Images and latents by webdataset."""
    import webdataset

    urls = sorted(map(str, folder.glob("*.tar")))
    samples = webdataset.WebDataset(urls, shardshuffle=False).decode("rgb8")
    return list(samples.to_tuple("png", "raw_latents.npy", "latents.npy"))


def write_webdataset(folder: Path, images: Any, raw: Any) -> None:
    """A set by webdataset."""
    import webdataset

    with webdataset.ShardWriter(f"{folder}/mine-%06d.tar", maxcount=6, verbose=0) as out:
        for i, (image, latents) in enumerate(zip(images, raw, strict=True)):
            out.write({"__key__": f"sample{i:04d}", "png": image, "npy": latents, "cls": 3})


def read_mds(folder: Path) -> Any:
    """Images and latents by mosaicml-streaming."""
    from streaming import StreamingDataset

    data = StreamingDataset(local=str(folder), shuffle=False, batch_size=1)
    return [(np.array(data[i]["image"]), data[i]["raw_latents"], data[i]["latents"]) for i in range(len(data))]


def write_mds(folder: Path, images: Any, raw: Any) -> None:
    """A set by mosaicml-streaming."""
    from streaming import MDSWriter

    columns = {"label": "str", "image": "png", "raw_latents": "ndarray:float32:10", "number": "int"}
    with MDSWriter(out=str(folder), columns=columns, size_limit=4000) as out:
        for i, (image, latents) in enumerate(zip(images, raw, strict=True)):
            out.write({"image": Image.fromarray(image), "raw_latents": latents, "number": i, "label": "x" * i})


def read_huggingface(folder: Path) -> Any:
    """Images and latents by datasets."""
    from datasets import load_dataset

    data = load_dataset(str(folder), split="train", cache_dir=str(folder.with_suffix(".cache"))).with_format("numpy")
    return [(row["image"], row["raw_latents"], row["latents"]) for row in data]


def write_huggingface(folder: Path, images: Any, raw: Any) -> None:
    """A set by datasets."""
    from datasets import Dataset, Features, Sequence, Value
    from datasets import Image as ImageColumn

    features = Features({"raw_latents": Sequence(Value("float32")), "image": ImageColumn(), "number": Value("int64")})
    rows = {"raw_latents": list(raw), "image": list(map(Image.fromarray, images)), "number": list(range(len(raw)))}
    data = Dataset.from_dict(rows, features=features)
    (folder / "data").mkdir()
    for part in range(3):
        data.shard(3, part, contiguous=True).to_parquet(folder / f"data/test-{part:05d}-of-00003.parquet")


if __name__ == "__main__":
    doing, layout, folder, file = sys.argv[1:]
    if doing == "read":
        images, raw, latents = zip(*globals()[f"read_{layout}"](Path(folder)), strict=True)
        np.savez(file, images=images, raw=raw, latents=latents)
    else:
        with np.load(file) as made:
            globals()[f"write_{layout}"](Path(folder), made["images"], made["raw"])
