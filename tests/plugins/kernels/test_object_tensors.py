"""Kernels that read the content of elements refuse resources and variants, which have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import graphmill
from graphmill import errors, ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill import Graph, Tensor

READERS: dict[str, Callable[[Graph, Tensor], Tensor]] = {
    "SerializeTensor": lambda _, x: ops.parsing.serialize_tensor(x, name="reader"),
    "SerializeSparse": lambda graph, x: ops.sparse.serialize_sparse(
        graph.constant([[0]], "int64"), x, graph.constant([1], "int64"), name="reader"
    ),
    "SerializeManySparse": lambda graph, x: ops.sparse.serialize_many_sparse(
        graph.constant([[0, 0]], "int64"), x, graph.constant([1, 1], "int64"), name="reader"
    ),
    "Fingerprint": lambda _, x: ops.array.fingerprint(x, "farmhash64", name="reader"),
    "AsString": lambda _, x: ops.string.as_string(x, name="reader"),
}
CASES = [
    (kind, op)
    for kind in ("resource", "variant")
    for op in READERS
    # AsString does not take resources, and SerializeTensor has codecs for variants.
    if (kind, op) not in {("resource", "AsString"), ("variant", "SerializeTensor")}
]


def objects_of(graph: Graph, kind: str) -> Tensor:
    """Return a vector with one resource or variant."""
    if kind == "resource":
        handle = ops.state.var_handle_op(dtype="float32", shape=[1])
    else:
        handle = ops.tensor_list.tensor_list_reserve(
            graph.constant([2]), graph.constant(3), element_dtype="float32"
        )
    return ops.array.expand_dims(handle, 0)


@pytest.mark.parametrize(("kind", "op"), CASES)
def test_reading_the_content_of_objects_is_refused(kind: str, op: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        result = READERS[op](graph, objects_of(graph, kind))
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.UnimplementedError, match=f"a tensor of {kind} cannot be") as caught,
    ):
        session.run(result)
    assert caught.value.node == "reader"
