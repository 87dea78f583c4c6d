"""Pickles from the web: what numpy writes is read, and nothing that calls anything."""

from __future__ import annotations

import os
import pickle
import pickletools
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident.render.errors import Failed
from ident.render.exchange import masks
from ident.render.exchange.pickles import read_pickle


class Calls:
    """Calls a function where Python's own reader reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_in_lists(protocol: int) -> None:
    rng = np.random.default_rng(0)
    content: dict[str, Any] = {
        "bools": [rng.random((3, 4, 5)) > 0.5, np.zeros((0, 2), bool)],
        "floats": [rng.random((2, 3)).astype(np.float32), np.asfortranarray(rng.random((3, 2)))],
        "rest": (None, True, 1, -70_000, 2.5, "text", 2**40),
    }
    again = read_pickle(pickle.dumps(content, protocol=protocol))
    assert again["rest"] == content["rest"]
    for name in ("bools", "floats"):
        for one, other in zip(content[name], again[name], strict=True):
            assert np.array_equal(one, other)
            assert one.dtype == other.dtype


def test_nothing_is_called(tmp_path: Path) -> None:
    there = tmp_path / "called"
    for content in (Calls(there), [Calls(there)], {"pedestrians": Calls(there)}, np.array([Calls(there)], object)):
        for protocol in (2, 4, 5):
            with pytest.raises(Failed, match="it was not run"):
                read_pickle(pickle.dumps(content, protocol=protocol))
    assert not there.exists()


def text_of(*operations: bytes) -> bytes:
    return b"\x80\x03" + b"".join(operations) + b"."


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"no pickle",
        text_of(b"(", b"]"),
        text_of(b"]", b"a"),
        text_of(b"cos\nsystem\n", b"X\x02\x00\x00\x00id", b"\x85R"),
        text_of(b"cbuiltins\neval\n", b"X\x01\x00\x00\x001", b"\x85R"),
        text_of(b"cnumpy\nndarray\n"),
        text_of(b"cnumpy\ndtype\n", b"X\x02\x00\x00\x00O8K\x00K\x01\x87R"),
        text_of(b"]r\xff\xff\xff\x7f", b"j\x00\x00\x00\x01"),  # a memo that is not there
        text_of(b"B\xff\xff\xff\x7f", b"few"),  # bytes that are not there
        text_of(b"]q\x00h\x00a"),  # a list in itself
        text_of(b"\x8a\xff" + b"\x01" * 20),
    ],
)
def test_what_is_damaged_or_hostile(data: bytes) -> None:
    with pytest.raises(Failed):
        read_pickle(data)


def test_a_text_that_is_encoded_again_and_again_fills_no_memory() -> None:
    by_name = b"X\x06\x00\x00\x00latin1\x86R"
    first = b"c_codecs\nencode\nq\x00X" + (1000).to_bytes(4, "little") + b"a" * 1000 + b"q\x01" + by_name
    assert read_pickle(text_of(b"(", first, b"t")) == (b"a" * 1000,)
    with pytest.raises(Failed, match="more bytes of its texts than it has"):
        read_pickle(text_of(b"(", first, (b"h\x00h\x01" + by_name) * 100, b"t"))


DTYPE = b"cnumpy\ndtype\nX\x02\x00\x00\x00u1\x85R"
VIEW = b"cnumpy.core.numeric\n_frombuffer\n"
BINARY = b"\x96" + (4000).to_bytes(8, "little") + b"a" * 4000 + b"q\x00"
"""4000 bytes that can be changed, remembered as number 0."""
TWICE = b")" + b"q\x01h\x01\x86" * 60
"""A tuple that holds a tuple twice, which holds one twice, and so on: 2^60 of them if each is gone to."""


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        (b"})" + b"\x85" * 300_000 + b"Ns", "a key is no text"),
        (b"}" + TWICE + b"Ns", "a key is no text"),
        (b"}(" + TWICE + b"Nu", "a key is no text"),
        (b"}K\x01Ns", "a key is no text"),
        (b"}cnumpy\ndtype\nNs", "a key is no text"),
        (b"cnumpy\ndtype\n" + TWICE + b"R", "it makes 'dtype' of tuple, tuple"),
        (VIEW + b"(" + BINARY + DTYPE + TWICE + b"X\x01\x00\x00\x00CtR", "no tuple of at most 8 numbers"),
        (TWICE + b"X\x02\x00\x00\x00id\x93", "it names something by tuple, str"),
        (b"cnumpy\ndtype\nX\x02\x00\x00\x00id\x93", "it names something by name, str"),
        (TWICE, "it nests too deep|it holds a list or an array twice"),
    ],
)
def test_tuples_of_which_each_holds_another_one_are_not_gone_through(operations: bytes, said: str) -> None:
    with pytest.raises(Failed, match=said):
        read_pickle(text_of(operations))


def test_arrays_together_are_no_larger_than_the_file() -> None:
    rest = b"M\xa0\x0f\x85X\x01\x00\x00\x00CtR"
    array = VIEW + b"(" + BINARY + DTYPE + b"q\x02" + rest
    (one,) = read_pickle(text_of(b"(", array, b"t"))
    assert one.tobytes() == b"a" * 4000
    assert not one.flags.writeable
    again = VIEW + b"(h\x00h\x02" + rest
    with pytest.raises(Failed, match="its arrays have more bytes than it has"):
        read_pickle(text_of(b"(", array, again * 50, b"t"))
    with pytest.raises(Failed, match="it holds a list or an array twice"):
        read_pickle(text_of(b"(", array, b"q\x03h\x03t"))


def test_an_array_of_another_size_than_it_says() -> None:
    data = pickle.dumps(np.zeros((3, 4), np.float32), protocol=3)
    assert data.count(b"K\x03K\x04\x86") == 1
    for shape in (b"K\x04K\x04\x86", b"J\xff\xff\xff\x7fK\x04\x86", b"J\xff\xff\xff\xffK\x04\x86"):
        with pytest.raises(Failed, match="array"):
            read_pickle(data.replace(b"K\x03K\x04\x86", shape))


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(noise: bytes, place: int, value: int) -> None:
    data = bytearray(pickle.dumps({"pedestrians": [np.zeros((2, 2), bool)], "n": [noise]}, protocol=4))
    data[place % len(data)] = value
    for bad in (noise, bytes(data)):
        with suppress(Failed):
            read_pickle(bad)


def made_file(path: Path, **changed: Any) -> Path:
    rng = np.random.default_rng(0)
    lengths = 3, 1, 5
    content: dict[str, Any] = {
        "pedestrians": [rng.random((n, 64, 64)) > 0.5 for n in lengths],
        "pedestrians_latents": [rng.random((n, 3)).astype(np.float32) for n in lengths],
    } | changed
    path.write_bytes(pickle.dumps(content))
    return path


def test_masks_of_a_made_file(tmp_path: Path) -> None:
    sequences = masks.read_masks(made_file(tmp_path / "masks.pickle"))
    assert [len(frames) for frames, _ in sequences] == [3, 5]  # one frame makes no pair
    assert sequences[0][0].dtype == np.uint8
    assert sequences[1][1].shape == (5, 3)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pedestrians": []}, "0 sequences of masks and 3 of latents"),
        ({"pedestrians": None}, "no dictionary with the lists"),
        ({"pedestrians": [1, 2, 3]}, "sequence 0: its masks are int, not bool"),
        ({"pedestrians": [np.zeros((3, 32, 32), bool) for _ in range(3)]}, r"masks are bool \(3, 32, 32\), not bool"),
        ({"pedestrians_latents": [np.zeros((9, 3)) for _ in range(3)]}, r"its latents are float64 \(9, 3\)"),
        ({"pedestrians_latents": [np.full((n, 3), np.nan) for n in (3, 1, 5)]}, "are not finite"),
        ({"pedestrians_latents": [[number] for number in range(3)]}, "its latents are list"),
    ],
)
def test_masks_of_another_shape(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(Failed, match=said):
        masks.read_masks(made_file(tmp_path / "masks.pickle", **changed))


def test_only_known_operations_are_followed() -> None:
    from ident.render.exchange.pickles import STEPS

    known = {operation.name for operation in pickletools.opcodes}
    assert set(STEPS) < known
    assert not set(STEPS) & {"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "PERSID", "BINPERSID", "NEXT_BUFFER"}
