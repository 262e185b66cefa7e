"""Loops, conditionals, functions and tensor arrays are exported to ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.export.onnx.onnx_runs import assert_same, run_onnx

import graphmill
from graphmill import errors, ops
from graphmill.export import convert
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.runtime.dead import DEAD
from graphmill.testing.differential.executors import reference_values
from graphmill.testing.generators.control_flow_graphs import structured_graph

pytest.importorskip("onnx")
math, array = ops.math, ops.array


def op_types(model: Any) -> list[str]:
    return [node.op_type for node in model.message.graph.node]


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("use_resource", [True, False])
def test_a_loop_of_version_1_is_exported(n: int, use_resource: bool) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, 2], name="x")
        count = graph.placeholder("int32", [], name="n")
        w = graphmill.Variable(np.float32([[0.5, 1], [0, 2]]), name="w", use_resource=use_resource)
        last, y = graphmill.while_loop(
            lambda i, value: math.less(i, count),
            lambda i, value: [
                math.add_v2(i, graph.constant(1)),
                math.mat_mul(value, w.read_value()),
            ],
            [graph.constant(0), x],
        )
    feeds = {"x": np.float32([[1, 2], [3, 4], [5, 6]]), "n": np.int32(n)}
    model = assert_same(graph, {"x": x, "n": count}, [y, last], feeds)
    assert "Loop" in op_types(model)


@pytest.mark.parametrize("value", [-1.0, 3.0])
def test_a_conditional_of_version_1_is_exported(value: float) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")
        y = graphmill.cond(
            math.greater(x, graph.constant(0.0)),
            lambda: [math.mul(x, x), math.neg(x)],
            lambda: [math.exp(x), math.abs(x)],
        )
    model = assert_same(graph, {"x": x}, list(y), {"x": np.float32(value)})
    assert "If" in op_types(model)


@pytest.mark.parametrize("number", [0, 1, 2, 9, -1])
def test_indexed_branches_are_exported(number: int) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None], name="x")
        n = graph.placeholder("int32", [], name="n")
        functions = [lambda: math.neg(x), lambda: math.exp(x), lambda: math.mul(x, x)]
        y = graphmill.switch_case(n, functions)
    assert_same(graph, {"x": x, "n": n}, y, {"x": np.float32([1, -2]), "n": np.int32(number)})


@pytest.mark.parametrize("n", [0, 3])
def test_nested_loops_with_a_conditional_are_exported(n: int) -> None:
    with graphmill.Graph().as_default() as graph:
        count = graph.placeholder("int32", [], name="n")
        one, two = graph.constant(1), graph.constant(2)

        def outer(i: Any, total: Any) -> list[Any]:
            _, inner = graphmill.while_loop(
                lambda j, value: math.less(j, i),
                lambda j, value: [math.add_v2(j, one), math.add_v2(value, math.mul(i, j))],
                [graph.constant(0), total],
            )
            is_even = math.equal(math.floor_mod(i, two), graph.constant(0))
            chosen = graphmill.cond(
                is_even, lambda: math.add_v2(inner, two), lambda: math.sub(inner, one)
            )
            return [math.add_v2(i, one), chosen]

        _, total = graphmill.while_loop(
            lambda i, value: math.less(i, count), outer, [graph.constant(0), graph.constant(0)]
        )
    assert_same(graph, {"n": count}, total, {"n": np.int32(n)})


@pytest.mark.parametrize("steps", [1, 4])
def test_a_recurrent_loop_with_tensor_arrays_is_exported(steps: int) -> None:
    """The loop of `dynamic_rnn`: read a step, write an output, for a batch of unknown size."""
    data = ops.tensor_array
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, None, 2], name="x")  # time, batch, features
        size = array.shape(x)[0]
        w = graphmill.Variable(np.float32([[0.5, 1], [0, 0.3]]), name="w")
        source, source_flow = data.tensor_array_v3(size, dtype="float32")
        rows = math.range(graph.constant(0), size, graph.constant(1))
        source_flow = data.tensor_array_scatter_v3(source, rows, x, source_flow)
        target, target_flow = data.tensor_array_v3(size, dtype="float32", element_shape=[None, 2])
        state = array.zeros_like(x[0])

        def step(i: Any, state: Any, flow: Any) -> list[Any]:
            row = data.tensor_array_read_v3(source, i, source_flow, dtype="float32")
            after = math.tanh(math.add_v2(math.mat_mul(state, w.read_value()), row))
            return [
                math.add_v2(i, graph.constant(1)),
                after,
                data.tensor_array_write_v3(target, i, after, flow),
            ]

        _, last, flow = graphmill.while_loop(
            lambda i, *_: math.less(i, size), step, [graph.constant(0), state, target_flow]
        )
        outputs = data.tensor_array_gather_v3(
            target, rows, flow, dtype="float32", element_shape=[None, 2]
        )
    values = np.random.default_rng(1).normal(size=(steps, 3, 2)).astype(np.float32)
    assert_same(graph, {"x": x}, [outputs, last], {"x": values})


@pytest.mark.parametrize("shape", [None, [None, 2]], ids=["unknown", "known"])
@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_tensor_array_that_a_loop_fills_is_exported(shape: Any, grows: bool, steps: int) -> None:
    data = ops.tensor_array
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, 2], name="x")
        n = graph.placeholder("int32", [], name="n")
        size = graph.constant(0) if grows else n
        target, start = data.tensor_array_v3(
            size,
            dtype="float32",
            element_shape=shape,
            dynamic_size=grows,
            clear_after_read=False,
        )

        def step(i: Any, flow: Any) -> list[Any]:
            value = math.mul(x, math.cast(i, DstT="float32"))
            return [
                math.add_v2(i, graph.constant(1)),
                data.tensor_array_write_v3(target, i, value, flow),
            ]

        _, flow = graphmill.while_loop(
            lambda i, _: math.less(i, n), step, [graph.constant(0), start]
        )
        rows = math.range(graph.constant(0), n, graph.constant(1))
        outputs = [
            data.tensor_array_gather_v3(target, rows, flow, dtype="float32"),
            data.tensor_array_size_v3(target, flow),
            data.tensor_array_read_v3(target, graph.constant(0), flow, dtype="float32"),
        ]
    feeds = {"x": np.float32([[1, 2], [3, 4], [5, 6]]), "n": np.int32(steps)}
    assert_same(graph, {"x": x, "n": n}, outputs, feeds)


def test_some_rows_of_a_tensor_array_are_scattered() -> None:
    data = ops.tensor_array
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, 2], name="x")
        array_of, flow = data.tensor_array_v3(graph.constant(4), dtype="float32")
        flow = data.tensor_array_scatter_v3(array_of, np.int32([3, 1]), x, flow)
        y = data.tensor_array_gather_v3(array_of, np.int32([1, 3]), flow, dtype="float32")
    assert_same(graph, {"x": x}, y, {"x": np.float32([[1, 2], [3, 4]])})


def test_tensor_list_that_a_loop_extends() -> None:
    data = ops.tensor_list
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None], name="x")
        n = graph.placeholder("int32", [], name="n")
        start = data.empty_tensor_list(np.int32(-1), np.int32(-1), element_dtype="float32")
        one = graph.constant(1)

        def step(i: Any, rows: Any) -> list[Any]:
            row = math.add_v2(x, math.cast(i, DstT="float32"))
            return [math.add_v2(i, one), data.tensor_list_push_back(rows, row)]

        _, rows = graphmill.while_loop(
            lambda i, _: math.less(i, n), step, [graph.constant(0), start]
        )
        stacked = data.tensor_list_stack(rows, np.int32([-1]), element_dtype="float32")
        length = data.tensor_list_length(rows)
    feeds = {"x": np.float32([1, 2]), "n": np.int32(3)}
    assert_same(graph, {"x": x, "n": n}, [stacked, length], feeds)


def test_sizes_of_inputs_stay_unknown_or_are_fixed() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, None], name="x")
        y = math.neg(x)
    with graphmill.Session(graph=graph) as session:
        free = graphmill.export.convert(session, "onnx", {"x": x}, {"y": y})
        fixed = graphmill.export.convert(session, "onnx", {"x": x}, {"y": y}, shapes={"x": (2, 3)})

    def sizes(model: Any, port: str) -> list[Any]:
        (info,) = getattr(model.message.graph, port)
        return [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]

    assert sizes(free, "input") == ["batch", "x_1"]
    assert sizes(free, "output") == ["batch", "y_1"]
    assert sizes(fixed, "input") == sizes(fixed, "output") == [2, 3]


@pytest.mark.parametrize("seed", [7, 11, 15, 21])
def test_random_control_flow_is_exported(seed: int, graphmill_host: Any) -> None:
    made = structured_graph(seed, graphmill_host.ops)
    expected = {
        name: value
        for name, value in reference_values(made, graphmill_host).items()
        if value is not DEAD
    }
    feeds = {name.removesuffix(":0"): np.asarray(value) for name, value in made.feeds.items()}
    graph = graphmill.Graph.from_graph_def(graph_to_graph_def(made.graph))
    with graphmill.Session(graph=graph, host=graphmill_host) as session:
        inputs = {name: f"{name}:0" for name in feeds}
        outputs = {f"result_{index}": name for index, name in enumerate(expected)}
        shapes = {name: value.shape for name, value in feeds.items()}
        model = convert(session, "onnx", inputs, outputs, shapes=shapes)
    found = run_onnx(model.message, {name: feeds[name] for name in model.inputs})
    assert [np.asarray(one).item() for one in found] == list(expected.values())


def test_loop_that_is_no_function_is_refused() -> None:
    with graphmill.Graph().as_default() as graph:
        last = graphmill.while_loop(lambda i: math.less(i, 9), lambda i: math.add_v2(i, i), [1])
    graph.add_control_edge(graph.node("while/Enter"), graph.node("while/Merge"))
    with graphmill.Session(graph=graph) as session, pytest.raises(errors.UnimplementedError) as e:
        convert(session, "onnx", {}, {"last": last})
    assert "while while/while_context: while/Merge has control inputs" in str(e.value)
    assert "while/Merge (Merge): its loop or conditional could not be" in str(e.value)
