"""The tensors of a step that have exactly one value are found."""

from __future__ import annotations

import graphmill
from graphmill import ops
from graphmill.comparison.step_tensors import step_tensors


def names(graph, fetches, feeds=()):
    with graphmill.Session(graph=graph) as session:
        found, skipped = step_tensors(session.step_graph(fetches, feeds))
    return [tensor.name for tensor in found], skipped


def test_tensors_come_in_the_order_of_computation():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        y = ops.math.neg(x, name="y")
        ops.math.mul(y, y, name="z")
    assert names(graph, ["z:0"], ["x:0"]) == (["y:0", "z:0"], {})


def test_tensors_of_branches_are_skipped_but_not_the_merge():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        outer, inner = (graph.placeholder("bool", [], name=name) for name in ("outer", "inner"))

        def nested():
            return graphmill.cond(inner, lambda: x + 1.0, lambda: x - 1.0, name="nested")

        graphmill.cond(outer, nested, lambda: x * 2.0, name="cond")
        out = ops.math.neg(graph.get_tensor_by_name("cond/Merge:0"), name="out")
    found, skipped = names(graph, [out.name], ["x:0", "outer:0", "inner:0"])
    assert {"out:0", "cond/Merge:0"} <= set(found)
    merges = [name for name in skipped if "nested" in name and name.endswith("Merge:0")]
    assert merges, skipped
    assert set(skipped.values()) == {"it has a value only if its branch is taken"}


def test_tensors_of_loops_are_skipped_but_not_their_results():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        result = graphmill.while_loop(lambda v: v < 10.0, lambda v: v + x, [x], name="loop")
        out = ops.math.neg(result, name="out")
    found, skipped = names(graph, [out.name], ["x:0"])
    assert [name for name in found if "Exit" in name]
    assert found[-1] == "out:0"
    assert "it has a value for each iteration of a loop" in skipped.values()


def test_handles_are_no_arrays():
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")
        size = ops.data_flow.queue_size_v2(queue, name="size")
    found, skipped = names(graph, [size.name])
    assert (found, skipped) == (["size:0"], {"queue:0": "it is not an array"})
