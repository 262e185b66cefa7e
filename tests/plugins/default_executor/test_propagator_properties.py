"""In random graphs and orders, each node is ready once, dead or live as expected (clause E7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import dtypes
from graphmill.graph.algorithms import topological_order
from graphmill.runtime.dead import DEAD
from graphmill_plugins.default_executor.propagator import Propagator, SimplePropagator

from .conftest import Drawing

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node

pytestmark = pytest.mark.divided

PLAIN_OPS = ("Neg", "AddN", "NoOp", "Unpack", "Placeholder", "Const")


def draw_graph(data: st.DataObject, ops: tuple[str, ...]) -> Drawing:
    """Draw nodes one by one; each reads and waits for any earlier ones."""
    drawing = Drawing()
    floats: list[tuple[Node, int]] = [(drawing.source("start"), 0)]
    bools: list[tuple[Node, int]] = [(drawing.source("flag", dtypes.bool), 0)]
    nodes = [floats[0][0], bools[0][0]]
    for index in range(data.draw(st.integers(0, 12), "nodes")):
        op = data.draw(st.sampled_from(ops), "op")
        name = f"n{index}_{op}"
        some = st.sampled_from(floats[-5:])  # of the latest, so that dead ones meet
        after = data.draw(st.lists(st.sampled_from(nodes[-5:]), max_size=2, unique=True), "after")
        if op == "Const":
            node = drawing.constant(name)
            drawing.graph.add_control_edges(after, node)
        elif op == "Placeholder":
            node = drawing.source(name, after=after)
        elif op in ("AddN", "Merge"):
            inputs = data.draw(st.lists(some, min_size=1, max_size=4), "inputs")
            extra = {"N": len(inputs)} if op == "AddN" else {}
            node = drawing.add(op, name, *inputs, after=after, **extra)
        elif op == "Unpack":
            node = drawing.add(op, name, data.draw(some), after=after, num=3)
        elif op == "Switch":
            flag = data.draw(st.sampled_from(bools))
            node = drawing.add(op, name, data.draw(some), flag, after=after)
        elif op in ("NoOp", "ControlTrigger"):
            node = drawing.add(op, name, after=after)
        else:
            node = drawing.add(op, name, data.draw(some), after=after)
        nodes.append(node)
        floats += [(node, i) for i, t in enumerate(node.output_types) if t is dtypes.float32]
    return drawing


def expected_deadness(graph: Graph, branch: dict[str, int]) -> dict[tuple[Node, int], bool]:
    """Return the outputs that are dead by TensorFlow's rules; output -1 is the node itself."""
    dead: dict[tuple[Node, int], bool] = {}
    for node in topological_order(graph):
        data = [dead[edge.src, edge.src_output] for edge in node.in_edges]
        control = [dead[edge.src, -1] for edge in node.control_in_edges]
        if node.op == "Merge":
            is_dead = all(data)
        elif node.op == "ControlTrigger":
            is_dead = False
        else:
            is_dead = any(data) or any(control)
        dead[node, -1] = is_dead
        for output in range(node.num_outputs):
            not_taken = node.op == "Switch" and output != branch[node.name]
            dead[node, output] = is_dead or not_taken
    return dead


def outputs_of(item: Any, branch: dict[str, int]) -> list[Any]:
    """Return values that identify their source."""
    name = item.node.name
    values: list[Any] = [(name, output) for output in range(item.num_outputs)]
    if item.node.op == "Switch":
        values[1 - branch[name]] = DEAD
    return values


def run(drawing: Drawing, data: st.DataObject, branch: dict[str, int]) -> dict[str, bool]:
    """Run in a drawn order; return for each ready node whether it was dead."""
    view = drawing.view()
    propagator: Any = (Propagator if view.has_control_flow else SimplePropagator)(view)
    ready: list[Any] = []
    propagator.start(ready)
    propagator.validate()
    found: dict[str, bool] = {item.node.name: False for item in view.items if item.is_constant}
    while ready:
        item, iteration, is_dead = ready.pop(data.draw(st.integers(0, len(ready) - 1), "next"))
        name = item.node.name
        assert name not in found, f"{name} was ready twice"
        assert all(src.name in found for src in item.node.control_inputs) or item.is_merge
        inputs = iteration.inputs
        taken = inputs[item.input_start : item.input_stop]
        inputs[item.input_start : item.input_stop] = item.cleared
        found[name] = is_dead
        if is_dead:
            propagator.node_done(item, iteration, True, item.dead_outputs, ready)
        else:
            check_inputs(item, taken)
            outputs = outputs_of(item, branch)
            if len(outputs) == 1 and data.draw(st.booleans(), "by output_done"):
                propagator.output_done(item, iteration, outputs[0], ready)
            else:
                propagator.node_done(item, iteration, False, outputs, ready)
        propagator.validate()
    assert propagator.is_done, propagator.describe_pending()
    return found


def check_inputs(item: Any, taken: list[Any]) -> None:
    expected = [(edge.src.name, edge.src_output) for edge in item.node.in_edges]
    arrived = [
        # Constants stand in the entries from the start, with the value of the drawing's kernels.
        value if value != 0 else expected[position]
        for position, value in enumerate(taken)
    ]
    if item.is_merge:
        (value,) = [value for value in arrived if value is not None]
        assert value in expected
    else:
        assert arrived == expected


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_e7_each_node_is_ready_once_with_its_inputs(data: st.DataObject) -> None:
    drawing = draw_graph(data, PLAIN_OPS)
    found = run(drawing, data, {})
    assert set(found) == {node.name for node in drawing.graph}
    assert not any(found.values())


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_e7_deadness_follows_the_rules_in_any_order(data: st.DataObject) -> None:
    drawing = draw_graph(data, (*PLAIN_OPS, "Switch", "Merge", "Switch", "Merge", "ControlTrigger"))
    graph = drawing.graph
    branch = {n.name: data.draw(st.integers(0, 1)) for n in graph if n.op == "Switch"}
    found = run(drawing, data, branch)
    expected = expected_deadness(graph, branch)
    assert found == {node.name: expected[node, -1] for node in graph}
