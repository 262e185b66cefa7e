"""Graphs with one kernel run without a propagator, with equal results (clauses E3, E5, E6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.ops import array, control_flow, math
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.op_kernel import OpKernel
from graphmill.testing.proto_builders import const_def, graph_def, node_def
from graphmill_plugins.default_executor.graph_view import GraphView
from graphmill_plugins.default_executor.single_kernel import SingleKernel, single_kernel

OFF = {"graphmill": {"jit": "off"}}
ARG = node_def("arg", "_Arg", T="float32", index=0)
RETVAL = node_def("r", "_Retval", "n", T="float32", index=0)
NEG = node_def("n", "Neg", "arg", T="float32")


def found(*nodes: Any, **kernels: KernelDef) -> SingleKernel | None:
    def kernel(node: Any) -> OpKernel:
        definition = kernels.get(node.name, KernelDef((node.op,), lambda: np.float32(0)))
        return OpKernel(definition.function, definition, node.name, node.op)

    return single_kernel(
        GraphView(graph_from_graph_def(graph_def(*nodes), OpRegistry()), kernel), "CPU:0"
    )


def test_e3_a_kernel_between_arguments_and_results_is_one() -> None:
    assert found(ARG, NEG, RETVAL) is not None
    add = node_def("n", "AddV2", "arg", "c", T="float32")
    assert found(ARG, const_def("c", 1.0), add, RETVAL) is not None


@pytest.mark.parametrize(
    "nodes",
    [
        (ARG, NEG, node_def("m", "Neg", "n", T="float32"), RETVAL),
        (ARG, node_def("r", "_Retval", "arg", T="float32", index=0)),
        (ARG, NEG, RETVAL, node_def("s", "_Retval", "arg", T="float32", index=1)),
        (node_def("n", "NoOp"),),
        (
            ARG,
            node_def("n", "Switch", "arg", "p", T="float32"),
            node_def("p", "_Arg", T="bool", index=1),
        ),
    ],
    ids=["two kernels", "none", "an argument is a result", "no outputs", "control flow"],
)
def test_e3_other_graphs_are_not(nodes: Any) -> None:
    assert found(*nodes) is None


def test_e5_a_kernel_that_may_wait_is_not() -> None:
    waiting = KernelDef(("Neg",), lambda: None, stateful=True, async_=True)
    assert found(ARG, NEG, RETVAL, n=waiting) is None


def graph_of(make: Any) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        return graph, make(graph)


@pytest.fixture(params=["DEFAULT", "INLINE"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    return OFF | {"experimental": {"executor_type": request.param}}


def test_e3_inputs_and_results_take_their_places(config: dict[str, Any]) -> None:
    def make(graph: Any) -> Any:
        x = array.placeholder(dtype="float32", shape=[4], name="x")
        return control_flow_parts(graph, x)

    def control_flow_parts(graph: Any, x: Any) -> Any:
        return array.split(graph.constant(0), x, num_split=2, name="parts")

    graph, parts = graph_of(make)
    with graphmill.Session(graph=graph, config=config) as session:
        second, first = session.run([parts[1], parts[0]], {"x:0": [1, 2, 3, 4]})
        assert (first.tolist(), second.tolist()) == ([1, 2], [3, 4])


def test_e6_an_error_names_the_node(config: dict[str, Any]) -> None:
    graph, y = graph_of(
        lambda _: math.floor_div(
            array.placeholder(dtype="int32", shape=[], name="x"),
            array.placeholder(dtype="int32", shape=[], name="z"),
            name="ratio",
        )
    )
    with graphmill.Session(graph=graph, config=config) as session:
        assert session.run(y, {"x:0": 7, "z:0": 2}) == 3
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.run(y, {"x:0": 7, "z:0": 0})
        assert caught.value.node == "ratio"
        assert session.run(y, {"x:0": 8, "z:0": 2}) == 4


def test_e6_a_traced_run_shows_the_node(config: dict[str, Any]) -> None:
    graph, y = graph_of(lambda _: math.neg(array.placeholder(dtype="float32", name="x"), name="y"))
    metadata = graphmill.RunMetadata()
    options = graphmill.RunOptions(trace_level=graphmill.RunOptions.FULL_TRACE)
    with graphmill.Session(graph=graph, config=config) as session:
        session.run(y, {"x:0": 1.0}, options=options, run_metadata=metadata)
    names = [node.node_name for dev in metadata.step_stats.dev_stats for node in dev.node_stats]
    assert "y" in names


def test_e5_single_kernel_graph_keeps_control_edges(config: dict[str, Any]) -> None:
    def make(graph: Any) -> Any:
        x = array.placeholder(dtype="float32", name="x")
        y = math.neg(x, name="y")
        with graph.control_dependencies([y]):
            return y, control_flow.no_op(name="after")

    graph, (y, after) = graph_of(make)
    with graphmill.Session(graph=graph, config=config) as session:
        assert session.run(y, {"x:0": 2.0}, targets=[after]) == -2.0
