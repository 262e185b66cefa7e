"""Nodes that combine very many inputs are divided, with the same results (P4)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes
from graphmill.lowering.passes import PassOptions
from graphmill.ops import array, math
from graphmill.spi import ArgDef, AttrDef, OpDef
from graphmill_plugins.jit.rewrites.divide_aggregates import divide_aggregates

HOST = graphmill.default_host()


def sums(count: int, dtype: str = "float32") -> tuple[graphmill.Graph, Any]:
    """Return a graph of a sum of products of a fed vector, and the sum."""
    graph = graphmill.Graph()
    powers = np.random.default_rng(5).integers(-4, 4, (count, 33))
    factors = np.exp2(powers).astype(dtype)  # so that the products are exact
    with graph.as_default():
        x = array.placeholder(dtype=dtype, shape=[33], name="x")
        first = math.neg(x, name="first")
        products = [math.mul(x, one) for one in factors]
        with graph.control_dependencies([first]):
            total = math.add_n(products, name="total")
        math.neg(total, name="reader")
    return graph, total


def numbers_of_inputs(graph: graphmill.Graph) -> Counter[int]:
    return Counter(len(node.in_edges) for node in graph.nodes if node.op == "AddN")


@pytest.mark.parametrize("count", [64, 65, 71, 200])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sums_are_rounded_as_before(count: int, dtype: str) -> None:
    graph, total = sums(count, dtype)
    results = []
    for jit in ("off", "eager"):
        with graphmill.Session(graph=graph, config={"graphmill": {"jit": jit}}) as session:
            results.append(session.run(total, {"x:0": np.linspace(-1, 1, 33).astype(dtype)}))
    np.testing.assert_array_equal(*results)


def test_eight_inputs_are_combined_at_a_time() -> None:
    graph, _ = sums(203)
    divide_aggregates(graph, PassOptions(None, [], HOST))
    assert numbers_of_inputs(graph) == {3: 1, 8: 25, 2: 25}
    (edge,) = graph.node("reader").in_edges
    assert edge.src.op == "AddN"


def test_each_part_waits_for_what_the_node_waited_for() -> None:
    graph, _ = sums(80)
    divide_aggregates(graph, PassOptions(None, [], HOST))
    for node in graph.nodes:
        if node.op == "AddN":
            assert [edge.src.name for edge in node.control_in_edges] == ["first"]


def test_nodes_with_fewer_inputs_are_left() -> None:
    graph, _ = sums(63)
    divide_aggregates(graph, PassOptions(None, [], HOST))
    assert numbers_of_inputs(graph) == {63: 1}


SCALED_SUM = OpDef(
    "Mine>ScaledSum",
    input_args=(
        ArgDef("inputs", type=dtypes.float32, number_attr="N"),
        ArgDef("factor", type=dtypes.float32),
    ),
    output_args=(ArgDef("total", type=dtypes.float32),),
    attrs=(AttrDef("N", "int", minimum=1),),
    is_aggregate=True,
)


@graphmill.kernel("Mine>ScaledSum")
def scaled_sum(xp: Any, inputs: list[Any], factor: Any) -> Any:
    return sum(inputs[1:], inputs[0]) * factor


def test_aggregate_of_a_plugin_with_another_input_is_left() -> None:
    host = graphmill.Host()
    host.ops.add(SCALED_SUM)
    host.kernels.add(scaled_sum)
    graph = graphmill.Graph(host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [3], name="x")
        total = graphmill.op_function(SCALED_SUM)([math.neg(x) for _ in range(70)], x)
    divide_aggregates(graph, PassOptions(None, [], host))
    assert len(total.op.in_edges) == 71
    with graphmill.Session(graph=graph, host=host) as session:
        result = session.run(total, {x: np.array([1, 2, 3], np.float32)})
    np.testing.assert_array_equal(result, [-70, -280, -630])
