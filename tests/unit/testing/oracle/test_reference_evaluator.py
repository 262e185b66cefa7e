"""The naive evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors
from graphmill.runtime.dead import DEAD
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import Input
from graphmill.testing.case_nodes import parse_node
from graphmill.testing.oracle.reference_evaluator import ReferenceSession


def made(host, *nodes, **feeds):
    graph = GraphMaker(host.ops)
    for name, how in feeds.items():
        graph.placeholder(name, Input("float32", None, f": {how}", 0))
    for text in nodes:
        graph.node(parse_node(text))
    result = graph.finish([], all_outputs=False)
    return ReferenceSession(result.graph_def, host), result.feeds


def test_evaluates_only_what_is_needed(graphmill_host):
    session, feeds = made(
        graphmill_host, "y = Mul(x, x)", "bad = CheckNumerics(z, message='no')", x=[1, 2], z=np.nan
    )
    assert session.run(["y:0"], feeds)[0].tolist() == [1, 4]


def test_a_fed_tensor_hides_its_node(graphmill_host):
    session, feeds = made(graphmill_host, "y = Mul(x, x)", "w = Neg(y)", x=2)
    assert session.run(["w:0"], {**feeds, "y:0": np.float32(7)}) == [-7]


def test_variables_live_from_step_to_step(graphmill_host):
    session, feeds = made(
        graphmill_host,
        "v = VariableV2(dtype=float32, shape=[])",
        "init = Assign(v, x)",
        "add = AssignAdd(v, x)",
        x=2,
    )
    session.run(["init"], feeds)
    session.run(["add:0"], feeds)
    assert session.run(["v:0"]) == [4]


def test_control_inputs_run_first(graphmill_host):
    session, feeds = made(
        graphmill_host,
        "v = VariableV2(dtype=float32, shape=[])",
        "init = Assign(v, x)",
        "y = Identity(v, after=[init])",
        x=2,
    )
    assert session.run(["y:0"], feeds) == [2]


def test_a_deep_graph_needs_no_recursion(graphmill_host):
    nodes = [f"n{i} = Neg({'x' if i == 0 else f'n{i - 1}'})" for i in range(5000)]
    session, feeds = made(graphmill_host, *nodes, x=1)
    assert session.run(["n4999:0"], feeds) == [1]


def test_control_flow_propagates_dead_values(graphmill_host):
    session, feeds = made(
        graphmill_host,
        "c = Less(x, x)",
        "s = Switch(x, c)",
        "n = Neg(s[1])",
        "w = Identity(x, after=[n])",
        "m = Merge([n, s[0]])",
        x=1,
    )
    fetches = ["s:0", "s:1", "n:0", "w:0", "m:0", "m:1"]
    assert session.run(fetches, feeds) == [1, DEAD, DEAD, DEAD, 1, 1]


def test_unknown_names_and_cycles_are_refused(graphmill_host):
    session, _ = made(graphmill_host)
    with pytest.raises(errors.NotFoundError, match="nothing"):
        session.run(["nothing:0"])
    session, feeds = made(graphmill_host, "a = Neg(x)", "b = Neg(a)", x=1)
    session._nodes["a"].input[:] = ["b"]
    with pytest.raises(errors.InvalidArgumentError, match="cycle"):
        session.run(["b:0"], feeds)
