"""Clusters that are too large for one program are split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import OPS, fetch_unread, form, graph

import graphmill
from graphmill import ops
from graphmill.graph.algorithms import topological_order
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.testing.differential import compiled_graphs
from graphmill.testing.generators.dataflow_graphs import random_graph
from graphmill_plugins.jit.clustering import grouping
from graphmill_plugins.jit.clustering.eligibility import Eligibility
from graphmill_plugins.jit.clustering.grouping import find_clusters
from graphmill_plugins.jit.clustering.splitting import READ_BY_SEVERAL, split, window_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.plugin.host import Host

X = {"x": "float32[2]"}
TWO_CHAINS = [
    *("a0 = Neg(x)", "b0 = Abs(x)", "a1 = Neg(a0)", "b1 = Abs(b0)"),
    *("a2 = Neg(a1)", "b2 = Abs(b1)", "y = AddV2(a2, b2)"),
]
TRAINING = [
    "v = VarHandleOp(dtype=float32, shape=[2], shared_name='v')",
    "r = ReadVariableOp(v, dtype=float32)",
    *("a = Mul(r, x)", "b = Tanh(a)", "c = Neg(b)", "d = Mul(c, r)", "e = Sqrt(x)"),
    "w = AssignSubVariableOp(v, d)",
    "done = Abs(e, after=[w])",
]


def parts_of(
    made: Graph, host: Host, max_size: int, outside: dict[Node, str] | None = None
) -> list[list[str]]:
    found = find_clusters(made, Eligibility(host), outside, max_size=max_size)
    return [[node.name for node in members] for members in found]


def one(node: Node) -> int:
    del node
    return 1


def members_of(made: Graph) -> list[Node]:
    return [node for node in topological_order(made) if node.op not in ("Placeholder", "_Retval")]


@pytest.mark.parametrize("length", [1, 3, 16])
def test_windows_have_equal_hashes_if_they_are_equal(length: int) -> None:
    rng = np.random.default_rng(length)
    hashes = [hash(("kind", int(kind))) for kind in rng.integers(2, size=300)]
    padded = [*hashes, *[0] * length]
    windows = [tuple(padded[index : index + length]) for index in range(len(hashes))]
    found = window_hashes(hashes, length)
    assert len(set(zip(windows, found, strict=True))) == len(set(windows)) == len(set(found))


def test_cluster_of_the_maximum_size_is_not_split(graphmill_host: Host) -> None:
    assert len(parts_of(graph(*TWO_CHAINS, **X), graphmill_host, 7)) == 1


def test_parts_are_smaller_than_the_largest_cluster(graphmill_host: Host) -> None:
    """A cluster that is split at all becomes parts that XLA compiles soon."""
    nodes = ["n0 = Neg(x)", *(f"n{i} = Neg(n{i - 1})" for i in range(1, 1200))]
    assert len(parts_of(graph(*nodes, **X), graphmill_host, 1200)) == 1
    parts = parts_of(graph(*nodes, **X), graphmill_host, 1000)
    assert [len(part) for part in parts] == [400, 400, 400]


def test_parts_of_a_graph_that_does_not_repeat_itself_are_larger() -> None:
    """No other part would share their programs, and each program has a fixed cost."""
    rng = np.random.default_rng(1)
    nodes, names = [], ["x"]
    for index in range(4500):
        op = ("AddV2", "Sub", "Mul")[rng.integers(3)]
        read = names[-1 - rng.integers(min(len(names), 20))]
        nodes.append(f"n{index} = {op}({names[-1]}, {read})")
        names.append(f"n{index}")
    members = members_of(graph(*nodes, **X))
    assert [len(part) for part in split(members, one, 2500)] == [1500, 1500, 1500]
    assert len(split(members, one, 1000)) == 5


def test_parts_follow_one_path_before_the_next(graphmill_host: Host) -> None:
    """Few values pass from part to part."""
    parts = parts_of(graph(*TWO_CHAINS, **X), graphmill_host, 4)
    assert parts == [["a0", "a1", "a2", "b0"], ["b1", "b2", "y"]]


def test_parts_have_about_equal_sizes() -> None:
    nodes = ["n0 = Neg(x)", *(f"n{i} = Neg(n{i - 1})" for i in range(1, 21))]
    members = members_of(graph(*nodes, **X))
    assert [len(part) for part in split(members, one, 10)] == [7, 7, 7]


def test_repeated_layers_are_cut_into_equal_parts() -> None:
    nodes, last = ["first = Sqrt(x)"], "first"
    for layer in range(40):
        nodes += [f"a{layer} = Neg({last})", f"b{layer} = Abs(a{layer})"]
        nodes += [f"y{layer} = AddV2(b{layer}, {last})"]
        last = f"y{layer}"
    parts = split(members_of(graph(*nodes, **X)), one, 25)
    kinds = [tuple(node.op for node in part) for part in parts]
    assert len(kinds) >= 5
    assert len(set(kinds[1:-1])) == 1
    assert sum(map(len, kinds)) == 121


def test_parts_of_a_sequence_read_the_same_constants() -> None:
    nodes = [f"k{n} = Const(dtype=float32, value='float32: {n}.5')" for n in range(3)]
    nodes.append("y0 = Sqrt(x)")
    for n in range(120):
        nodes += [f"m{n} = Mul(y{n}, k{n % 3})", f"y{n + 1} = Tanh(m{n})"]
    made = graph(*nodes, **X)
    members = [node for node in members_of(made) if node.op != "Const"]
    parts = split(members, one, 50)
    reads = [tuple(edge.src.name for n in part for edge in n.in_edges[1:]) for part in parts]
    assert len(reads) >= 5
    assert len(set(reads[1:-1])) == 1
    assert len(parts[-2]) == len(parts[1])


def test_functions_count_with_their_bodies() -> None:
    members = members_of(graph("a = Neg(x)", "b = Abs(a)", "c = Tanh(b)", **X))
    sizes = {"a": 1, "b": 50, "c": 1}
    parts = split(members, lambda node: sizes[node.name], 10)
    assert [[node.name for node in part] for part in parts] == [["a", "b"], ["c"]]


def test_writes_of_variables_stay_in_one_part(graphmill_host: Host) -> None:
    """All writes of a step remain one call; a node that waits for one follows it."""
    outside: dict[Node, str] = {}
    parts = parts_of(graph(*TRAINING, **X), graphmill_host, 3, outside)
    assert set(parts[-1]) == {"w", "done"}
    assert {"r"} == {node.name for node, reason in outside.items() if reason == READ_BY_SEVERAL}


def test_structure_is_not_split(graphmill_host: Host) -> None:
    """A program holds all nodes that use a tensor list."""
    made = graph(
        *(
            "shape = Const(dtype=int32, value='int32: [2]')",
            "size = Const(dtype=int32, value='int32: 1')",
        ),
        "l = TensorListReserve(shape, size, element_dtype=float32)",
        "zero = Const(dtype=int32, value='int32: 0')",
        "a = Neg(x)",
        "s = TensorListSetItem(l, zero, a)",
        "g = TensorListGetItem(s, zero, shape, element_dtype=float32)",
        *("y = Abs(g)", "z = Tanh(y)"),
        **X,
    )
    assert len(parts_of(made, graphmill_host, 2)) == 1


def layers(num_layers: int, num_weights: int) -> list[str]:
    """Return products of a vector with matrices, each followed by a function."""
    weights = [
        f"w{n} = Const(dtype=float32, value='float32: [[{n}.5, 1], [1, 2]]')"
        for n in range(num_weights)
    ]
    nodes = ["y0 = Reshape(x, shape)"]
    for n in range(num_layers):
        nodes += [f"p{n} = MatMul(y{n}, w{n % num_weights})", f"y{n + 1} = Tanh(p{n})"]
    return ["shape = Const(dtype=int32, value='int32: [1, 2]')", *weights, *nodes]


def test_deep_network_is_split_so_that_a_part_is_compiled_soon(
    graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = graph(*layers(120, 120), **X)
    assert len(parts_of(deep, graphmill_host, 2500)) == 1  # its weights are small
    monkeypatch.setattr(grouping, "_WEIGHT_BYTES_OF_PART", 16)
    parts = parts_of(deep, graphmill_host, 2500)
    assert [len(part) for part in parts] == [81, 80, 80]
    assert len(parts_of(graph(*layers(79, 79), **X), graphmill_host, 2500)) == 1


def test_layers_that_share_their_weights_stay_together(
    graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the steps of a recurrent network, which are short."""
    monkeypatch.setattr(grouping, "_WEIGHT_BYTES_OF_PART", 16)
    assert len(parts_of(graph(*layers(120, 5), **X), graphmill_host, 2500)) == 1


def test_deep_network_that_is_trained_is_not_split(
    graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "_WEIGHT_BYTES_OF_PART", 16)
    trained = graph(
        *layers(120, 120),
        "v = VarHandleOp(dtype=float32, shape=[1, 2], shared_name='v')",
        "u = AssignSubVariableOp(v, y120)",
        **X,
    )
    assert len(parts_of(trained, graphmill_host, 2500)) == 1


@pytest.mark.parametrize("seed", range(8))
def test_split_graphs_stay_acyclic(seed: int, graphmill_host: Host) -> None:
    made = graph_from_graph_def(random_graph(seed, OPS, nodes=60).graph_def, OPS)
    whole = {
        node for members in find_clusters(made, Eligibility(graphmill_host)) for node in members
    }
    parts = find_clusters(made, Eligibility(graphmill_host), max_size=3)
    assert {node for part in parts for node in part} <= whole
    assert all(len(part) <= 3 for part in parts) or len(parts) < len(whole)
    fetch_unread(made)
    form(made, max_size=3)
    assert len(topological_order(made)) == len(made)


@pytest.mark.jax
@pytest.mark.divided
@pytest.mark.parametrize("kind", compiled_graphs.KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_split_clusters_compute_the_same(
    kind: str, seed: int, graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsplit = compiled_graphs.jit_config

    def split_config(*arguments: Any) -> Any:
        config = unsplit(*arguments)
        config.graphmill.jit_max_cluster_size = 2 + seed
        return config

    monkeypatch.setattr(compiled_graphs, "jit_config", split_config)
    assert compiled_graphs.find_jit_difference(kind, 900 + seed, graphmill_host) == ""


@pytest.mark.jax
def test_failed_check_leaves_variables_of_a_split_step_unchanged(graphmill_host: Host) -> None:
    made = graphmill.Graph()
    with made.as_default():
        x = made.placeholder("float32", [2], name="x")
        v = graphmill.Variable(np.zeros(2, np.float32), name="v")
        value = x
        for _ in range(6):
            value = ops.math.tanh(value)
        checked = ops.array.check_numerics(value, message="not finite")
        update = v.assign_add(checked)
        init = graphmill.global_variables_initializer()
    config = {"graphmill": {"jit": "eager", "jit_max_cluster_size": 3}}
    with graphmill.Session(graph=made, config=config, host=graphmill_host) as session:
        session.run(init)
        session.run(update, {x: [1.0, 1.0]})
        before = session.run(v)
        with pytest.raises(graphmill.errors.InvalidArgumentError, match="not finite"):
            session.run(update, {x: [1.0, np.nan]})
        after = session.run(v)
        record = session.explain(update, [x])
    np.testing.assert_array_equal(before, after)
    assert _num_clusters(record) > 1


def _num_clusters(record: Any) -> int:
    found: Sequence[Any] = [c for one in record.compilations.values() for c in one.clusters]
    return len(found)
