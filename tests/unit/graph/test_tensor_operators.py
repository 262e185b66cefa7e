"""Operators and slices of tensors (clause G4)."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.tensor import Tensor


@pytest.fixture
def graph() -> Graph:
    return Graph()


@pytest.mark.parametrize(
    ("use", "op", "name"),
    [
        (operator.add, "AddV2", "add"),
        (operator.sub, "Sub", "sub"),
        (operator.mul, "Mul", "mul"),
        (operator.truediv, "RealDiv", "truediv"),
        (operator.floordiv, "FloorDiv", "floordiv"),
        (operator.mod, "FloorMod", "mod"),
        (operator.pow, "Pow", "pow"),
        (operator.matmul, "BatchMatMulV2", "matmul"),
    ],
)
def test_arithmetic_adds_nodes(
    graph: Graph, use: Callable[..., Tensor], op: str, name: str
) -> None:
    x = graph.placeholder("float32", name="x")
    others = [x, [[2.0]], np.ones((2, 2), np.float32), np.float32(3)]
    for position, other in enumerate(others[:3] if op == "BatchMatMulV2" else others):
        left, right = use(x, other), use(other, x)
        assert (left.op.op, right.op.op) == (op, op)
        assert left.op.sources[0] == (x.op, 0)
        assert right.op.sources[1] == (x.op, 0)
        assert left.op.name.startswith(name)
        if position == 0:
            assert left.op.name == name


@pytest.mark.parametrize(
    ("use", "op"),
    [
        (operator.lt, "Less"),
        (operator.le, "LessEqual"),
        (operator.gt, "Greater"),
        (operator.ge, "GreaterEqual"),
    ],
)
def test_comparisons_give_bools(graph: Graph, use: Callable[..., Tensor], op: str) -> None:
    x = graph.placeholder("float32")
    assert use(x, 1).op.op == op
    assert use(x, 1).dtype is dtypes.bool


@pytest.mark.parametrize(
    ("use", "op"),
    [
        (operator.lt, "Greater"),
        (operator.le, "GreaterEqual"),
        (operator.gt, "Less"),
        (operator.ge, "LessEqual"),
    ],
)
def test_an_array_is_compared_by_the_reversed_op(
    graph: Graph, use: Callable[..., Tensor], op: str
) -> None:
    x = graph.placeholder("float32")
    compared = use(np.ones(2, np.float32), x)
    assert compared.op.op == op
    assert compared.op.sources[0] == (x.op, 0)


def test_an_array_equals_no_tensor(graph: Graph) -> None:
    x = graph.placeholder("float32")
    array: Any = np.ones(2, np.float32)
    assert (array == x) is False
    assert (array != x) is True


def test_adding_a_tensor_to_an_array_in_place_makes_a_tensor(graph: Graph) -> None:
    x = graph.placeholder("float32")
    array = np.zeros(2, np.float32)
    total: Any = array
    total += x
    assert total.op.op == "AddV2"
    assert array.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (np.exp, "tf.exp is graphmill.ops.math.exp here"),
        (np.add.reduce, "run"),
        (lambda x: np.add(1.0, x, out=np.zeros(1)), "run"),
        (np.spacing, "see graphmill.ops.math"),
    ],
)
def test_functions_of_numpy_are_refused(
    graph: Graph, use: Callable[[Tensor], Any], advice: str
) -> None:
    with pytest.raises(TypeError, match=r"cannot be passed to numpy\.\w+: .*" + advice):
        use(graph.placeholder("float32", name="x"))


@pytest.mark.parametrize(
    ("dtype", "use", "op"),
    [
        ("bool", operator.and_, "LogicalAnd"),
        ("bool", operator.or_, "LogicalOr"),
        ("bool", operator.xor, "NotEqual"),
        ("int32", operator.and_, "BitwiseAnd"),
        ("int32", operator.or_, "BitwiseOr"),
        ("int32", operator.xor, "BitwiseXor"),
    ],
)
def test_logic_depends_on_the_type(
    graph: Graph, dtype: str, use: Callable[..., Tensor], op: str
) -> None:
    x = graph.placeholder(dtype)
    value = np.array(1).astype(dtype)
    assert use(x, value).op.op == use(value, x).op.op == op


@pytest.mark.parametrize(
    ("dtype", "use", "op"),
    [
        ("float32", operator.neg, "Neg"),
        ("float32", abs, "Abs"),
        ("complex64", abs, "ComplexAbs"),
        ("bool", operator.invert, "LogicalNot"),
        ("int8", operator.invert, "Invert"),
    ],
)
def test_unary_operators_add_nodes(
    graph: Graph, dtype: str, use: Callable[..., Tensor], op: str
) -> None:
    assert use(graph.placeholder(dtype)).op.op == op


def test_strings_add(graph: Graph) -> None:
    assert (graph.constant("a") + "b").op.op == "Add"
    assert ("b" + graph.constant("a")).op.op == "Add"


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [("int8", "float32"), ("uint16", "float32"), ("int32", "float64"), ("int64", "float64")],
)
def test_dividing_integers_gives_floats(graph: Graph, dtype: str, wide: str) -> None:
    x = graph.placeholder(dtype)
    assert (x / 2).dtype is (2 / x).dtype is dtypes.as_dtype(wide)
    assert (x / x).op.name == "truediv_2"


def test_operands_that_do_not_fit(graph: Graph) -> None:
    x = graph.placeholder("int32")
    with pytest.raises(InvalidArgumentError, match=r"2\.5 is float32"):
        x + 2.5
    with pytest.raises(InvalidArgumentError):
        x / 2.5
    with pytest.raises(InvalidArgumentError, match="is not a tensor"):
        x + None  # type: ignore[operator]


# Slices.


def spec(tensor: Tensor) -> tuple[Any, ...]:
    """Return begin, end, strides and the masks of a slice."""
    node = tensor.op
    vectors = [
        src.attrs["value"].numpy().tolist() if src.op == "Const" else src.op
        for src, _ in node.sources[1:]
    ]
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return (*vectors, *(node.attrs[mask] for mask in masks))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (np.s_[0], ([0], [1], [1], 0, 0, 0, 0, 1)),
        (np.s_[-1], ([-1], [0], [1], 0, 0, 0, 0, 1)),
        (np.s_[1:3], ([1], [3], [1], 0, 0, 0, 0, 0)),
        (np.s_[:], ([0], [0], [1], 1, 1, 0, 0, 0)),
        (np.s_[::-1], ([0], [0], [-1], 1, 1, 0, 0, 0)),
        (np.s_[-3:-1:2], ([-3], [-1], [2], 0, 0, 0, 0, 0)),
        (np.s_[..., 2], ([0, 2], [0, 3], [1, 1], 0, 0, 1, 0, 2)),
        (np.s_[None, 1:, ...], ([0, 1, 0], [0, 0, 0], [1, 1, 1], 0, 2, 4, 1, 0)),
        (np.s_[np.int64(2), np.newaxis], ([2, 0], [3, 0], [1, 1], 0, 0, 0, 2, 1)),
        ((), ([], [], [], 0, 0, 0, 0, 0)),
    ],
)
def test_slices_are_strided_slices(graph: Graph, key: Any, expected: tuple[Any, ...]) -> None:
    found = graph.placeholder("float32")[key]
    assert spec(found) == expected
    assert (found.name, found.op.op) == ("strided_slice:0", "StridedSlice")


def test_tensors_may_be_indices(graph: Graph) -> None:
    x = graph.placeholder("float32")
    i = graph.placeholder("int32", [])
    assert spec(x[i]) == ("Pack", "Pack", [1], 0, 0, 0, 0, 1)
    assert spec(x[: i + 1, ::i]) == ([0, 0], "Pack", "Pack", 3, 2, 0, 0, 0)


def test_wide_indices_make_all_wide(graph: Graph) -> None:
    x = graph.placeholder("float32")
    i, j = graph.placeholder("int32", []), graph.placeholder("int64", [])
    assert x[i, j].op.attrs["Index"] is dtypes.int64
    assert x[: 2**40].op.attrs["Index"] is dtypes.int64
    assert x[1].op.attrs["Index"] is dtypes.int32


@pytest.mark.parametrize("key", [1.5, "a", True, [0, 1], np.array([0, 1]), slice("a", None)])
def test_invalid_index_is_refused(graph: Graph, key: Any) -> None:
    x = graph.placeholder("float32")
    with pytest.raises(TypeError, match="cannot index a tensor"):
        x[key]


def test_wrong_slices_are_refused(graph: Graph) -> None:
    x = graph.placeholder("float32")
    with pytest.raises(TypeError, match="must be of int32 or int64"):
        x[x]
    with pytest.raises(InvalidArgumentError, match="step of a slice cannot be 0"):
        x[::0]
    with pytest.raises(InvalidArgumentError, match=r"only one '\.\.\.'"):
        x[..., ...]
