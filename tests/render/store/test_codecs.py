"""Nothing is lost, other decoders agree, and what is damaged is refused."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import numpy.typing as npt
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from ident.render.store.codecs import CODECS, ZSTD, Codec, Damaged

UINT8 = np.dtype(np.uint8)
IMAGES = arrays.arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40), st.just(3)))
NAMES = pytest.mark.parametrize("name", CODECS)


@NAMES
@given(image=IMAGES)
def test_nothing_is_lost(name: str, image: npt.NDArray[np.uint8]) -> None:
    codec = CODECS[name]
    data = codec.encode(image)
    assert data == codec.encode(np.asfortranarray(image))
    again = codec.decode(data, image.shape, UINT8)
    assert again.dtype == np.uint8
    assert np.array_equal(again, image)


@given(array=arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=3)))
def test_zstd_keeps_every_bit_of_floats(array: npt.NDArray[np.float32]) -> None:
    again = ZSTD.decode(ZSTD.encode(array), array.shape, array.dtype)
    assert again.tobytes() == array.tobytes()


@given(image=IMAGES)
def test_other_decoders_agree(image: npt.NDArray[np.uint8]) -> None:
    with Image.open(BytesIO(CODECS["compact"].encode(image)), formats=["webp"]) as other:
        assert np.array_equal(np.asarray(other.convert("RGB")), image)
    assert zstandard.decompress(CODECS["fast"].encode(image)) == image.tobytes()


@NAMES
@given(image=IMAGES, data=st.data())
def test_what_is_cut_short_is_refused(name: str, image: npt.NDArray[np.uint8], data: st.DataObject) -> None:
    whole = CODECS[name].encode(image)
    with pytest.raises(Damaged):
        CODECS[name].decode(whole[: data.draw(st.integers(0, len(whole) - 3))], image.shape, UINT8)


@NAMES
@given(junk=st.binary(max_size=200))
def test_junk_is_refused(name: str, junk: bytes) -> None:
    with pytest.raises(Damaged):
        CODECS[name].decode(junk, (16, 16, 3), UINT8)


def refuses(codec: Codec, data: bytes) -> None:
    with pytest.raises(Damaged, match=r"size|pixels"):
        codec.decode(data, (16, 16, 3), UINT8)


def test_a_header_that_asks_for_memory_gets_none() -> None:
    refuses(CODECS["compact"], CODECS["compact"].encode(np.zeros((4000, 4000, 3), np.uint8)))
    refuses(CODECS["fast"], zstandard.ZstdCompressor().compress(bytes(2**26)))
    without_size = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(768))
    refuses(CODECS["fast"], without_size)
