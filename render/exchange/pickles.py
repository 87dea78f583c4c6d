"""Pickles from the web, read by a machine of its own that knows lists, dictionaries, numbers, texts and arrays.

Python's own reader runs whatever a pickle names. This one follows its operations as data: names other than those by
which numpy writes an array are refused, nothing is imported or called, and all arrays together are no larger than the
file. Keys are texts: nothing else is hashed, compared with its like, or written into an error, as a tuple that holds
one tuple twice, which holds one twice, and so on, would take forever.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ident.render.aliases import Array
from ident.render.errors import Failed

MOST_OPERATIONS, DEEPEST, MOST_DIMENSIONS = 10_000_000, 64, 8
DTYPES = ("b1", "u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8")

ARRAY, DTYPE, MAKE, VIEW = "array", "dtype", "make an array", "view bytes"
ENCODE, EMPTY = "encode", "no bytes"
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "numpy ndarray": ARRAY,
        "numpy dtype": DTYPE,
        "numpy.core.multiarray _reconstruct": MAKE,
        "numpy._core.multiarray _reconstruct": MAKE,
        "numpy.core.numeric _frombuffer": VIEW,
        "numpy._core.numeric _frombuffer": VIEW,
        "_codecs encode": ENCODE,
        "__builtin__ bytes": EMPTY,
    }
)
"""What numpy writes arrays by."""


class _Name(str):
    """One of NAMES, which is only compared."""

    __slots__ = ()


@dataclass
class _Made:
    """An array or a dtype that waits for its state."""

    kind: str
    dtype: np.dtype[Any] | None = None
    array: Array | None = None


@dataclass
class _Machine:
    """The stack of a pickle, and what it refers to again."""

    most: int
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    encoded: int = 0
    """Bytes made of texts so far: of one that is referred to again and again they would fill the memory."""
    viewed: int = 0
    """Bytes of arrays so far: many arrays of the same bytes would fill the memory where they are joined."""

    def popped(self, count: int) -> list[Any]:
        """The last values, taken off the stack."""
        if len(self.stack) - count < (self.marks[-1] if self.marks else 0):
            raise ValueError("it takes more than there is")
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return values

    def marked(self) -> list[Any]:
        """The values behind the last mark."""
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def last(self, kind: type) -> Any:
        """The last value, which must be of a kind."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise ValueError(f"a {kind.__name__} was to follow")
        return self.stack[-1]

    def call(self) -> None:
        """What numpy calls to begin an array, a dtype, or bytes."""
        name, arguments = self.popped(2)
        if not isinstance(name, _Name) or type(arguments) is not tuple:
            raise ValueError("it calls something")
        if name == ENCODE and len(arguments) == 2 and type(arguments[0]) is str and arguments[1] == "latin1":
            self.stack.append(self.encode(arguments[0]))
        elif name == EMPTY and arguments == ():
            self.stack.append(b"")
        elif name == DTYPE and arguments and arguments[0] in DTYPES:
            self.stack.append(_Made(DTYPE, np.dtype(arguments[0])))
        elif name == MAKE and len(arguments) == 3 and isinstance(arguments[0], _Name) and arguments[0] == ARRAY:
            self.stack.append(_Made(ARRAY))
        elif name == VIEW and len(arguments) == 4 and arguments[3] in ("C", "F"):
            data, dtype, shape, order = arguments
            self.stack.append(_Made(ARRAY, array=self.array(shape, dtype, order, data)))
        else:
            raise ValueError(f"it makes {str(name)!r} of {kinds_of(arguments)}")

    def build(self) -> None:
        """Give a dtype its byte order, or an array its shape, dtype and numbers."""
        (state,) = self.popped(1)
        made = self.last(_Made)
        if type(state) is not tuple:
            raise ValueError("a state is no tuple")
        if made.kind == DTYPE:
            if len(state) < 2 or state[1] not in ("<", "|", "=", ">") or any(one is not None for one in state[2:5]):
                raise ValueError("a dtype of fields")
            if state[1] == ">":
                made.dtype = made.dtype.newbyteorder(">")
            return
        _, shape, dtype, fortran, data = state
        if made.array is not None:
            raise ValueError("an array that is made twice")
        if type(data) is str:  # as Python 2 wrote bytes
            data = self.encode(data)
        made.array = self.array(shape, dtype, "F" if fortran else "C", data)

    def encode(self, text: str) -> bytes:
        """The bytes of a text, if those of all such texts are no more than the pickle has."""
        self.encoded += len(text)
        if self.encoded > self.most:
            raise ValueError("it makes more bytes of its texts than it has")
        return text.encode("latin1")

    def array(self, shape: Any, dtype: Any, order: Any, data: Any) -> Array:
        """An array of bytes, as many as its shape has."""
        if not (isinstance(dtype, _Made) and dtype.dtype is not None and isinstance(data, bytes | bytearray)):
            raise ValueError("an array of something else than numbers")
        if type(shape) is not tuple or len(shape) > MOST_DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
            raise ValueError(f"an array whose shape is no tuple of at most {MOST_DIMENSIONS} numbers from 0 on")
        if prod(shape) * dtype.dtype.itemsize != len(data):
            raise ValueError(f"an array {shape} of {len(data)} bytes")
        self.viewed += len(data)
        if self.viewed > self.most:
            raise ValueError("its arrays have more bytes than it has")
        array: Array = np.frombuffer(data, dtype.dtype).reshape(shape, order=order)
        array.setflags(write=False)
        return array


def read_pickle(data: bytes) -> Any:
    """What a pickle holds: lists, dictionaries, tuples, numbers, texts and arrays of numbers; anything else is refused.

    Arrays are views of read-only memory.
    """
    machine = _Machine(len(data))
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(BytesIO(data))):
            if count > MOST_OPERATIONS:
                raise ValueError(f"it has more than {MOST_OPERATIONS} operations")
            step = STEPS.get(operation.name)
            if step is None:
                raise ValueError(f"it has the operation {operation.name}, which data do not need")
            step(machine, argument)
        if machine.marks:
            raise ValueError("a list has no end")
        (value,) = machine.stack
        return finished(value)
    except Failed:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError, RecursionError) as error:
        raise Failed(f"not a pickle of lists and arrays alone ({error}); it was not run") from error


def finished(value: Any, depth: int = DEEPEST, seen: dict[int, Any] | None = None) -> Any:
    """A value with its arrays as arrays. Lists and arrays that are referred to several times are refused."""
    if depth == 0:
        raise ValueError("it nests too deep")
    seen = {} if seen is None else seen
    if isinstance(value, _Name):
        raise ValueError(f"it holds the name of {value}")
    if isinstance(value, list | dict | tuple | _Made):
        if id(value) in seen:
            raise ValueError("it holds a list or an array twice")
        seen[id(value)] = value
    if isinstance(value, _Made):
        if value.array is None:
            raise ValueError("an array without numbers")
        return value.array
    if isinstance(value, list):
        return [finished(one, depth - 1, seen) for one in value]
    if isinstance(value, tuple):
        return tuple(finished(one, depth - 1, seen) for one in value)
    if isinstance(value, dict):
        return {key: finished(one, depth - 1, seen) for key, one in value.items()}
    return value


def kinds_of(values: Sequence[Any]) -> str:
    """What kinds the first of some values are, for an error."""
    return ", ".join(type(value).__name__.strip("_").lower() for value in values[:MOST_DIMENSIONS]) or "nothing"


def _push(machine: _Machine, value: Any) -> None:
    machine.stack.append(value)


def _name(machine: _Machine, text: str) -> None:
    if text not in NAMES:
        raise ValueError(f"it names {text[:100]!r}")
    machine.stack.append(_Name(NAMES[text]))


def _stacked_name(machine: _Machine, _: Any) -> None:
    names = machine.popped(2)
    if any(type(name) is not str for name in names):
        raise ValueError(f"it names something by {kinds_of(names)}")
    _name(machine, " ".join(names))


def _mark(machine: _Machine, _: Any) -> None:
    machine.marks.append(len(machine.stack))


def _appends(machine: _Machine, values: list[Any]) -> None:
    machine.last(list).extend(values)


def _items(machine: _Machine, values: list[Any]) -> None:
    keys = values[::2]
    if any(type(key) is not str for key in keys):
        raise ValueError("a key is no text")
    machine.last(dict).update(zip(keys, values[1::2], strict=True))


def _memoize(machine: _Machine, number: int | None) -> None:
    machine.memo[len(machine.memo) if number is None else number] = machine.stack[-1]


VALUES = (
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("SHORT_BINSTRING", "BINSTRING"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
)
"""The operations that hold a number, a text or bytes."""
Step = Callable[[_Machine, Any], None]
STEPS: Mapping[str, Step] = MappingProxyType(
    {
        **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda *_: None),
        **dict.fromkeys(VALUES, _push),
        "NONE": lambda machine, _: _push(machine, None),
        "NEWTRUE": lambda machine, _: _push(machine, True),
        "NEWFALSE": lambda machine, _: _push(machine, False),
        "EMPTY_LIST": lambda machine, _: _push(machine, []),
        "EMPTY_DICT": lambda machine, _: _push(machine, {}),
        "EMPTY_TUPLE": lambda machine, _: _push(machine, ()),
        "MARK": _mark,
        "APPEND": lambda machine, _: _appends(machine, machine.popped(1)),
        "APPENDS": lambda machine, _: _appends(machine, machine.marked()),
        "SETITEM": lambda machine, _: _items(machine, machine.popped(2)),
        "SETITEMS": lambda machine, _: _items(machine, machine.marked()),
        "TUPLE": lambda machine, _: _push(machine, tuple(machine.marked())),
        "TUPLE1": lambda machine, _: _push(machine, tuple(machine.popped(1))),
        "TUPLE2": lambda machine, _: _push(machine, tuple(machine.popped(2))),
        "TUPLE3": lambda machine, _: _push(machine, tuple(machine.popped(3))),
        "GLOBAL": _name,
        "STACK_GLOBAL": _stacked_name,
        "MEMOIZE": lambda machine, _: _memoize(machine, None),
        **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _memoize),
        **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, number: _push(machine, machine.memo[number])),
        "REDUCE": lambda machine, _: machine.call(),
        "BUILD": lambda machine, _: machine.build(),
    }
)
"""The operations that are followed, by the names that Python has for them."""
