"""Slots: written and read, looked up by name, refused where nobody knows them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ident.benchmark.registry import (
    ENCODERS,
    OBJECTIVES,
    PAIRS,
    SOURCES,
    TRAITS,
    Family,
    Slot,
    Traits,
    read_slot,
    takes,
    traits_of,
)
from ident.benchmark.sources.decoded import Decoded, Digits
from ident.benchmark.sources.mixed import Latents
from ident.benchmark.suites.tiers import load_tier
from ident.render.errors import Impossible

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
NUMBERS = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x % 1 != 0)
NESTED = st.builds(lambda name, values: f"{name}({', '.join(map(repr, values))})", NAMES, st.lists(NUMBERS, min_size=1))
ARGUMENTS = NUMBERS | NESTED | NAMES.filter(lambda name: name not in ("nan", "inf", "infinity"))


@given(
    NAMES,
    st.lists(ARGUMENTS, max_size=4),
    st.dictionaries(st.from_regex(r"[a-z]\w{0,5}", fullmatch=True).filter(str.isascii), ARGUMENTS, max_size=2),
)
def test_a_slot_is_read_as_it_was_written(
    name: str, arguments: list[int | float | str], keywords: dict[str, int | float | str]
) -> None:
    slot = Slot(name, tuple(arguments), tuple(keywords.items()))
    assert read_slot(str(slot)) == slot


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("augmented", Slot("augmented")),
        ("infonce( gennorm(3) )", Slot("infonce", ("gennorm(3)",))),
        ("mixed(box(10, 0, 1), normal(0.3))", Slot("mixed", ("box(10, 0, 1)", "normal(0.3)"))),
        ("mixed(box(3) * sphere(8))", Slot("mixed", ("box(3) * sphere(8)",))),
        ("slow-vae(1, 10.5, 6)", Slot("slow-vae", (1, 10.5, 6))),
        ("my.pairs:close(0.1, k=3)", Slot("my.pairs:close", (0.1,), (("k", 3),))),
        ("drawn(vmf(1), hard=vmf(3))", Slot("drawn", ("vmf(1)",), (("hard", "vmf(3)"),))),
    ],
)
def test_the_papers_notation(text: str, slot: Slot) -> None:
    assert read_slot(text) == slot


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'': write it like infonce"),
        ("a(b", r"'a\(b': write it like"),
        ("a(b))", r"'a\(b\)\)': its brackets do not close"),
        ("a((b)", "its brackets do not close"),
        ("a(1,,2)", "nothing stands between two commas"),
        ("a(k=1, 2)", "'2' follows what has a name"),
        ("a(k=1, k=2)", "k is there twice"),
        ("a b(1)", "write it like"),
        ("a(" + "1, " * 1000 + "1)", "write it like"),
        ("a" + "(" * 5000, "write it like"),
    ],
)
def test_what_is_no_slot(text: str, says: str) -> None:
    with pytest.raises(Impossible, match=says):
        read_slot(text)


@pytest.mark.parametrize("family", [SOURCES, PAIRS, OBJECTIVES, ENCODERS], ids=lambda family: family.noun)
def test_every_name_stands_for_something(family: Family) -> None:
    for name, entry in family.entries.items():
        module, _, attribute = entry.partition(":")
        assert family.load(name) is getattr(import_module(module), attribute)


def test_names_that_nobody_knows() -> None:
    with pytest.raises(Impossible) as error:
        OBJECTIVES.check("infonse")
    assert str(error.value).startswith("objective 'infonse': choose from infonce, decoupled, ")
    assert str(error.value).endswith(", or module:name of yours; did you mean infonce?")
    OBJECTIVES.check("mine:loss")
    with pytest.raises(Impossible, match=r"^no_such:thing: cannot be loaded"):
        OBJECTIVES.load("no_such:thing")


def closest(context: str, width: float, *, seed: int, batch_size: int = 0) -> tuple[object, ...]:
    return context, width, seed, batch_size


def test_what_is_made_takes_what_it_knows() -> None:
    mine = Slot(f"{__name__}:closest", (0.5,))
    assert PAIRS.make(mine, "data", seed=3, batch_size=8, unknown=1) == ("data", 0.5, 3, 8)
    with pytest.raises(Impossible, match=r"too many positional arguments; it takes context, width, seed, batch_size"):
        PAIRS.make(Slot(mine.name, (0.5, 1)), "data", seed=3)


def test_names_are_listed_without_pytorch() -> None:
    code = "import sys, ident.benchmark.registry as r; print(len(r.PAIRS.entries)); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", TRAITS)
def test_what_is_known_of_a_source_is_true_of_it(name: str) -> None:
    source: Any = SOURCES.load(name)
    traits, pictures = traits_of(name), Digits if source is Decoded else source
    assert traits.latents == issubclass(source, Latents)
    assert bool(traits.images) == hasattr(pictures, "images")
    assert traits.files == hasattr(source, "digest")
    assert traits.classes == hasattr(pictures, "classified")
    assert (traits.files or traits.images == "stored") == ("data" in takes(source))
    assert bool(traits.images) == (load_tier("laptop", traits.observations).model.encoder != "mlp")


def test_of_a_users_source_nothing_is_known() -> None:
    assert traits_of("theirs:sounds") == Traits()
