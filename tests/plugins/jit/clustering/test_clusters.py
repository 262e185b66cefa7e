"""Clusters are convex and add neither waits nor dead values (P4, E3)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.jit.small_graphs import OPS, fetch_unread, form, graph

from graphmill.graph.algorithms import topological_order
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.spi import compilation_of
from graphmill.testing.generators.control_flow_graphs import structured_graph
from graphmill.testing.generators.dataflow_graphs import random_graph
from graphmill_plugins.jit.clustering.eligibility import Eligibility
from graphmill_plugins.jit.clustering.grouping import find_clusters

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.plugin.host import Host

X = {"x": "float32[2]"}
SWITCH = "s = Switch(x, p)"


def names(made: Graph, host: Host) -> list[set[str]]:
    return [{node.name for node in members} for members in find_clusters(made, Eligibility(host))]


def test_connected_nodes_form_one_cluster(graphmill_host: Host) -> None:
    made = graph("a = Neg(x)", "b = Abs(a)", "c = Tanh(a)", **X)
    assert names(made, graphmill_host) == [{"a", "b", "c"}]


def test_disconnected_nodes_form_several_clusters(graphmill_host: Host) -> None:
    made = graph("a = Neg(x)", "b = Abs(x)", **X)
    assert names(made, graphmill_host) == [{"a"}, {"b"}]


def test_untraceable_node_splits_the_cluster(graphmill_host: Host) -> None:
    made = graph("a = Neg(x)", "u = Unique(a)", "b = AddV2(a, u)", **X)
    assert names(made, graphmill_host) == [{"a"}, {"b"}]


def test_blocking_ancestor_is_not_clustered_with_descendant(graphmill_host: Host) -> None:
    """A node that may block is not in a cluster with nodes that wait for it."""
    made = graph("a = Neg(x)", "u = Unique(x, after=[a])", "b = Abs(a, after=[u])", **X)
    assert names(made, graphmill_host) == [{"a"}, {"b"}]


def test_order_within_a_cluster_is_kept() -> None:
    made = graph(
        "v = VarHandleOp(dtype=float32, shape=[2], shared_name='v')",
        "a = AssignVariableOp(v, x)",
        "r = ReadVariableOp(v, dtype=float32, after=[a])",
        "b = AssignAddVariableOp(v, x, after=[r])",
        **X,
    )
    fetch_unread(made)
    (cluster,) = [node for node in form(made).nodes if node.op == "_Cluster"]
    order = [node.name for node in topological_order(cluster.attrs["f"].body.graph)]
    assert order.index("a") < order.index("r") < order.index("b")


VARIABLES = [f"v{i} = VarHandleOp(dtype=float32, shape=[2], shared_name='v{i}')" for i in range(2)]
STORES = ["i = Identity(x)", *(f"a{i} = AssignVariableOp(v{i}, i)" for i in range(2))]


@pytest.mark.parametrize(
    ("more", "op"),
    [
        ((), "_StraightLine"),
        (("f = Reshape(i, s)", "a = AssignVariableOp(v1, f)"), "_StraightLine"),
        (("t = Tanh(i)", "a = AssignVariableOp(v1, t)"), "_Cluster"),
        (("a = AssignAddVariableOp(v1, i)",), "_Cluster"),
    ],
)
def test_cluster_that_only_stores_values_is_not_compiled(more: tuple[str, ...], op: str) -> None:
    shape = "s = Const(dtype=int32, value='int32[1]: 2')"
    made = graph(*VARIABLES, *STORES, shape, *more, **X)
    fetch_unread(made)
    contracted = [node for node in form(made).nodes if node.op in ("_Cluster", "_StraightLine")]
    assert [node.op for node in contracted] == [op]
    expected = "they only store values in variables" if op == "_StraightLine" else ""
    assert contracted[0].attrs["f"].reason == expected


def test_constants_are_copied_into_each_reading_cluster() -> None:
    made = graph("k = Const(dtype=float32, value='float32: 2')", "a = Mul(x, k)", **X)
    fetch_unread(made)
    (cluster,) = [node for node in form(made).nodes if node.op == "_Cluster"]
    assert cluster.attrs["f"].body.graph.has_node("k")
    assert not made.has_node("k")


@pytest.mark.parametrize(("size", "count"), [(2, 1), (3, 0)])
def test_small_ones_are_unchanged(size: int, count: int) -> None:
    made = graph("a = Neg(x)", "b = Abs(a)", "c = Identity(b)", **X)
    fetch_unread(made)
    assert [node.op for node in form(made, size).nodes].count("_Cluster") == count


@pytest.mark.parametrize(("expression", "nodes"), [("Neg(x)", "1 node"), ("Neg(k)", "2 nodes")])
def test_the_reason_of_a_small_component_counts_its_nodes(expression: str, nodes: str) -> None:
    made = graph("k = Abs(x)", f"y = {expression}", **X)
    fetch_unread(made)
    outside = compilation_of(form(made, min_size=3)).outside
    reason = f"its connected component is too small ({nodes}, minimum 3)"
    assert reason in {note.reason for note in outside if note.node == "y"}


def test_a_product_is_worth_a_cluster_alone() -> None:
    made = form(graph("y = MatMul(x, x)", "z = Sum(x, x)", x="int32[2, 2]"), min_size=2)
    assert sorted(node.op for node in made.nodes if node.op in ("_Cluster", "Sum", "MatMul")) == [
        "Sum",
        "_Cluster",
    ]


@pytest.mark.parametrize(
    ("node", "dtype", "count"),
    [
        ("Erf(x)", "float32", 1),
        ("Tanh(x)", "float32", 0),
        ("Mul(x, x)", "float32", 0),
        ("Mul(x, x)", "half", 1),
    ],
)
def test_op_slow_in_numpy_forms_single_op_cluster(node: str, dtype: str, count: int) -> None:
    made = form(graph(f"y = {node}", x=f"{dtype}[2, 2]"), min_size=2)
    assert [each.op for each in made.nodes].count("_Cluster") == count


def test_cluster_keeps_control_edges_of_its_nodes() -> None:
    made = graph("u = Unique(x)", "a = Neg(x, after=[u])", "w = Unique(x, after=[a])", **X)
    (cluster,) = [node for node in form(made).nodes if node.op == "_Cluster"]
    assert "u" in [edge.src.name for edge in cluster.control_in_edges]
    assert cluster in [edge.src for edge in made.node("w").control_in_edges]


# ------------------------------------------------------------------- what may be dead, or blocks


def test_control_flow_is_not_clustered_e3(graphmill_host: Host) -> None:
    made = graph(SWITCH, "a = Neg(s)", "m = Merge([a, s[1]])", "b = Abs(m)", **X, p="bool")
    assert names(made, graphmill_host) == [{"a"}, {"b"}]


def test_switch_branches_are_in_separate_clusters_e3(
    graphmill_host: Host,
) -> None:
    made = graph(SWITCH, "a = Neg(s)", "b = Abs(s[1])", "c = AddV2(a, b)", **X, p="bool")
    assert names(made, graphmill_host) == [{"a"}, {"b"}, {"c"}]


def test_control_successor_of_switch_is_not_clustered_with_consumer_e3(
    graphmill_host: Host,
) -> None:
    made = graph(SWITCH, "a = Neg(s)", "b = Abs(x, after=[s])", "c = AddV2(a, b)", **X, p="bool")
    assert {"b"} in names(made, graphmill_host)


def test_control_trigger_successor_is_not_clustered_with_dead_values_e3(
    graphmill_host: Host,
) -> None:
    made = graph(
        *(SWITCH, "a = Neg(s)", "t = ControlTrigger(after=[a])", "b = Abs(x, after=[t])"),
        "c = AddV2(a, b)",
        **X,
        p="bool",
    )
    assert {"b"} in names(made, graphmill_host)
    assert not any("t" in cluster for cluster in names(made, graphmill_host))


def test_merge_output_is_not_clustered_with_dead_values_e3(graphmill_host: Host) -> None:
    made = graph(
        *(SWITCH, "a = Neg(s)", "m = Merge([s, s[1]])", "b = Abs(m)", "c = AddV2(a, b)"),
        **X,
        p="bool",
    )
    assert names(made, graphmill_host) == [{"a"}, {"b"}, {"c"}]


def test_queue_consumers_are_clustered_separately(graphmill_host: Host) -> None:
    made = graph(
        "q = FIFOQueueV2(component_types=[float32])",
        "d = QueueDequeueV2(q, component_types=[float32])",
        *("a = Neg(x)", "b = AddV2(a, d)"),
        **X,
    )
    assert names(made, graphmill_host) == [{"a"}, {"b"}]


def test_cluster_must_not_return_a_variable() -> None:
    made = graph(
        "w = VariableV2(dtype=int32, shape=[])",
        *("k = Const(dtype=int32, value='int32: 1')", "a = AssignAdd(w, k)"),
        "c = CountUpTo(a, limit=3)",
    )
    assert [node.op for node in form(made).nodes].count("_Cluster") == 0


# ------------------------------------------------------------------------------------- properties


class Doubtful(Eligibility):
    """Eligibility that also refuses some random nodes."""

    def __init__(self, host: Host, seed: int) -> None:
        super().__init__(host)
        self._random = random.Random(seed)
        self._refused: dict[Node, bool] = {}

    def why_not(self, node: Node) -> str | None:
        if self._refused.setdefault(node, self._random.random() < 0.3):
            return "refused at random"
        return super().why_not(node)


def reachable(start: set[Node], inside: set[Node]) -> set[Node]:
    """Return the nodes outside that depend on a cluster."""
    pending = [edge.dst for node in start for edge in node.out_edges if edge.dst not in inside]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in seen or node.op in ("NextIteration", "RefNextIteration"):
            continue
        seen.add(node)
        pending += [edge.dst for edge in node.out_edges]
    return seen


@pytest.mark.parametrize("seed", range(12))
def test_clusters_are_convex_and_graph_stays_acyclic(seed: int, graphmill_host: Host) -> None:
    made: Any
    if seed % 2:
        made = structured_graph(seed, OPS, references=seed % 4 == 1).graph
    else:
        made = graph_from_graph_def(random_graph(seed, OPS, nodes=60).graph_def, OPS)
    for members in find_clusters(made, Doubtful(graphmill_host, seed)):
        inside = set(members)
        assert not reachable(inside, inside) & inside
    form(made)
    assert len(topological_order(made)) == len(made)


def test_parts_of_a_cluster_know_which_arguments_have_one_shape() -> None:
    """Elementwise nodes of related arguments need no check of the memory budget."""
    nodes = ["n0 = Neg(x)", "n1 = Tanh(n0)"]
    nodes += [f"n{i} = AddV2(n{i - 1}, n{i - 2})" for i in range(2, 12)]
    made = graph(*nodes, "y = Mul(n11, z)", x="float32", z="float32")
    fetch_unread(made)
    clusters = [node for node in form(made, max_size=4).nodes if node.op == "_Cluster"]
    assert len(clusters) > 2
    growing = [
        node.name
        for cluster in clusters
        for node in cluster.attrs["f"].body.graph.nodes
        if cluster.attrs["f"].shapes.may_grow(node)
    ]
    assert growing == ["y"]
