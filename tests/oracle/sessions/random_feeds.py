"""Random feeds and fetches, valid and not, for one graph of both systems.

A program is a list of calls, drawn from a seed: the same seed draws the same calls for sessions of
TensorFlow and of graphmill. A call names its tensors in any form that the API knows, feeds values
of odd types and layouts, and nests its fetches.
"""

from __future__ import annotations

import collections
import decimal
import fractions
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from graphmill.ops.attrs.attr_types import ShapeAttr
from graphmill.testing.proto_builders import const_def, graph_def, node_def

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES: Final = (
    *("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32"),
    *("int64", "uint32", "uint64", "bool", "complex64", "complex128", "string"),
)
SHAPES: Final = {"s": (), "v": (2,), "m": (2, 3), "n": (-1,), "r": (-1, 3), "u": None}
LAYOUTS: Final = ("as it is", "strided", "reversed", "fortran", "swapped", "frozen")
CALLS: Final = 8
"""Calls of a program; the last is a partial run: one that fails ends TensorFlow's session."""


def graph_message() -> Any:
    """Return the graph: a placeholder of each type and kind of shape, and nodes of other kinds."""
    nodes = []
    for dtype in DTYPES:
        for kind, shape in SHAPES.items():
            name = f"{dtype}_{kind}"
            sizes = None if shape is None else ShapeAttr(shape)
            nodes.append(node_def(name, "Placeholder", dtype=dtype, shape=sizes))
            nodes.append(node_def(f"{name}_copy", "Identity", name, T=dtype))
    floats = {"T": "float32"}
    pair = ShapeAttr((2,))
    return graph_def(
        *nodes,
        const_def("two", np.array([2.0, 3.0], np.float32)),
        const_def("axis", 0),
        const_def("start", np.array([5.0, 6.0], np.float32)),
        node_def("sum", "AddV2", "two", "float32_v", **floats),
        node_def("product", "Mul", "sum", "float32_v", **floats),
        node_def("halves", "Split", "axis", "sum", num_split=2, **floats),
        node_def(
            "default", "PlaceholderWithDefault", "two", dtype="float32", shape=ShapeAttr((2,))
        ),
        node_def("default_copy", "Identity", "default", **floats),
        node_def("handle", "VarHandleOp", dtype="float32", shape=pair, shared_name=b"v"),
        node_def("read", "ReadVariableOp", "handle", dtype="float32"),
        node_def("init", "AssignVariableOp", "handle", "start", dtype="float32"),
        node_def("double", "AddV2", "read", "read", **floats),
        node_def("old", "VariableV2", dtype="float32", shape=pair),
        node_def("old_init", "Assign", "old", "start", T="float32"),
        node_def("old_copy", "Neg", "old", **floats),
        node_def("nothing", "NoOp", "^sum"),
        node_def("protected", "Neg", "two", **floats),
        node_def("protected_copy", "Neg", "protected", **floats),
    )


INNER: Final = ("two:0", "sum:0", "halves:1", "default:0", "read:0", "old_copy:0", "protected:0")
"""Tensors of float32 that can be fed although they are no placeholders, except for the last."""

FETCHED: Final = (
    *("sum:0", "product:0", "halves:0", "halves:1", "default_copy:0", "double:0", "old_copy:0"),
    *(
        "two:0",
        "read:0",
        "old:0",
        "default:0",
        "protected_copy:0",
        "float32_v:0",
        "float32_v_copy:0",
    ),
)
OPERATIONS: Final = ("nothing", "sum", "init", "halves")
WRONG: Final = ("nowhere:0", "sum:1", "", ":0", "sum:x", "nowhere", "sum:0:0", "/:0")

Point = collections.namedtuple("Point", ["x", "y"])  # noqa: PYI024 - fields of any kind


@dataclass
class Fed:
    """A value to feed.

    Attributes:
        value: the value.
        is_lossy: whether the element type cannot hold it, or the runtime has to guess: only
            graphmill refuses it.
    """

    value: Any
    is_lossy: bool = False


class Call:
    """Draws one call.

    Args:
        draw: the source of random numbers.
        graph: the graph object, of either system.
    """

    def __init__(self, draw: random.Random, graph: Any) -> None:
        self.draw = draw
        self.graph = graph
        self.notes: list[str] = []
        self.is_lossy = False

    # Names

    def tensor(self, name: str) -> Any:
        """Return a tensor in one of the forms that name it."""
        form = self.draw.choice(["text", "text", "object", "object", "bytes"])
        if form == "object" and name.rpartition(":")[0] not in {"", "nowhere"}:
            try:
                return self.graph.get_tensor_by_name(name)
            except (LookupError, ValueError):
                return name
        return name.encode() if form == "bytes" else name

    def leaf(self) -> Any:
        """Return one fetch."""
        kind = self.draw.choice(["tensor"] * 8 + ["operation", "object", "copy", "copy"])
        if self.draw.random() < 0.04:
            wrong = self.draw.choice([*WRONG, None, 3, 1.5, object, np.float32(1)])
            self.notes.append(f"fetch {wrong!r}")
            return wrong
        if kind == "operation":
            return self.draw.choice(OPERATIONS)
        if kind == "object":
            return self.graph.get_operation_by_name(self.draw.choice(OPERATIONS))
        if kind == "copy" and self.fed:
            name = self.draw.choice(self.fed)
            stem = name.partition(":")[0]
            copies = [f"{stem}_copy:0"] if stem.rpartition("_")[0] in DTYPES else []
            return self.tensor(self.draw.choice([name, *copies]))
        return self.tensor(self.draw.choice(FETCHED))

    def fetches(self, depth: int = 2) -> Any:
        """Return a structure of fetches."""
        draw = self.draw
        if not depth or draw.random() < 0.4:
            return self.leaf()
        parts = [self.fetches(depth - 1) for _ in range(draw.randrange(4))]
        if parts and draw.random() < 0.2:
            parts.append(parts[0])
        kind = draw.choice(["list", "tuple", "dict", "ordered", "default", "point", "set"])
        keys: list[Any] = [*"abcde", 1, None][: len(parts)]
        if kind == "point" and len(parts) == 2:
            return Point(*parts)
        if kind == "dict":
            return dict(zip(keys, parts, strict=False))
        if kind == "ordered":
            return collections.OrderedDict(zip(keys, parts, strict=False))
        if kind == "default":
            return collections.defaultdict(list, zip(keys, parts, strict=False))
        if kind == "set" and draw.random() < 0.1:
            self.notes.append("set of fetches")
            return {"sum:0"}
        return tuple(parts) if kind == "tuple" else parts

    # Values

    def numbers(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return small integers, which all types hold."""
        count = int(np.prod(shape, dtype=int))
        return np.array([self.draw.randrange(2) for _ in range(count)], np.int64).reshape(shape)

    def fitting(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return an array of the type and shape of a tensor."""
        whole = self.numbers(shape)
        if dtype == "string":
            texts = [b"\xff\0" * n + b"a" for n in whole.ravel()]
            return np.array(texts, object).reshape(shape)
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        if dtype.startswith("float") and self.draw.random() < 0.2:
            return np.asarray(whole + np.nan, kind)
        return whole.astype(kind)

    def laid_out(self, array: np.ndarray[Any, Any]) -> Any:
        """Return equal values in another layout of memory."""
        draw = self.draw
        form = draw.choice(
            ["as it is", "strided", "reversed", "fortran", "swapped", "frozen", "list"]
        )
        self.notes.append(form)
        if form == "strided" and array.ndim:
            wide = np.repeat(array, 2, axis=0)
            return wide[::2]
        if form == "reversed" and array.ndim:
            return np.ascontiguousarray(array[::-1])[::-1]
        if form == "fortran":
            return np.asfortranarray(array)
        if form == "swapped" and array.dtype.kind in "iufc" and array.dtype.itemsize > 1:
            return array.astype(array.dtype.newbyteorder())
        if form == "frozen":
            frozen = array.copy()
            frozen.flags.writeable = False
            return frozen
        if form == "list":
            return array.tolist()
        return array

    def other_type(self, dtype: str, shape: tuple[int, ...]) -> Fed:
        """Return values of another element type than the tensor's."""
        draw = self.draw
        source = draw.choice([one for one in DTYPES if one != dtype])
        self.notes.append(f"from {source}")
        array = self.fitting(source, shape)
        if dtype == "string" or source == "string":
            return Fed(array, is_lossy=True)
        narrow = source.startswith("complex") or array.dtype.kind == "f" or source == "bfloat16"
        return Fed(self.laid_out(array) if draw.random() < 0.3 else array, is_lossy=narrow)

    def scalar(self, dtype: str) -> Fed:
        """Return one Python or NumPy scalar."""
        value = self.draw.choice(
            [
                *(0, 1, 2, -1, 200, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 10**400),
                *(True, False, 1.0, 1.5, float("nan"), float("inf"), 1e300, 1 + 2j, 1 + 0j),
                *("text", "1.5", "é", b"bytes", b"1", "\ud800", np.str_("text"), np.bytes_(b"b")),
                *(np.int8(1), np.int64(2**40), np.uint64(2**63), np.float16(1.5), np.bool_(True)),
                *(np.float64(0.1), np.array(1), np.array(2.0), np.array(b"x"), np.array("x")),
                *(np.array(b"y", object), np.array(1, object), np.complex64(1j)),
                *(np.array(ml_dtypes.bfloat16(1.5)), np.longdouble(1)),
            ]
        )
        self.notes.append(f"{type(value).__name__} {str(value)[:20]!a}")
        return Fed(value, is_lossy=not isinstance(value, int) or abs(value) >= 2**64)

    def strange(self, shape: tuple[int, ...]) -> Fed:
        """Return an object that is not meant to be fed."""
        whole = self.numbers(shape)
        name, value = self.draw.choice(
            [
                ("None", None),
                ("objects", whole.astype(object)),
                ("objects with None", np.full(shape, None)),
                ("fractions", np.full(shape, fractions.Fraction(1, 2)).tolist()),
                ("decimals", np.full(shape, decimal.Decimal(1)).tolist()),
                ("ragged list", [[1, 2], [3]]),
                ("ragged objects", np.array([[1, 2], [3]], object)),
                ("mixed list", [1, "two"]),
                ("mixed text", [b"one", "two"]),
                ("empty list", []),
                ("empty lists", [[], []]),
                ("range", range(2)),
                ("set", {1, 2}),
                ("dict", {"a": 1}),
                ("class", int),
                ("memory", memoryview(b"ab")),
                ("bytearray", bytearray(b"ab")),
                ("matrix", np.ones((2, 3), np.float32).view(np.matrix)),
                ("masked", np.ma.masked_array([1.0, 2.0], [True, False])),
                ("record", np.zeros(2, [("a", "f4"), ("b", "f4")])),
                ("dates", np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")),
                ("list of arrays", [np.float32(1), np.array(2.0)]),
                ("wide text", np.array(["ab", "c"])),
                ("bytes with zeros", np.array([b"a\0", b"c"])),
                ("sparse value", Point([[0, 0]], [1.0])),
                ("tensor", "the tensor"),
            ]
        )
        self.notes.append(name)
        if name == "tensor":
            value = self.graph.get_tensor_by_name("two:0")
        return Fed(value, is_lossy=True)

    def value(self, dtype: str, shape: tuple[int, ...] | None) -> Fed:
        """Return a value for a tensor."""
        draw = self.draw
        given = (draw.choice(list(SHAPES.values())[:3]) if shape is None else shape) or ()
        sizes = tuple(draw.choice([0, 1, 2, 3]) if size < 0 else size for size in given)
        if draw.random() < 0.1:
            sizes = (*sizes, 2) if draw.random() < 0.5 else sizes[1:]
            self.notes.append(f"shape {sizes}")
        kind = draw.choice(["fitting"] * 4 + ["other type"] * 2 + ["scalar", "strange"])
        if kind == "fitting":
            return Fed(self.laid_out(self.fitting(dtype, sizes)))
        if kind == "other type":
            return self.other_type(dtype, sizes)
        if kind == "scalar" and (not sizes or draw.random() < 0.3):
            return self.scalar(dtype)
        return self.strange(sizes)

    def feeds(self) -> dict[Any, Any]:
        """Return a dict of feeds."""
        draw = self.draw
        made: dict[Any, Any] = {}
        self.fed: list[str] = []
        if draw.random() < 0.7:
            name = "float32_v:0"
            self.fed.append(name)
            made[self.tensor(name)] = self.fitting("float32", (2,))
        for _ in range(draw.randrange(3)):
            kind = draw.choice(["placeholder"] * 5 + ["inner", "inner", "wrong"])
            if kind == "wrong":
                key = draw.choice([*WRONG, None, 3, np.float32(1), "nothing"])
                self.notes.append(f"feed {key!r}")
                made[key] = 1.0
                continue
            if kind == "inner":
                name, dtype = draw.choice(INNER), "float32"
                shape: tuple[int, ...] | None = (1,) if name == "halves:1" else (2,)
            else:
                dtype, form = draw.choice(DTYPES), draw.choice(list(SHAPES))
                name, shape = f"{dtype}_{form}:0", SHAPES[form]
            self.notes.append(name)
            fed = self.value(dtype, shape)
            self.is_lossy |= fed.is_lossy
            made[self.tensor(name)] = fed.value
            self.fed.append(name)
        return made


def calls_of(seed: int, session: Any) -> list[tuple[str, bool, Callable[[], Any]]]:
    """Draw calls: of each what it does, whether graphmill alone may refuse it, and the call."""
    draw = random.Random(seed)
    made = []
    for number in range(CALLS):
        call = Call(draw, session.graph)
        feeds = call.feeds()
        fetches = call.fetches()
        ways = ["partial"] if number == CALLS - 1 else ["run", "run", "callable"]
        way = draw.choice(ways)
        text = f"{way}: {call.notes}, fetches {fetches!r}, feeds {feeds!r}"
        made.append((text, call.is_lossy, _action(session, way, feeds, fetches)))
    return made


def _action(session: Any, way: str, feeds: dict[Any, Any], fetches: Any) -> Callable[[], Any]:
    if way == "callable":
        return lambda: session.make_callable(fetches, list(feeds))(*feeds.values())

    def partial() -> Any:
        handle = session.partial_run_setup(fetches, list(feeds))
        return session.partial_run(handle, fetches, feeds)

    return partial if way == "partial" else lambda: session.run(fetches, feeds)
