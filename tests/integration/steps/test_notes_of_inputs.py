"""The error of a kernel has a note with the types and shapes of the node's inputs."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import OpError


def notes_of(graph: graphmill.Graph, fetch: str, feeds: dict[str, object], executor: str) -> str:
    config = {"graphmill": {"jit": "off"}, "experimental": {"executor_type": executor}}
    with graphmill.Session(graph=graph, config=config) as session, pytest.raises(OpError) as raised:
        session.run(fetch, feeds)
    return "\n".join(getattr(raised.value, "__notes__", []))


@pytest.mark.parametrize("executor", ["DEFAULT", "INLINE"])
@pytest.mark.parametrize("fetch", ["product:0", "out:0"])
def test_notes_list_types_and_shapes_of_inputs(executor: str, fetch: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", None, name="x")
        doubled = ops.math.add_v2(x, x, name="doubled")
        product = ops.math.mat_mul(x, doubled if fetch == "out:0" else x, name="product")
        ops.math.neg(product, name="out")
    second = "doubled" if fetch == "out:0" else "x"
    expected = f"inputs of 'product': x float32 [2, 3], {second} float32 [2, 3]"
    assert notes_of(graph, fetch, {"x:0": np.ones((2, 3))}, executor) == expected


def test_only_the_first_inputs_of_many_are_shown() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        parts = [graph.placeholder("int32", None, name=f"p{index}") for index in range(10)]
        ops.array.concat_v2(parts, 0, name="joined")
    feeds: dict[str, object] = {f"p{index}:0": np.zeros((1, index)) for index in range(10)}
    note = notes_of(graph, "joined:0", feeds, "DEFAULT")
    assert "p0 int32 [1, 0], p1 int32 [1, 1]" in note
    assert note.endswith("p7 int32 [1, 7], and 3 more")


def test_a_cancelled_step_has_no_note_about_its_inputs() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"])
        got = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])[0]
    with graphmill.Session(graph=graph) as session, pytest.raises(OpError) as raised:
        session.run(got, options={"timeout_in_ms": 20})
    assert not any("inputs of" in note for note in getattr(raised.value, "__notes__", []))


def test_a_variable_without_a_value_has_no_shape() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        handle = ops.state.variable_v2(shape=[2], dtype="float32", name="v")
        ops.state.assign_add(handle, [1.0, 2.0], name="add")
    assert notes_of(graph, "add:0", {}, "DEFAULT").startswith("inputs of 'add': v float32_ref ")
