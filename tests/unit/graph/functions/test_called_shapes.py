"""Shapes are inferred through the bodies of called functions (clause G5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import graphmill
from graphmill import proto
from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph
from graphmill.ops import array, functional
from graphmill.ops.attrs.attr_types import FuncAttr

NOT_TRANSPOSED = "".join(f' attr {{ key: "transpose_{x}" value {{ b: false }} }}' for x in "ab")
INT_SCALAR = (
    'attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor '
    "{ dtype: DT_INT32 tensor_shape { } int_val: 0 } } }"
)
SUM = ' attr { key: "Tidx" value { type: DT_INT32 } } attr { key: "keep_dims" value { b: true } }'
FLOAT = 'attr { key: "T" value { type: DT_FLOAT } }'


def function(name: str, args: str, *nodes: str, ret: str) -> str:
    types = {"h": "DT_RESOURCE", "i": "DT_INT32", "p": "DT_BOOL"}
    ins = "".join(
        f'input_arg {{ name: "{arg}" type: {types.get(arg, "DT_FLOAT")} }} ' for arg in args.split()
    )
    outs = "".join(
        f'output_arg {{ name: "{arg}" type: {types.get(arg[0], "DT_FLOAT")} }} '
        for arg in (pair.split("=")[0] for pair in ret.split())
    )
    rets = "".join(
        'ret {{ key: "{}" value: "{}" }} '.format(*pair.split("=")) for pair in ret.split()
    )
    return f'signature {{ name: "{name}" {ins}{outs}}} {" ".join(nodes)} {rets}'


def node(name: str, op: str, *inputs: str, attrs: str = FLOAT) -> str:
    input_lines = "".join(f'input: "{one}" ' for one in inputs)
    return f'node_def {{ name: "{name}" op: "{op}" {input_lines}{attrs} }}'


PRODUCT = function(
    "product",
    "x w",
    node("m", "MatMul", "x", "w", attrs=FLOAT + NOT_TRANSPOSED),
    ret="y=m:product:0",
)
SAME = function("same", "x w", node("n", "Tanh", "x"), ret="y=n:y:0")
SECOND = function("second", "x w", node("n", "Tanh", "w"), ret="y=n:y:0")
READ = function(
    "read", "h",
    node("r", "ReadVariableOp", "h", attrs='attr { key: "dtype" value { type: DT_FLOAT } }'),
    ret="y=r:value:0",
)  # fmt: skip
ALWAYS = function("always", "x", node("n", "Less", "x", "x"), ret="p=n:z:0")
STAYS = function("stays", "x", node("n", "Tanh", "x"), ret="y=n:y:0")
SUMMED = function(
    "summed",
    "x",
    node("i", "Const", attrs=INT_SCALAR),
    node("n", "Sum", "x", "i:output:0", attrs=FLOAT + SUM),
    ret="y=n:output:0",
)
AGAIN = function("again", "x", node("n", "again", "x", attrs=""), ret="y=n:y:0")


@pytest.fixture
def graph() -> Any:
    made = Graph()
    for text in (PRODUCT, SAME, SECOND, READ, ALWAYS, STAYS, SUMMED, AGAIN):
        made.library.add(text_format.Parse(text, proto.FunctionDef()))
    with made.as_default():
        yield made


def test_a_call_is_followed(graph: Graph) -> None:
    x, w = graph.placeholder("float32", [None, 3]), graph.placeholder("float32", [3, 5])
    (y,) = functional.partitioned_call([x, w], Tout=["float32"], f="product")
    (z,) = functional.stateful_partitioned_call([y, w], Tout=["float32"], f="same")
    assert z.shape == (None, 5)


def test_a_contradiction_inside_names_function_and_node(graph: Graph) -> None:
    x = graph.placeholder("float32", [2, 3])
    with pytest.raises(InvalidArgumentError, match=r"in function 'product'.*3 and 2") as caught:
        functional.partitioned_call([x, x], Tout=["float32"], f="product")
    assert caught.value.op_type == "MatMul"


def test_an_op_that_is_a_function_is_followed(graph: Graph) -> None:
    graph.placeholder("float32", [4, 6], name="x")
    message = graph.as_graph_def()
    message.node.add(name="y", op="stays", input=["x"])
    assert Graph.from_graph_def(message).get_tensor_by_name("y:0").shape == (4, 6)


def test_the_handle_of_a_variable_takes_its_shape_along(graph: Graph) -> None:
    variable = graphmill.Variable(np.zeros([2, 3], np.float32))
    (y,) = functional.partitioned_call([variable.handle], Tout=["float32"], f="read")
    assert y.shape == (2, 3)


def test_branches_return_their_common_shape(graph: Graph) -> None:
    x, w = graph.placeholder("float32", [4, 2]), graph.placeholder("float32", [7, 2])
    choice = graph.placeholder("bool", [])
    (y,) = functional.if_(
        choice, [x, w], Tout=["float32"], then_branch="same", else_branch="second"
    )
    assert y.shape == (None, 2)
    branches = (FuncAttr("same"), FuncAttr("same"))
    (z,) = functional.case(graph.constant(0), [x, w], Tout=["float32"], branches=branches)
    assert z.shape == (4, 2)


def test_impossible_branch_is_not_an_error(graph: Graph) -> None:
    x = graph.placeholder("float32", [2, 3])
    (y,) = functional.if_(
        graph.placeholder("bool", []), [x, x], Tout=["float32"],
        then_branch="product", else_branch="same",
    )  # fmt: skip
    assert y.shape.rank is None


def test_loops_detect_invariants(graph: Graph) -> None:
    x = graph.placeholder("float32", [3, 2])
    for body, shape in (("stays", (3, 2)), ("summed", (None, 2))):
        (y,) = functional.while_([x], cond="always", body=body)
        assert y.shape == shape, body


def test_gradient_has_the_shape_of_its_input(graph: Graph) -> None:
    x, w = graph.placeholder("float32", [2, 3]), graph.placeholder("float32", [3, 5])
    d = graph.placeholder("float32", [2, 5])
    dx, dw = functional.symbolic_gradient([x, w, d], Tout=["float32", "float32"], f="product")
    assert (dx.shape, dw.shape) == ((2, 3), (3, 5))


def test_a_function_that_calls_itself_is_unknown(graph: Graph) -> None:
    x = graph.placeholder("float32", [3])
    (y,) = functional.partitioned_call([x], Tout=["float32"], f="again")
    assert y.shape.rank is None
    assert array.identity(y).shape.rank is None
