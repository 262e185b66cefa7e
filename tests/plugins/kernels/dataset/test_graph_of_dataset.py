"""Datasets written as graphs: their nodes, and the datasets that cannot be written."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, proto
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph

HEAD = """
[[DatasetToGraphV2]]
feed = {{ }}
functions = {functions}
nodes = [
  "zero = Const(dtype=int64, value='int64: 0')",
  "one = Const(dtype=int64, value='int64: 1')",
  "three = Const(dtype=int64, value='int64: 3')",
  "no = Const(dtype=bool, value='bool: False')",
  "r = RangeDataset(zero, three, one, output_types=[int64], output_shapes=[[]])",
  {nodes}
]
run = ["g"]
"""
MAP = "Targuments=[resource], output_types=[int64], output_shapes=[[]]"


def session_of(host: Any, *nodes: str, functions: tuple[str, ...] = ()) -> graphmill.Session:
    """Return a session of a graph with the dataset `r` and other nodes."""
    quoted = ",\n  ".join(f'"{node}"' for node in nodes)
    text = HEAD.format(nodes=quoted, functions=list(functions))
    (case,) = parse_cases(text, "t")
    return graphmill.Session(graph=case_graph(case, host.ops).graph_def, host=host)


def graph_of(session: graphmill.Session) -> proto.GraphDef:
    """Return the graph that the node `g` computes."""
    return proto.GraphDef.FromString(session.run("g:0"))


def test_a_dataset_that_is_used_twice_is_written_once(graphmill_host):
    zipped = "z = ZipDataset([r, r], output_types=[int64, int64], output_shapes=[[], []])"
    with session_of(graphmill_host, zipped, "g = OP(z)") as session:
        made = graph_of(session)
    others = [node.op for node in made.node if node.op != "Const"]
    assert others == ["RangeDataset", "ZipDataset", "_Retval"]
    assert made.node[4].input == ["RangeDataset/_3"] * 2


def test_only_functions_that_are_called_are_written(graphmill_host):
    call = "y = PartitionedCall([x], f=g, Tin=[int64], Tout=[int64])"
    functions = (
        f"f(x: int64) -> (int64): {call}; return y",
        "g(x: int64) -> (int64): y = Neg(x); return y",
        "h(x: int64) -> (int64): y = Neg(x); return y",
    )
    node = "m = MapDataset(r, [], f=f, Targuments=[], output_types=[int64], output_shapes=[[]])"
    with session_of(graphmill_host, node, "g = OP(m)", functions=functions[::-1]) as session:
        made = graph_of(session)
    assert [function.signature.name for function in made.library.function] == ["f", "g"]


VARIABLE = (
    "v = VarHandleOp(dtype=int64, shape=[], shared_name='v')",
    "a = AssignVariableOp(v, three)",
    f"m = MapDataset(r, [v], f=f, {MAP})",
)
READ = "f(x: int64, v: resource) -> (int64): y = ReadVariableOp(v, dtype=int64); return y"


def test_a_captured_variable_is_written_with_its_value(graphmill_host):
    with session_of(graphmill_host, *VARIABLE, "g = OP(m)", functions=(READ,)) as session:
        session.run([], targets=["a"])
        made = graph_of(session)
    by_op = {node.op: node for node in made.node}
    assert list(by_op["Identity"].input) == ["VarHandleOp/_4", "^AssignVariableOp/_6"]
    assert by_op["AssignVariableOp"].input[1] == "Const/_5"
    assert made.node[5].attr["value"].tensor.int64_val[:] == [3]


def test_a_captured_variable_may_be_refused(graphmill_host):
    nodes = (*VARIABLE, "g = OP(m, external_state_policy=2)")
    with session_of(graphmill_host, *nodes, functions=(READ,)) as session:
        session.run([], targets=["a"])
        with pytest.raises(errors.FailedPreconditionError, match="ReadVariableOp is stateful"):
            graph_of(session)


def test_a_captured_queue_cannot_be_written(graphmill_host):
    nodes = (
        "q = FIFOQueueV2(component_types=[int64])",
        f"m = MapDataset(r, [q], f=f, {MAP})",
        "g = OP(m)",
    )
    size = "f(x: int64, q: resource) -> (int64): n = QueueSizeV2(q); return x"
    with (
        session_of(graphmill_host, *nodes, functions=(size,)) as session,
        pytest.raises(errors.UnimplementedError, match="captures the resource"),
    ):
        graph_of(session)


def test_a_window_is_written_as_a_list_of_elements(graphmill_host):
    """A window, which no kernel created, is written as a list of its elements."""
    variant, numbers = "output_types=[variant], output_shapes=[[]]", "output_shapes=[[-1]]"
    nodes = (
        f"w = WindowDataset(r, three, three, one, no, {variant})",
        f"u = DatasetToSingleElement(w, {variant})",
        "g = OP(u)",
        "d = DatasetFromGraph(g)",
        f"b = BatchDatasetV2(d, three, no, output_types=[int64], {numbers})",
        f"y = DatasetToSingleElement(b, output_types=[int64], {numbers})",
    )
    with session_of(graphmill_host, *nodes) as session:
        assert session.run("y:0").tolist() == [0, 1, 2]
        assert "ListDataset" in [node.op for node in graph_of(session).node]
