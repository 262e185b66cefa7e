"""Scopes of a graph name containers of resources and other gradient functions."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill.graph.scopes.attr_scopes import GRADIENT_ATTR
from graphmill.ops import math, state


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as graph:
        yield graph


def container_of(**attrs):
    return state.var_handle_op(dtype="float32", shape=[], **attrs).op.attrs["container"]


def test_stateful_nodes_belong_to_the_container_of_the_inner_scope(graph):
    with graph.container("outer") as name:
        assert name == "outer"
        first = container_of()
        with graph.container("inner"):
            second = container_of()
        with graph.container(""):
            third = container_of()
        last = container_of()
    assert (first, second, third, last) == (b"outer", b"inner", b"", b"outer")
    assert container_of() == b""


def test_own_container_of_a_node_stays(graph):
    with graph.container("outer"):
        assert container_of(container="mine") == b"mine"


def test_session_resets_a_container(graph):
    with graph.container("kept"):
        kept = graphmill.Variable(1.0)
    with graph.container("dropped"):
        dropped = graphmill.Variable(2.0)
    assert [v.handle.op.attrs["container"] for v in (kept, dropped)] == [b"kept", b"dropped"]


def test_overridden_gradients_nest(graph):
    x = graph.placeholder("float32", [])
    with graph.gradient_override_map({"Square": "Outer", "Neg": "Other"}):
        with graph.gradient_override_map({"Square": "Inner"}):
            inner, other = math.square(x), -x
        outer = math.square(x)
    names = [tensor.op.attrs.get(GRADIENT_ATTR) for tensor in (inner, other, outer, math.square(x))]
    assert names == [b"Inner", b"Other", b"Outer", None]


@pytest.mark.parametrize("wrong", [["Square"], {"Square": 1}, {1: "Square"}, None])
def test_override_map_is_a_dict_of_strings(graph, wrong):
    with pytest.raises(TypeError, match="op_type_map"), graph.gradient_override_map(wrong):
        pass


def test_failed_scope_is_left(graph):
    with pytest.raises(RuntimeError), graph.container("outer"):
        raise RuntimeError
    assert container_of() == b""


def test_colocation_is_left_only_on_purpose(graph):
    x = graph.placeholder("float32", [])
    with pytest.raises(errors.InvalidArgumentError, match="ignore_existing"):
        graph.colocate_with(None)
    with graph.colocate_with(x):
        assert "_class" in (x + 1).op.attrs
        with graph.colocate_with(None, ignore_existing=True):
            assert "_class" not in (x + 1).op.attrs
