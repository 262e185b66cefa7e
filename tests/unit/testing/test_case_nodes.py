"""Nodes and functions of case programs."""

from __future__ import annotations

import pytest

from graphmill.testing.case_inputs import SpecError
from graphmill.testing.case_nodes import NodeSpec, Source, parse_function, parse_node


def test_a_node_is_parsed_with_everything():
    text = "y = Op(x, u[1], [x, w], dtype=T, shape=[2, -1], s='a', on=True, after=[i, j])"
    assert parse_node(text, {"T": "float32"}) == NodeSpec(
        name="y",
        op="Op",
        inputs=(Source("x"), Source("u", 1), (Source("x"), Source("w"))),
        attrs={"dtype": "float32", "shape": [2, -1], "s": "a", "on": True},
        after=("i", "j"),
    )


def test_a_function_is_parsed():
    spec = parse_function(
        "f(x: T, n: int32) -> (T, int32): y = Mul(x, x); return y, n", {"T": "half"}
    )
    assert spec.arguments == (("x", "half"), ("n", "int32"))
    assert spec.results == ("half", "int32")
    assert [node.op for node in spec.nodes] == ["Mul"]
    assert spec.returns == (Source("y"), Source("n"))


@pytest.mark.parametrize(
    "text",
    [
        "Op(x)",
        "y = x",
        "y = a.b(x)",
        "y = Op(1)",
        "y = Op(x",
        "y = Op(x); z = Op(y)",
        "y = Op(x, after=i)",
    ],
)
def test_invalid_node_is_refused(text):
    with pytest.raises(SpecError):
        parse_node(text)


@pytest.mark.parametrize(
    "text", ["f(x: int32): return x", "f(x: int32) -> int32: y = Neg(x)", "f(x) -> int32: return x"]
)
def test_invalid_function_is_refused(text):
    with pytest.raises(SpecError):
        parse_function(text)


@pytest.mark.parametrize("op", ["Mine>Scale", "Mine>Deep>Scale"])
def test_an_op_may_have_a_namespace(op):
    node = parse_node(f"y = {op}(x, factor=2.0, after=[init])")
    assert (node.name, node.op, node.attrs, node.after) == ("y", op, {"factor": 2.0}, ("init",))


@pytest.mark.parametrize("text", ["y = Mine<Scale(x)", "y = 1>Scale(x)", "y = Mine>Scale"])
def test_invalid_namespaced_op_is_refused(text):
    with pytest.raises(SpecError, match="is not"):
        parse_node(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("f(x) -> float32:\n  return x", "is missing, expected a dtype"),
        ("f(x: 'T') -> float32:\n  return x", "is \"'T'\", expected a dtype"),
    ],
)
def test_function_without_a_dtype_is_refused(text, found):
    with pytest.raises(SpecError, match=found):
        parse_function(text)
