"""Nodes, edges and the names of tensors (clause G1)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import dtypes, errors
from graphmill.graph.graph import Graph
from graphmill.graph.node import CONTROL_SLOT, parse_tensor_name, tensor_name
from graphmill.graph.tensor import Tensor
from graphmill.ops.definition.op_registry import OpRegistry

OPS = OpRegistry()

node_names = st.from_regex(r"[A-Za-z0-9._][A-Za-z0-9_./-]*", fullmatch=True)


@given(node_names, st.integers(CONTROL_SLOT, 10**6))
def test_a_tensor_name_is_read_back_as_it_was_written(name: str, output: int) -> None:
    """Parsing a formatted tensor name returns its node and output (clause G1)."""
    assert parse_tensor_name(tensor_name(name, output)) == (name, output)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("n", ("n", 0)),
        ("n:0", ("n", 0)),
        ("scope/n:12", ("scope/n", 12)),
        ("^n", ("n", CONTROL_SLOT)),
        ("n:007", ("n", 7)),
    ],
)
def test_tensor_names_are_parsed_in_any_spelling(text: str, parts: tuple[str, int]) -> None:
    """All spellings of a tensor name are parsed (clause G1)."""
    assert parse_tensor_name(text) == parts


@pytest.mark.parametrize("text", ["n:", "n:x", "n:-1", "n:1.0", "n:²", "n: 1", "n:" + "9" * 5000])
def test_invalid_tensor_name_is_invalid_argument(text: str) -> None:
    """An invalid tensor name raises InvalidArgumentError (clauses G1, S12)."""
    with pytest.raises(errors.InvalidArgumentError, match="is not a tensor name; expected 'node'"):
        parse_tensor_name(text)


@given(st.text(max_size=20))
def test_any_text_is_a_tensor_name_or_a_typed_error(text: str) -> None:
    """Any text is parsed as a tensor name or raises a typed error (clauses G1, S12)."""
    with contextlib.suppress(errors.InvalidArgumentError):
        parse_tensor_name(text)


def chain() -> Graph:
    graph = Graph()
    attrs = {"dtype": dtypes.float32, "shape": None}
    x = graph.add_node("x", OPS.get("Placeholder"), attrs=attrs)
    graph.add_node("y", OPS.get("Neg"), [(x, 0)], [x], {"T": dtypes.float32})
    return graph


def test_node_lists_inputs_and_control_inputs() -> None:
    """A node lists its inputs and its control inputs (clause G1)."""
    graph = chain()
    x, y = graph.nodes
    assert y.sources == [(x, 0)]
    assert y.control_inputs == [x]
    assert (y.op, y.type, y.num_outputs) == ("Neg", "Neg", 1)
    assert y.input_types == y.output_types == (dtypes.float32,)
    assert repr(y) == "<Node 'y' op=Neg>"


def test_node_has_input_and_output_tensors_as_in_tensorflow() -> None:
    _, y = chain().nodes
    (read,) = y.inputs
    assert (read.name, read.dtype) == ("x:0", dtypes.float32)
    assert repr(read) == "<Tensor 'x:0' shape=<unknown> dtype=float32>"
    assert y.outputs == list(y.values()) == [Tensor(y)]
    assert Tensor(y) not in y.inputs
    assert y.node_def.input == ["x", "^x"]


def test_input_is_unpacked_as_a_pair_with_a_warning() -> None:
    x, y = chain().nodes
    with pytest.warns(DeprecationWarning, match=r"Node\.sources"):
        ((node, output),) = y.inputs
    assert (node, output) == (x, 0)
    with pytest.raises(TypeError, match="iterated over"):
        iter(y.outputs[0])


def test_edge_has_both_ends_and_tensor_name() -> None:
    """An edge has its two nodes and the name of its tensor (clause G1)."""
    _, y = chain().nodes
    (data,), (control,) = y.in_edges, y.control_in_edges
    assert (data.src.name, data.src_output, data.dst, data.dst_input) == ("x", 0, y, 0)
    assert (data.tensor_name, data.is_control) == ("x", False)
    assert (control.tensor_name, control.is_control) == ("^x", True)
    assert repr(data) == "<Edge x -> y[0]>"


def test_missing_attr_is_reported_with_existing_ones() -> None:
    """The error for a missing attr lists the existing attrs (clauses G1, S12)."""
    x = chain().node("x")
    assert x.get_attr("dtype") is dtypes.float32
    with pytest.raises(errors.InvalidArgumentError, match=r"no attr 'T'; it has dtype, shape") as e:
        x.get_attr("T")
    assert (e.value.node, e.value.op_type) == ("x", "Placeholder")
