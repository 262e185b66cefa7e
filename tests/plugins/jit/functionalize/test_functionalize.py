"""Loops and conditionals of v1 control flow become functional nodes if that is proven."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops
from graphmill_plugins.jit.functionalize import (
    FUNCTIONALIZED,
    Region,
    functionalize,
    traceable_regions,
)

WHILE, COND = ("while", FUNCTIONALIZED), ("cond", FUNCTIONALIZED)


def counting(graph, limit, step=1):
    """Return the final value of a loop that counts from 0."""
    return graphmill.while_loop(lambda i: i < limit, lambda i: i + step, [graph.constant(0)])


def test_a_loop_becomes_one_node_without_effects(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        limit = graph.placeholder("int32", (), "limit")
        end = counting(graph, limit)
    assert functionalizing.run(graph, end, {limit: 7}) == 7
    [record] = functionalizing.records
    assert record.is_functionalized
    assert len(record.functional_nodes) == 1
    assert record.functional_nodes[0].endswith("/StatelessWhile")
    assert [name.rpartition("/")[2] for name in record.functions] == ["cond", "body"]
    assert "while/Merge" in record.nodes


def test_non_scalar_condition_is_refused(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        limit = graph.placeholder("int32", name="limit")
        end = counting(graph, limit)
    with pytest.raises(errors.InvalidArgumentError, match=r"\[2\] is not compatible"):
        functionalizing.run(graph, end, {limit: [7, 7]})


def test_a_conditional_becomes_one_node(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", (), "x")
        y = graphmill.cond(x > 3, lambda: (x + 1, x * 2), lambda: (graph.constant(5), -x))
    assert functionalizing.run(graph, y, {x: 4}) == (5, 8)
    assert functionalizing.run(graph, y, {x: 3}) == (5, -3)
    assert functionalizing.outcomes == [COND, COND]
    assert functionalizing.records[0].functional_nodes == ("cond/StatelessIf",)


def test_loops_in_conditionals_in_loops_are_functionalized(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", (), "x")

        def body(i, total):
            inner = graphmill.cond(i % 2 < 1, lambda: counting(graph, x), lambda: i)
            return i + 1, total + inner

        _, total = graphmill.while_loop(lambda i, total: i < 5, body, [0, 0])
    assert functionalizing.run(graph, total, {x: 10}) == 34
    assert functionalizing.outcomes == [WHILE, COND, WHILE]


def test_effects_make_the_stateful_form_and_happen_in_order(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        handle = ops.state.var_handle_op(dtype="int32", shape=(), shared_name="v")
        start = ops.state.assign_variable_op(handle, 1)

        def body(i):
            doubled = ops.state.read_variable_op(handle, dtype="int32") * 2 + i
            with graph.control_dependencies([ops.state.assign_variable_op(handle, doubled)]):
                return ops.array.identity(i + 1)

        with graph.control_dependencies([start]):
            end = graphmill.while_loop(lambda i: i < 3, body, [graph.constant(0)])
        with graph.control_dependencies([end.op]):
            value = ops.state.read_variable_op(handle, dtype="int32")
    assert functionalizing.run(graph, value) == ((1 * 2 + 0) * 2 + 1) * 2 + 2
    assert functionalizing.outcomes == [WHILE]
    assert functionalizing.records[0].functional_nodes[0].endswith("/While")


def test_reference_variables_are_changed_in_a_branch(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        variable = ops.state.variable_v2(shape=(), dtype="int32", name="v")
        start = ops.state.assign(variable, 1)
        p = graph.placeholder("bool", (), "p")
        done = graphmill.cond(
            p, lambda: ops.state.assign_add(variable, 4), lambda: ops.array.identity(variable)
        )
    with graphmill.Session(graph=graph, host=functionalizing.host) as session:
        session.run(start.op)
        assert session.run(done, {p: True}) == 5
        assert session.run(done, {p: False}) == 5
    assert functionalizing.outcomes == [COND]


def test_node_between_parts_splits_the_conditional(functionalizing) -> None:
    """A node outside of a branch that uses values of it twice splits the conditional."""
    graph = graphmill.Graph()
    with graph.as_default():
        x, p = graph.placeholder("int32", (), "x"), graph.placeholder("bool", (), "p")
        when_false, when_true = ops.control_flow.switch(x, p)
        square = when_true * when_true
        first = ops.control_flow.merge([-when_false, square]).output
        again_false, again_true = ops.control_flow.switch(first + 1, p)
        last = ops.control_flow.merge([again_false, again_true + square]).output
    for value, expected in ((True, 19), (False, -2)):
        assert functionalizing.run(graph, last, {x: 3, p: value}) == expected
    assert len(functionalizing.records[0].functional_nodes) == 2


def test_identities_of_a_predicate_are_one_predicate(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x, p = graph.placeholder("int32", (), "x"), graph.placeholder("bool", (), "p")
        _, when_true = ops.control_flow.switch(x, ops.array.identity(p))
        when_false, _ = ops.control_flow.switch(x, p)
        merged = ops.control_flow.merge([when_false, when_true + 1])
        outputs = [merged.output, merged.value_index]
    assert functionalizing.run(graph, outputs, {x: 3, p: True}) == [4, 1]
    assert functionalizing.run(graph, outputs, {x: 3, p: False}) == [3, 0]
    assert functionalizing.outcomes == [COND, COND]


def test_a_dead_fetch_stays_dead(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        p = graph.placeholder("bool", (), "p")
        _, when_true = ops.control_flow.switch(graph.constant(3), p)
        y = when_true + 1
    assert functionalizing.run(graph, y, {p: True}) == 4
    with pytest.raises(errors.InvalidArgumentError, match="dead"):
        functionalizing.run(graph, y, {p: False})
    assert [record.is_functionalized for record in functionalizing.records] == [False, False]
    assert "may be dead and is fetched" in functionalizing.records[0].outcome


def test_unselected_region_stays_interpreted(functionalizing) -> None:
    functionalizing.refused = {"cond"}
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", (), "x")
        y = graphmill.while_loop(
            lambda i: i < 9,
            lambda i: graphmill.cond(i < x, lambda: i + 1, lambda: i + 2),
            [graph.constant(0)],
        )
    assert functionalizing.run(graph, y, {x: 4}) == 10
    assert functionalizing.outcomes[0] == ("cond", "refused")
    assert "a conditional inside is not functionalized" in functionalizing.outcomes[1][1]


def test_untraceable_node_keeps_its_loop(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        end = counting(graph, graph.constant(3))
    functionalizing.keep = {"while/LoopCond"}
    assert functionalizing.run(graph, end) == 3
    assert functionalizing.outcomes == [("while", "while/LoopCond must stay in the outer graph")]


def test_small_constants_are_cloned_large_ones_passed(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        small, large = graph.constant(np.ones(2, np.float32)), graph.constant(np.ones(4000))

        def body(i, x):
            return i + 1, x * small + ops.math.cast(ops.math.sum(large, 0), DstT="float32")

        x = graph.placeholder("float32", [2], "x")
        _, y = graphmill.while_loop(lambda i, x: i < 2, body, [0, x])
    client = one_client_graph(graph, [y.name], ["x:0"])
    [record] = functionalize(client, lambda region: None)
    body = client.library.body(record.functions[1])
    assert body is not None
    assert len(client.node(record.functional_nodes[0]).in_edges) == 3
    assert len(body.arg_types) == 3  # the counter, x, the large constant
    assert dtypes.float64 in body.arg_types
    names = {node.name: node.op for node in body.graph.nodes}
    assert names["while/add"] == "AddV2"  # nodes keep their names


def one_client_graph(graph, fetches, feeds):
    """Return the pruned graph of a signature."""
    from graphmill.lowering.prune import build_client_graph

    return build_client_graph(graph, graphmill.default_host().ops, feeds, fetches, []).graph


def test_only_traceable_regions_are_selected_by_default() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("string", (), "x")
        p = graph.placeholder("bool", (), "p")
        y = graphmill.cond(p, lambda: ops.string.string_join([x, x]), lambda: x)
    client = one_client_graph(graph, [y.name], ["x:0", "p:0"])
    before = [node.name for node in client.nodes]
    [record] = functionalize(client)
    assert "StringJoin" in record.outcome
    assert [node.name for node in client.nodes] == before


def test_nodes_of_several_devices_are_not_selected_by_default() -> None:
    graph = graphmill.Graph()
    first = graph.constant(1).op
    second = graph.constant(2).op
    first.assigned_device, second.assigned_device = "/device:CPU:0", "/device:CPU:1"
    reason = traceable_regions(graphmill.default_host())(Region("cond", "c", (first, second)))
    assert reason is not None
    assert "several devices" in reason


def test_graph_without_control_flow_is_unchanged() -> None:
    graph = graphmill.Graph()
    graph.constant(1)
    assert functionalize(graph) == []


def test_an_error_in_a_body_names_the_original_node(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", None, "x")

        def body(i):
            return i + ops.math.sum(ops.array.reshape(x, [3], name="strict"), 0)

        y = graphmill.while_loop(lambda i: i < 3, body, [graph.constant(0)])
    with pytest.raises(errors.InvalidArgumentError, match="while/strict"):
        functionalizing.run(graph, y, {x: [1, 2]})
    assert functionalizing.outcomes == [WHILE]


def test_switch_with_only_control_consumers_is_removed(functionalizing) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x, p = graph.placeholder("int32", (), "x"), graph.placeholder("bool", (), "p")
        idle, _ = ops.control_flow.switch(-x, p)
        with graph.control_dependencies([idle.op]):
            start = ops.array.identity(x)
        y = graphmill.cond(p, lambda: start + 1, lambda: start - 1)
    client = one_client_graph(graph, [y.name], ["x:0", "p:0"])
    functionalize(client)
    assert not [node.name for node in client.nodes if node.op == "Switch"]
    assert client.node(start.op.name).control_inputs
    assert functionalizing.run(graph, y, {x: 4, p: True}) == 5
