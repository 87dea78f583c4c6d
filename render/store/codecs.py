"""How an array becomes bytes and back, without loss. docs/formats.md has the measurements behind the choice.

What comes from a file is not trusted: the size that its header names is compared before memory is taken for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import webp
import zstandard

from ident.render.aliases import Array

Shape = tuple[int, ...]


class Damaged(Exception):
    """Bytes that are not what an encoder wrote."""


@dataclass(frozen=True)
class Codec:
    """A way to keep arrays: (array) to bytes, and (bytes, shape, dtype) to the array."""

    encode: Callable[[Array], bytes]
    decode: Callable[[bytes, Shape, np.dtype[Any]], Array]
    keeps: Callable[[Shape, np.dtype[Any]], bool]
    """Whether it keeps arrays of a shape and dtype."""
    bytes_a_pixel: float
    """About how many bytes an image takes for a pixel, to say beforehand what a dataset will."""


LEVEL = 9
_compressors = threading.local()  # zstandard's objects are one thread's each


def _zstd_encode(array: Array) -> bytes:
    if not hasattr(_compressors, "compressor"):
        _compressors.compressor = zstandard.ZstdCompressor(level=LEVEL)
    return bytes(_compressors.compressor.compress(np.ascontiguousarray(array).data))


def _zstd_decode(data: bytes, shape: Shape, dtype: np.dtype[Any]) -> Array:
    size = int(np.prod(shape)) * dtype.itemsize
    if not hasattr(_compressors, "decompressor"):
        _compressors.decompressor = zstandard.ZstdDecompressor()
    try:
        if zstandard.frame_content_size(data) != size:
            raise Damaged(f"names another size than {size} bytes")
        return np.frombuffer(bytearray(_compressors.decompressor.decompress(data)), dtype).reshape(shape)
    except zstandard.ZstdError as error:
        raise Damaged(str(error)) from error


@cache
def _lossless() -> webp.WebPConfig:
    return webp.WebPConfig.new(lossless=True, quality=50, method=2)


def _is_rgb(shape: Shape, dtype: np.dtype[Any]) -> bool:
    return len(shape) == 3 and shape[2] == 3 and max(shape) < 2**14 and dtype == np.uint8


def _webp_encode(array: Array) -> bytes:
    return bytes(webp.WebPPicture.from_numpy(np.ascontiguousarray(array)).encode(_lossless()).buffer())


def _webp_decode(data: bytes, shape: Shape, dtype: np.dtype[Any]) -> Array:
    assert _is_rgb(shape, dtype)
    height, width, _ = shape
    encoded = webp.WebPData.from_buffer(data)
    header = webp.WebPDecoderConfig.new()
    try:
        header.read_features(encoded)
        if (header.input.height, header.input.width) != (height, width):
            raise Damaged(f"is {header.input.width} x {header.input.height} pixels, not {width} x {height}")
        return np.asarray(encoded.decode(color_mode=webp.WebPColorMode.RGB))
    except webp.WebPError as error:
        raise Damaged(str(error)) from error


ZSTD = Codec(_zstd_encode, _zstd_decode, lambda *_: True, 0.6)
CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        "compact": Codec(_webp_encode, _webp_decode, _is_rgb, 0.35),
        "fast": ZSTD,
    }
)
"""What an image may be kept in. All else is kept in zstd."""

COMPACT, FAST = CODECS
