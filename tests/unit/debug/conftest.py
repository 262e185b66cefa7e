"""Graphs that are debugged: nested loops, queues, functions."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import ops


@pytest.fixture
def nested() -> graphmill.Graph:
    """A loop of three iterations around one of three; `log` gives NaN if `x` is small."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")

        def inner(value: Any) -> Any:
            def body(j: Any, b: Any) -> list[Any]:
                return [j + 1, ops.math.log(b, name="log")]

            return graphmill.while_loop(lambda j, _: j < 3, body, [0, value], name="inner")[1]

        def outer(i: Any, a: Any) -> list[Any]:
            return [i + 1, inner(a) + 3.0]

        loop = graphmill.while_loop(lambda i, _: i < 3, outer, [0, x], name="outer")
        ops.math.neg(loop[1], name="y")
    return graph


@pytest.fixture
def queue() -> graphmill.Graph:
    """`take` waits for what `put` adds."""
    graph = graphmill.Graph()
    with graph.as_default():
        made = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")
        value = graph.placeholder("float32", [], name="value")
        ops.data_flow.queue_enqueue_v2(made, [value], name="put")
        taken = ops.data_flow.queue_dequeue_v2(made, component_types=["float32"], name="take")
        ops.math.neg(taken[0] if isinstance(taken, (list, tuple)) else taken, name="y")
    return graph


@pytest.fixture
def functional() -> graphmill.GraphDef:
    """`loop` is a While over the functions `less` and `double`, which is not lowered."""
    from google.protobuf import text_format

    source = """
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "loop" op: "While" input: "x"
      attr { key: "T" value { list { type: DT_FLOAT } } }
      attr { key: "cond" value { func { name: "less" } } }
      attr { key: "body" value { func { name: "double" } } } }
    library {
      function {
        signature { name: "double" input_arg { name: "a" type: DT_FLOAT }
          output_arg { name: "b" type: DT_FLOAT } }
        node_def { name: "sum" op: "AddV2" input: "a" input: "a"
          attr { key: "T" value { type: DT_FLOAT } } }
        ret { key: "b" value: "sum:z:0" } }
      function {
        signature { name: "less" input_arg { name: "a" type: DT_FLOAT }
          output_arg { name: "b" type: DT_BOOL } }
        node_def { name: "limit" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
          attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 9 } } } }
        node_def { name: "is_less" op: "Less" input: "a" input: "limit:output:0"
          attr { key: "T" value { type: DT_FLOAT } } }
        ret { key: "b" value: "is_less:z:0" } } }
    """
    return text_format.Parse(source, graphmill.GraphDef())
