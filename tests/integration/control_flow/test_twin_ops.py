"""Plugin ops are control flow, calls, variables and more by their traits alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.graph.functions.function_def import function_def
from graphmill.ops import array, control_flow, functional, math, state
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.plugin.host import default_host
from graphmill.testing.fakes.twin_ops import CONTROL_FLOW, TwinOps, twin_name, with_twins
from graphmill.testing.oracle.reference_evaluator import ReferenceSession

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = ("PartitionedCall", "StatefulPartitionedCall", "If", "While", "Case")
VALUES = ("Identity", "Const", "Placeholder", "VarHandleOp", "ReadVariableOp", "Shape")
NAMES = (*CONTROL_FLOW, *CALLS, *VALUES)


@pytest.fixture(scope="module")
def host() -> graphmill.Host:
    return graphmill.Host(plugins=[TwinOps(NAMES, default_host())])


def config(executor_type: str = "DEFAULT", devices: int = 1) -> proto.ConfigProto:
    made = proto.ConfigProto()
    made.experimental.executor_type = executor_type
    made.device_count["CPU"] = devices
    made.graph_options.optimizer_options.global_jit_level = -1
    return made


def built(build: Callable[[graphmill.Graph], Any]) -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        build(graph)
    return graph


def conditional(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (), "x")
    y = graphmill.cond(x > 1.0, lambda: x * 2.0, lambda: x - 1.0)
    array.identity(y, name="y")


def loop(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (), "x")
    _, last = graphmill.while_loop(
        lambda i, _: i < 5, lambda i, a: (i + 1, a * x), [0, graph.constant(1.0)]
    )
    array.identity(last, name="y")


def nested_loops(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (), "x")

    def body(i: Any, a: Any) -> Any:
        _, inner = graphmill.while_loop(
            lambda j, _: j < i, lambda j, b: (j + 1, b + x), [graph.constant(0), a]
        )
        return i + 1, graphmill.cond(inner > 9.0, lambda: inner - 1.0, lambda: inner)

    _, last = graphmill.while_loop(lambda i, _: i < 6, body, [0, graph.constant(0.5)])
    array.identity(last, name="y")


def switched(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (), "x")
    y = graphmill.switch_case(
        math.cast(x, DstT="int32"), [lambda: x + 1.0, lambda: x * 5.0, lambda: x - 7.0]
    )
    array.identity(y, name="y")


STRUCTURES = (conditional, loop, nested_loops, switched)


def value_at(graph: graphmill.Graph, host: graphmill.Host, x: float, settings: Any = None) -> Any:
    with graphmill.Session(graph=graph, host=host, config=settings or config()) as session:
        return session.run("y:0", {"x:0": x})


@pytest.mark.parametrize("x", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("executor_type", ["DEFAULT", "INLINE"])
@pytest.mark.parametrize("build", STRUCTURES)
def test_control_flow_of_a_plugin_runs_as_tensorflows(
    build: Callable[..., Any], executor_type: str, x: float, host: graphmill.Host
) -> None:
    graph = built(build)
    twins = with_twins(graph, (*CONTROL_FLOW, "Const", "Identity", "Placeholder"), host)
    assert not {node.op for node in twins} & {"Switch", "Merge", "Enter", "Const", "Identity"}
    settings = config(executor_type)
    assert value_at(twins, host, x, settings) == value_at(graph, host, x, settings)


def test_loop_of_a_plugin_crosses_devices(host: graphmill.Host) -> None:
    def build(graph: graphmill.Graph) -> None:
        x = graph.placeholder("float32", (), "x")

        def body(i: Any, a: Any) -> Any:
            with graph.device("CPU:1"):
                return i + 1, a * x

        _, last = graphmill.while_loop(lambda i, _: i < 5, body, [0, graph.constant(1.0)])
        array.identity(last, name="y")

    twins = with_twins(built(build), CONTROL_FLOW, host)
    assert value_at(twins, host, 2.0, config(devices=2)) == 32.0


def test_single_threaded_executor_refuses_control_flow_of_a_plugin(host: graphmill.Host) -> None:
    twins = with_twins(built(conditional), CONTROL_FLOW, host)
    with pytest.raises(errors.UnimplementedError, match="is a Twin>Switch"):
        value_at(twins, host, 2.0, config("SINGLE_THREADED_EXECUTOR"))


@pytest.mark.parametrize("build", [conditional, loop, nested_loops])
def test_gradients_go_through_control_flow_of_a_plugin(
    build: Callable[..., Any], host: graphmill.Host
) -> None:
    found = []
    for graph in (built(build), with_twins(built(build), CONTROL_FLOW, host)):
        with graph.as_default():
            x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("y:0")
            (dx,) = graphmill.gradients(y, x, host=host)
        with graphmill.Session(graph=graph, host=host, config=config()) as session:
            found.append(session.run(dx, {"x:0": 1.5}))
    assert found[0] == pytest.approx(found[1])


def with_functions(op: str) -> graphmill.Graph:
    """Return a graph in which an op calls functions of (x, b): x * b and x + b."""
    graph = graphmill.Graph()
    for name, compute in (("product", math.mul), ("sum", math.add_v2)):
        body = graphmill.Graph()
        with body.as_default():
            a = body.placeholder("float32", (3,), "a")
            b = body.placeholder("float32", (3,), "b")
            result = compute(a, b)
        graph.library.add(function_def(name, body, [a.op, b.op], [(result.op, 0)]))
    product, sum_ = FuncAttr("product", {}), FuncAttr("sum", {})
    with graph.as_default():
        x = graph.placeholder("float32", (3,), "x")
        args = [x, graph.constant([1.0, 2.0, 3.0])]
        if op == "If":
            found = functional.if_(
                graph.constant(True), args, Tout=["float32"], then_branch=product, else_branch=sum_
            )
        elif op == "Case":
            found = functional.case(
                graph.constant(0), args, Tout=["float32"], branches=[product, sum_]
            )
        else:
            call = getattr(functional, op)
            found = call(args, Tout=["float32"], f=product)
        array.identity(found[0], name="y")
    return graph


@pytest.mark.parametrize("op", ["partitioned_call", "stateful_partitioned_call", "If", "Case"])
def test_calls_of_a_plugin_have_shapes_and_gradients(op: str, host: graphmill.Host) -> None:
    graph = with_twins(with_functions(op), CALLS, host)
    assert any(node.op.startswith("Twin>") for node in graph)
    y = graph.get_tensor_by_name("y:0")
    assert y.shape == (3,)
    with graph.as_default():
        (dx,) = graphmill.gradients(y, graph.get_tensor_by_name("x:0"), host=host)
    with graphmill.Session(graph=graph, host=host, config=config()) as session:
        value, slope = session.run([y, dx], {"x:0": np.full(3, 2.0, np.float32)})
    assert value.tolist() == [2.0, 4.0, 6.0]
    assert slope.tolist() == [1.0, 2.0, 3.0]


def test_loop_over_functions_of_a_plugin_has_shapes_and_gradients(host: graphmill.Host) -> None:
    graph = graphmill.Graph()
    for name, compute in (
        ("goes_on", lambda i, x: [i < 3]),
        ("body", lambda i, x: [i + 1, x * x]),
    ):
        body = graphmill.Graph()
        with body.as_default():
            i, x = body.placeholder("int32", (), "i"), body.placeholder("float32", (2,), "x")
            results = compute(i, x)
        made = function_def(name, body, [i.op, x.op], [(r.op, r.value_index) for r in results])
        graph.library.add(made)
    with graph.as_default():
        x = graph.placeholder("float32", (2,), "x")
        cond, step = FuncAttr("goes_on", {}), FuncAttr("body", {})
        array.identity(functional.while_([0, x], cond=cond, body=step)[1], name="y")
    graph = with_twins(graph, ["While"], host)
    y = graph.get_tensor_by_name("y:0")
    assert y.shape == (2,)
    with graph.as_default():
        (dx,) = graphmill.gradients(y, graph.get_tensor_by_name("x:0"), host=host)
    with graphmill.Session(graph=graph, host=host, config=config()) as session:
        value, slope = session.run([y, dx], {"x:0": np.array([1.0, 2.0], np.float32)})
    assert value.tolist() == [1.0, 256.0]
    assert slope.tolist() == [8.0, 1024.0]


def test_function_gradient_rereads_plugin_variable(host: graphmill.Host) -> None:
    graph, body = graphmill.Graph(), graphmill.Graph()
    with body.as_default():
        x = body.placeholder("float32", (), "x")
        handle = state.var_handle_op(dtype="float32", shape=(), shared_name="w")
        y = x * state.read_variable_op(handle, dtype="float32")
    graph.library.add(function_def("scaled", body, [x.op], [(y.op, 0)]))
    with graph.as_default():
        w = state.var_handle_op(dtype="float32", shape=(), shared_name="w")
        state.assign_variable_op(w, graph.constant(3.0), name="init")
        x = graph.placeholder("float32", (), "x")
        call = functional.stateful_partitioned_call
        array.identity(call([x], Tout=["float32"], f=FuncAttr("scaled", {}))[0], name="y")
    graph = with_twins(graph, ["VarHandleOp", "ReadVariableOp"], host)
    with graph.as_default():
        x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("y:0")
        (dx,) = graphmill.gradients(y, x, host=host)
    with graphmill.Session(graph=graph, host=host, config=config()) as session:
        session.run(graph.node("init"))
        assert session.run(dx, {x: 1.0}) == 3.0


def test_placeholder_of_a_plugin_must_be_fed_with_its_shape(host: graphmill.Host) -> None:
    graph = with_twins(built(conditional), ["Placeholder"], host)
    with graphmill.Session(graph=graph, host=host, config=config()) as session:
        with pytest.raises(errors.InvalidArgumentError, match="feed a value for placeholder"):
            session.run("y:0")
        with pytest.raises(errors.InvalidArgumentError, match="Cannot feed value of shape"):
            session.run("y:0", {"x:0": [1.0]})


def test_fed_placeholder_of_a_plugin_is_not_waited_for(host: graphmill.Host) -> None:
    def build(graph: graphmill.Graph) -> None:
        x = graph.placeholder("float32", (), "x")
        with graph.control_dependencies([x.op]):
            graph.constant(7.0, name="y")

    graph = with_twins(built(build), ["Placeholder"], host)
    assert value_at(graph, host, 1.0) == 7.0


def test_plugin_variable_has_static_shape(host: graphmill.Host) -> None:
    def build(graph: graphmill.Graph) -> None:
        handle = state.var_handle_op(dtype="float32", shape=(2, 3), shared_name="v")
        array.identity(state.read_variable_op(handle, dtype="float32"), name="y")

    graph = with_twins(built(build), ["VarHandleOp"], host)
    assert graph.get_tensor_by_name("y:0").shape == (2, 3)


def test_plugin_identity_has_input_shape_and_kernel_gradient(
    host: graphmill.Host,
) -> None:
    graph = with_twins(built(conditional), ["Identity"], host)
    y = graph.get_tensor_by_name("y:0")
    assert y.op.op == twin_name("Identity")
    assert y.shape == ()
    with graph.as_default():
        (dx,) = graphmill.gradients(y, graph.get_tensor_by_name("x:0"), host=host)
    assert dx is not None
    assert any(node.op == "SymbolicGradient" for node in graph)


def test_plugin_control_trigger_runs_after_dead_nodes(host: graphmill.Host) -> None:
    def build(graph: graphmill.Graph) -> None:
        x = graph.placeholder("float32", (), "x")
        false, true = control_flow.switch(x, x > 1.0)
        with graph.control_dependencies([array.identity(false).op, array.identity(true).op]):
            control_flow.control_trigger(name="t")

    graph = with_twins(built(build), CONTROL_FLOW, host)
    with graphmill.Session(graph=graph, host=host, config=config()) as session:
        session.run(graph.node("t"), {"x:0": 2.0})


@pytest.mark.parametrize("build", [conditional, loop])
def test_reference_evaluator_supports_control_flow_of_a_plugin(
    build: Callable[[graphmill.Graph], Any], host: graphmill.Host
) -> None:
    twins = with_twins(built(build), CONTROL_FLOW, host)
    evaluated = ReferenceSession(graph_to_graph_def(twins), host).run(["y:0"], {"x:0": 2.0})
    assert evaluated == [value_at(twins, host, 2.0)]
