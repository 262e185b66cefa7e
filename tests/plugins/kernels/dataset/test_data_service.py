"""Ops of TensorFlow's data service, which are refused."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph

PROGRAM = """
[[{op}]]
feed = {{ x = "int64[5]", a = "string: 'localhost:1'", p = "string: 'grpc'", i = "int64: 7", \
t = "string: '7'" }}
nodes = [
  "s = TensorSliceDataset([x], Toutput_types=[int64], output_shapes=[[]])",
  "c = DummyIterationCounter()",
  "z = {call}",
  {rest}
]
run = ["{run}"]
"""
REGISTER = "OP(s, a, p, external_state_policy=0)"
TYPES = "output_types=[int64], output_shapes=[[]]"
CALLS = {
    "RegisterDataset": REGISTER,
    "RegisterDatasetV2": REGISTER,
    "DataServiceDataset": f"OP(i, p, a, p, t, i, c, {TYPES})",
    "DataServiceDatasetV2": f"OP(i, p, a, p, t, i, i, i, c, {TYPES})",
    "DataServiceDatasetV3": f"OP(i, p, a, p, t, i, i, i, c, uncompress_fn=f, {TYPES})",
    "DataServiceDatasetV4": f"OP(t, p, a, p, t, i, i, i, c, uncompress_fn=f, {TYPES})",
    "DistributedSave": "OP(s, t, a)",
}


@pytest.mark.parametrize(("op", "call"), CALLS.items())
def test_the_data_service_is_refused(graphmill_host, op, call):
    has_function = "uncompress_fn" in call
    is_dataset = op.startswith("DataService")
    text = PROGRAM.format(
        op=op,
        call=call,
        rest='"n = DatasetCardinality(z)"' if is_dataset else "",
        run="n" if is_dataset else "z",
    )
    if has_function:
        function = 'functions = ["f(x: variant) -> (variant): y = Identity(x); return y"]'
        text = text.replace("nodes =", f"{function}\nnodes =", 1)
    (case,) = parse_cases(text, "t")
    graph = case_graph(case, graphmill_host.ops)
    inputs = {"x": [1, 2, 3, 4, 5], "a": b"localhost:1", "p": b"grpc", "i": 7, "t": b"7"}
    feeds = dict(zip(graph.feeds, inputs.values(), strict=True))
    with (
        graphmill.Session(graph=graph.graph_def, host=graphmill_host) as session,
        pytest.raises(errors.UnimplementedError, match=f"{op} needs a tf.data service"),
    ):
        session.run([], feeds, targets=["n" if is_dataset else "z"])
