"""The comparison behind the codecs, as the table of docs/formats.md: encoding, decoding and size of 224 x 224 renders.

python -m tests.speed.codecs
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from io import BytesIO

import numpy as np
import webp
import zstandard
from PIL import Image

from tests.speed.loader import Images, renders

Encode = Callable[[Images], bytes]
Decode = Callable[[bytes], Images]
ROUNDS = 5
SHAPE = (224, 224, 3)


def by_pillow(kind: str, **options: object) -> tuple[Encode, Decode]:
    def encode(image: Images) -> bytes:
        file = BytesIO()
        Image.fromarray(image).save(file, kind, **options)
        return file.getvalue()

    return encode, lambda data: np.asarray(Image.open(BytesIO(data), formats=[kind]))


def by_webp(quality: int, method: int) -> tuple[Encode, Decode]:
    config = webp.WebPConfig.new(lossless=True, quality=quality, method=method)
    return (
        lambda image: bytes(webp.WebPPicture.from_numpy(image).encode(config).buffer()),
        lambda data: np.asarray(webp.WebPData.from_buffer(data).decode(color_mode=webp.WebPColorMode.RGB)),
    )


def raw(data: bytes) -> Images:
    return np.frombuffer(data, np.uint8).reshape(SHAPE)


def by_zstd(level: int) -> tuple[Encode, Decode]:
    compressor, decompressor = zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()
    return lambda image: compressor.compress(image.tobytes()), lambda data: raw(decompressor.decompress(data))


def from_the_left(level: int) -> tuple[Encode, Decode]:
    """Each pixel less its left neighbour, before zstd."""
    encode, decode = by_zstd(level)
    return (
        lambda image: encode(np.diff(image, axis=1, prepend=np.uint8(0))),
        lambda data: np.cumsum(decode(data), axis=1, dtype=np.uint8),
    )


ROWS: dict[str, tuple[Encode, Decode]] = {
    "PNG, as Pillow writes it": by_pillow("png"),
    "PNG, level 1": by_pillow("png", compress_level=1),
    "WebP by Pillow, quality 50, method 2": by_pillow("webp", lossless=True, quality=50, method=2),
    **{f"WebP, quality {q}, method {m}": by_webp(q, m) for q, m in ((0, 0), (25, 1), (40, 1), (75, 3), (80, 4))},
    "WebP, quality 50, method 2 (`compact`)": by_webp(50, 2),
    **{f"zstd, level {level}": by_zstd(level) for level in (1, 3, 6, 15, 19)},
    "zstd, level 9 (`fast`)": by_zstd(9),
    **{f"differences, then zstd, level {level}": from_the_left(level) for level in (3, 9, 19)},
    "zlib, level 1": (lambda image: zlib.compress(image.tobytes(), 1), lambda data: raw(zlib.decompress(data))),
    "raw": (lambda image: image.tobytes(), lambda data: raw(data).copy()),
}


def main() -> None:
    """Print the table."""
    images = renders()
    print("| codec | encode, ms | decode, ms | bytes | decode against PNG | bytes against PNG |")
    print("|---|---|---|---|---|---|")
    first: tuple[float, float] | None = None
    for name, (encode, decode) in ROWS.items():
        start = time.perf_counter()
        encoded = [encode(image) for image in images]
        encoding = (time.perf_counter() - start) / len(images) * 1e3
        assert all(np.array_equal(decode(data), image) for data, image in zip(encoded, images, strict=True))
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for data in encoded:
                decode(data)
            times.append((time.perf_counter() - start) / len(images) * 1e3)
        decoding, size = float(np.median(times)), float(np.mean([len(data) for data in encoded]))
        first = first or (decoding, size)
        print(
            f"| {name} | {encoding:.2f} | {decoding:.3f} | {size:.0f} | {first[0] / decoding:.2f} "
            f"| {size / first[1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
