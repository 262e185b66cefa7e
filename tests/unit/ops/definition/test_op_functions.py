"""One Python function for each op, created from its definition (clause G4)."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill.ops as gm_ops
from graphmill import dtypes
from graphmill.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from graphmill.graph.builder import Graph
from graphmill.graph.tensor import Tensor
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_functions import op_function
from graphmill.ops.definition.op_registry import bundled_ops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.node import Node


@pytest.fixture
def graph() -> Iterator[Graph]:
    graph = Graph()
    with graph.as_default():
        yield graph


def value(tensor: Any) -> Any:
    """Return the value of a Const."""
    return tensor.op.attrs["value"].numpy()


def source(node: Node, position: int) -> Tensor:
    return Tensor(*node.sources[position])


def test_tensors_become_inputs_of_a_node(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    y = gm_ops.math.add_v2(x, y=x, name="sum")
    assert (y.name, y.dtype, y.op.op) == ("sum:0", dtypes.float32, "AddV2")
    assert y.op.sources == [(x.op, 0), (x.op, 0)]


def test_attrs_are_keywords_with_defaults(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    y = gm_ops.nn.conv2d(x, x, strides=[1, 2, 2, 1], padding="VALID")
    assert y.op.attrs["strides"] == (1, 2, 2, 1)
    assert y.op.attrs["data_format"] == b"NHWC"


def test_several_outputs_are_a_named_tuple(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    found = gm_ops.nn.top_kv2(x, 2)
    assert found._fields == ("values", "indices")
    assert found.indices.name == "TopKV2:1"


def test_a_list_output_is_a_list(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    assert [t.name for t in gm_ops.array.split(0, x, num_split=2)] == ["Split:0", "Split:1"]


def test_an_op_without_outputs_gives_its_node(graph: Graph) -> None:
    node = gm_ops.control_flow.no_op(name="init")
    assert (node.name, node.op) == ("init", "NoOp")


def test_lists_become_list_inputs(graph: Graph) -> None:
    x = graph.placeholder("float64", name="x")
    y = gm_ops.array.concat_v2([x, [1, 2]], axis=0)
    assert y.op.attrs["N"] == 2
    assert value(source(y.op, 1)).dtype == np.float64
    with pytest.raises(InvalidArgumentError, match="'values': expected a list of tensors"):
        gm_ops.array.concat_v2(x, 0)


@pytest.mark.parametrize("left", [2, 2.5, np.float32(2), [1, 2]])
def test_values_take_dtype_of_tensors_in_any_position(graph: Graph, left: Any) -> None:
    x = graph.placeholder("float16" if np.ndim(left) else "float32", name="x")
    y = gm_ops.math.mul(left, x)
    assert y.dtype is x.dtype
    assert source(y.op, 0).name == "Mul/x:0"


@pytest.mark.parametrize(
    ("x", "y", "dtype"),
    [
        (1, 2, dtypes.int32),
        (1, 2.5, dtypes.float32),
        (2.5, 1, dtypes.float32),
        (1, 2**40, dtypes.int64),
        (np.float64(1), 2, dtypes.float64),
        (2, np.array([1], np.int8), dtypes.int8),
        ([1.5], 2, dtypes.float32),
        (1j, 1j, dtypes.complex128),
    ],
)
def test_values_alone_determine_the_type(graph: Graph, x: Any, y: Any, dtype: dtypes.DType) -> None:
    assert gm_ops.math.add_v2(x, y).dtype is dtype


def test_numbers_take_default_of_type_attr(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    assert source(gm_ops.array.reshape(x, [1, 2]).op, 1).dtype is dtypes.int32
    big = source(gm_ops.array.reshape(x, [2**40]).op, 1)
    assert big.dtype is dtypes.int64


def test_lists_that_hold_tensors_are_packed(graph: Graph) -> None:
    x = graph.placeholder("int32", [], name="x")
    y = gm_ops.array.reshape([1, 2], [x, -1])
    packed = source(y.op, 1).op
    assert (packed.op, packed.name) == ("Pack", "Reshape/shape")
    assert packed.sources[0] == (x.op, 0)
    nested = gm_ops.array.identity([[x, 1], [2, 3]])
    assert [t.op for t, _ in source(nested.op, 0).op.sources] == ["Pack", "Const"]


def test_strings_keep_every_byte(graph: Graph) -> None:
    y = gm_ops.array.identity([b"a\0", "ä"])
    assert value(source(y.op, 0)).tolist() == [b"a\0", "ä".encode()]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2.5, "'y': expected a value of int32, but 2.5 is float32"),
        (2**40, "does not fit into -2147483648 to 2147483647"),
        (True, "expected a value of int32, but True is bool"),
        (None, "None is not a tensor"),
        ([[1], [1, 2]], "is not a tensor"),
        (np.array([1.0]), "expected a value of int32"),
        ({}, "is not a tensor: it contains dict"),
    ],
)
def test_values_that_do_not_fit_add_nothing(graph: Graph, value: Any, message: str) -> None:
    x = graph.placeholder("int32", name="x")
    before = len(graph)
    with pytest.raises(InvalidArgumentError) as caught:
        gm_ops.math.add_v2(x, value)
    assert message in caught.value.message
    assert len(graph) == before


def test_tensors_that_do_not_fit(graph: Graph) -> None:
    x = graph.placeholder("int32", name="x")
    f = graph.placeholder("float32", name="f")
    with pytest.raises(InvalidArgumentError, match="'y' has type float32, which does not match"):
        gm_ops.math.add_v2(x, f)
    with pytest.raises(InvalidArgumentError, match="'ref': expected a reference to a variable"):
        gm_ops.state.assign(1.0, f)
    with pytest.raises(InvalidArgumentError, match="'ref' must be a reference"):
        gm_ops.state.assign(f, f)


def test_wrong_attrs_add_nothing(graph: Graph) -> None:
    before = len(graph)
    with pytest.raises(InvalidArgumentError, match="did you mean 'SAME'"):
        gm_ops.nn.conv2d(1.0, 1.0, strides=[1], padding="SAM")
    assert len(graph) == before


def test_a_wrong_call_shows_the_signature(graph: Graph) -> None:
    with pytest.raises(TypeError, match=r"add_v2\(x, y, \*, name=None\): missing .* 'y'"):
        gm_ops.math.add_v2(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        gm_ops.math.add_v2(1, 2, z=3)  # type: ignore[call-arg]


def test_graph_of_the_inputs_is_used_without_a_default_graph() -> None:
    with pytest.raises(FailedPreconditionError, match=r"graph\.as_default"):
        gm_ops.math.add_v2(1, 2)
    graph = Graph()
    x = graph.placeholder("int32")
    with Graph().as_default():
        assert gm_ops.math.add_v2(x, 2).graph is graph


def test_inputs_of_two_graphs_are_refused() -> None:
    x, y = Graph().placeholder("int32"), Graph().placeholder("int32")
    with pytest.raises(InvalidArgumentError, match="belong to several graphs"):
        gm_ops.math.add_v2(x, y)


def test_function_has_signature_and_docstring() -> None:
    function = gm_ops.nn.max_pool
    assert str(inspect.signature(function)) == (
        "(input, *, ksize, strides, padding, explicit_paddings=(), data_format='NHWC', name=None)"
    )
    assert function.__name__ == "max_pool"
    assert function.__module__ == "graphmill.ops.nn"
    assert "padding: string, one of 'SAME', 'VALID', 'EXPLICIT'." in (function.__doc__ or "")


def test_a_function_is_made_once() -> None:
    assert gm_ops.math.sub is gm_ops.math.sub
    assert "sub" in vars(sys.modules["graphmill.ops.math"])


def test_unknown_names_are_answered_with_near_matches() -> None:
    with pytest.raises(AttributeError, match="did you mean 'add_v2'"):
        gm_ops.math.add_v3  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"it is graphmill\.ops\.random\.truncated_normal"):
        gm_ops.io.truncated_normal  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'math'"):
        gm_ops.maths  # noqa: B018
    with pytest.raises(AttributeError):
        gm_ops.math.__path__  # noqa: B018


def test_modules_list_their_functions() -> None:
    assert "add_v2" in dir(gm_ops.math)
    assert "conv2d" in gm_ops.nn.__all__  # type: ignore[attr-defined]
    assert "math" in dir(gm_ops)


def test_every_op_has_a_function_and_a_docstring() -> None:
    for name in bundled_ops().names():
        function = op_function(bundled_ops().get(name))
        assert inspect.signature(function).parameters["name"].default is None
        assert name in (function.__doc__ or "")


def test_reserved_names_get_an_underscore(graph: Graph) -> None:
    op_def = OpDef(
        "Odd",
        (ArgDef("name", dtypes.int32), ArgDef("lambda", dtypes.int32)),
        (ArgDef("class", dtypes.int32), ArgDef("_x", dtypes.int32)),
        (AttrDef("def", "int", 1),),
    )
    function = op_function(op_def)
    assert str(inspect.signature(function)) == "(name_, lambda_, *, def_=1, name=None)"
    found = function(1, 2, def_=3)
    assert found.class_.op.attrs == {"def": 3}
    assert found[1].name == "Odd:1"


@pytest.mark.parametrize(
    ("value", "dtype", "found"),
    [
        ([1.5], "float32", np.array([1.5], np.float32)),
        (3, "float64", np.array(3.0)),
        (["é", b"x"], "string", np.array(["é".encode(), b"x"], object)),
        (np.arange(2), "float32", np.array([0, 1], np.float32)),
    ],
)
def test_constant_has_the_explicit_type_g4(value: Any, dtype: str, found: Any) -> None:
    with Graph().as_default():
        held = gm_ops.array.const(value=value, dtype=dtype).op.attrs["value"].numpy()
    assert held.dtype == found.dtype
    assert held.tolist() == found.tolist()


@pytest.mark.parametrize(
    ("value", "dtype", "match"),
    [
        (["a"], "float32", r"attr 'value' of op Const: expected a value of float32"),
        ([1.5], "int32", r"attr 'value' of op Const: expected a value of int32"),
        ([300], "int8", r"attr 'value' of op Const.* does not fit into -128 to 127"),
        ([[1], [1, 2]], "int32", r"attr 'value' of op Const: .* is not a tensor"),
        ([object()], "string", r"attr 'value' of op Const: .* is not a tensor: it contains object"),
    ],
)
def test_a_constant_that_does_not_fit_its_type_is_refused_g4(
    value: Any, dtype: str, match: str
) -> None:
    with Graph().as_default(), pytest.raises(InvalidArgumentError, match=match):
        gm_ops.array.const(value=value, dtype=dtype)


def test_functions_are_found_by_the_name_of_an_op() -> None:
    function = op_function("AddV2")
    assert list(inspect.signature(function).parameters) == ["x", "y", "name"]
    with pytest.raises(NotFoundError, match="unknown op 'AddV3'; did you mean 'AddV2'"):
        op_function("AddV3")
