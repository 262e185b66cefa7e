"""Passes respect the effects of the kernel that a node uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_nodes import parse_function, parse_node


def host_with(*definitions: Any) -> graphmill.Host:
    """Return a host with third-party kernels."""

    class Plugin:
        @staticmethod
        @graphmill.hookimpl
        def graphmill_register_kernels(kernels: Any) -> None:
            for kernel in definitions:
                kernels.add(kernel)

    return graphmill.Host(plugins=[Plugin])


def value_of(graph: graphmill.Graph, fetch: str, host: graphmill.Host, **config: Any) -> Any:
    config = {"graphmill": {"jit": "off"}, **config}
    with graphmill.Session(graph=graph, host=host, config=config) as session:
        return session.run(fetch)


def test_identity_whose_kernel_has_effects_is_not_bypassed() -> None:
    seen: list[Any] = []

    @graphmill.kernel("Identity", priority=10, effects=["log"])
    def telling(xp: Any, input: Any) -> Any:  # noqa: A002 - the op's name for it
        seen.append(input)
        return input

    graph = graphmill.Graph()
    with graph.as_default():
        between = ops.array.identity(ops.math.neg(graph.constant(1.0)))
        y = ops.math.neg(between, name="y")
    assert value_of(graph, y.name, host_with(telling)) == 1
    assert seen == [-1]


def test_node_whose_kernel_has_effects_is_not_folded() -> None:
    calls: list[Any] = []

    @graphmill.kernel("Mul", backend="numpy", priority=10, effects=["clock"])
    def now(xp: Any, x: Any, y: Any) -> Any:
        calls.append(x)
        return x * y

    graph = graphmill.Graph()
    with graph.as_default():
        ops.math.mul(graph.constant(2.0), graph.constant(3.0), name="y")
    host = host_with(now)
    with graphmill.Session(graph=graph, host=host, config={"graphmill": {"jit": "off"}}) as session:
        assert [session.run("y:0") for _ in range(3)] == [6, 6, 6]
    assert len(calls) == 3


@pytest.mark.jax
@pytest.mark.parametrize("device", ["CPU", "XLA_CPU"])
def test_constant_is_computed_by_the_kernel_of_its_device(device: str) -> None:
    @graphmill.kernel("Mul", backend="jax", device="XLA_CPU", priority=10)
    def own(xp: Any, x: Any, y: Any) -> Any:
        return x * y + 1000

    graph = graphmill.Graph()
    with graph.as_default(), graph.device(f"/device:{device}:0"):
        ops.math.mul(graph.constant(2.0), graph.constant(3.0), name="y")
    found = value_of(graph, "y:0", host_with(own), device_count={"CPU": 1, "XLA_CPU": 1})
    assert found == {"CPU": 6, "XLA_CPU": 1006}[device]


def test_call_successors_wait_for_effects_inside_it() -> None:
    order: list[str] = []

    @graphmill.kernel("Neg", priority=10, effects=["log"])
    def first(xp: Any, x: Any) -> Any:
        order.append("in the call")
        return -x

    @graphmill.kernel("Abs", priority=10, effects=["log"])
    def second(xp: Any, x: Any) -> Any:
        order.append("after it")
        return np.abs(x)

    host = host_with(first, second)
    maker = GraphMaker(host.ops)
    maker.function(parse_function("f(x: float32) -> (float32): n = Neg(x); y = Exp(x); return y"))
    for text in (
        "x = Const(dtype=float32, value='float32: 1')",
        "c = PartitionedCall([x], Tout=[float32], f=f)",
        "y = Abs(x, after=[c])",
    ):
        maker.node(parse_node(text))
    assert value_of(maker.graph_def, "y:0", host) == 1
    assert order == ["in the call", "after it"]
