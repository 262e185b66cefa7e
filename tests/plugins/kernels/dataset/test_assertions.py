"""Pipelines that assert their own order inside of functions, which cases do not cover."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph

NODES = """
[[FlatMapDataset]]
feed = {{ n = "int64: [1, 2]", k = "int64: 9", f = "bool: False" }}
functions = ["f(x: int64) -> (variant): d = TensorDataset([x], Toutput_types=[int64], \
output_shapes=[[]]); names = Const(dtype=string, value='string: {names}'); \
a = AssertNextDataset(d, names, output_types=[int64], output_shapes=[[]]); return a"]
nodes = [
  "s = TensorSliceDataset([n], Toutput_types=[int64], output_shapes=[[]])",
  "m = FlatMapDataset(s, [], f=f, Targuments=[], output_types=[int64], output_shapes=[[]])",
  "b = BatchDatasetV2(m, k, f, output_types=[int64], output_shapes=[[-1]])",
  "y = DatasetToSingleElement(b, output_types=[int64], output_shapes=[[-1]])",
]
run = ["y"]
"""


def test_an_assertion_inside_of_a_function_is_refused(graphmill_host):
    (case,) = parse_cases(NODES.format(names='[\\"Batch\\"]'), "t")
    graph = case_graph(case, graphmill_host.ops)
    feeds = dict(zip(graph.feeds, ([1, 2], 9, False), strict=True))
    with (
        graphmill.Session(graph=graph.graph_def, host=graphmill_host) as session,
        pytest.raises(errors.UnimplementedError, match="inside of functions"),
    ):
        session.run("y:0", feeds)
