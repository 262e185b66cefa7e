"""Graphs whose reports are tested."""

from __future__ import annotations

from google.protobuf import text_format

import graphmill
from graphmill import ops
from graphmill.proto import GraphDef


def scopes_and_a_loop() -> graphmill.Graph:
    """Return a graph with two layers in scopes, a loop of control flow v1, and constants."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 4], name="x")
        y = x
        for number in range(2):
            with graph.name_scope(f"layer_{number}"):
                weights = graph.constant([[0.1] * 4] * 4, name="weights")
                y = ops.math.tanh(ops.math.mat_mul(y, weights, name="product"), name="out")
        total = graphmill.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a * 2.0), [graph.constant(0), y]
        )[1]
        ops.array.identity(total, name="out")
    return graph


def chain(length: int) -> graphmill.Graph:
    """Return a graph of `length` nodes in scopes of thirty."""
    graph = graphmill.Graph()
    with graph.as_default():
        y = x = graph.placeholder("float32", [None], name="x")
        for block in range(length // 300):
            with graph.name_scope(f"block_{block}"):
                for layer in range(10):
                    with graph.name_scope(f"layer_{layer}"):
                        for _ in range(15):
                            y = ops.math.tanh(ops.math.add_v2(y, x))
        ops.array.identity(y, name="out")
    return graph


def with_a_function_loop() -> GraphDef:
    """Return a graph whose node `loop` is a `While` of the functions `cond` and `body`."""
    return text_format.Parse(_LOOP, GraphDef())


_LOOP = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node {
  name: "loop" op: "While" input: "x"
  attr { key: "T" value { list { type: DT_FLOAT } } }
  attr { key: "cond" value { func { name: "cond" } } }
  attr { key: "body" value { func { name: "body" } } }
}
node { name: "out" op: "Identity" input: "loop" attr { key: "T" value { type: DT_FLOAT } } }
library {
  function {
    signature {
      name: "cond" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "r" type: DT_BOOL }
    }
    node_def {
      name: "limit" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 8 } } }
    }
    node_def {
      name: "less" op: "Less" input: "a" input: "limit:output:0"
      attr { key: "T" value { type: DT_FLOAT } }
    }
    ret { key: "r" value: "less:z:0" }
  }
  function {
    signature {
      name: "body" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "r" type: DT_FLOAT }
    }
    node_def {
      name: "doubled" op: "AddV2" input: "a" input: "a"
      attr { key: "T" value { type: DT_FLOAT } }
    }
    ret { key: "r" value: "doubled:z:0" }
  }
}
versions { producer: 1087 }
"""
