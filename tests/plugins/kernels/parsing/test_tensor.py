"""`SerializeTensor` refuses elements that are objects of a session."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors, ops


@pytest.mark.parametrize("kind", ["resource", "variant"])
def test_serializing_objects_of_a_session_is_refused(kind: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        if kind == "resource":
            handle = ops.state.var_handle_op(dtype="float32", shape=[1])
        else:
            handle = ops.tensor_list.tensor_list_reserve(
                graph.constant([2]), graph.constant(3), element_dtype="float32"
            )
        serialized = ops.parsing.serialize_tensor(handle, name="serialized")
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.UnimplementedError, match=f"a tensor of {kind} cannot be") as caught,
    ):
        session.run(serialized)
    assert caught.value.node == "serialized"
