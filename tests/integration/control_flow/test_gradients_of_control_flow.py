"""Gradients through loops, conditionals and functions match finite differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.graph.functions.function_def import function_def
from graphmill.ops.attrs.attr_types import FuncAttr

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.divided

sin, cos, exp, tanh = ops.math.sin, ops.math.cos, ops.math.exp, ops.math.tanh
_STEP = 1e-6


def repeat(count: Any, body: Callable[[Any, Any], Any], first: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        return i + 1, body(i, s)

    return graphmill.while_loop(lambda i, _: i < count, step, [0, first])[1]


def is_even(i: Any) -> Any:
    return ops.math.equal(i % 2, 0)


def tensor_array(x: Any, w: Any) -> Any:
    ta = ops.tensor_array
    made = ta.tensor_array_v3(3, dtype="float64", clear_after_read=False)
    flow = ta.tensor_array_scatter_v3(made.handle, [0, 1, 2], x, made.flow)
    out = ta.tensor_array_v3(3, dtype="float64")

    def body(i: Any, flow_out: Any, s: Any) -> Any:
        read = ta.tensor_array_read_v3(made.handle, i, flow, dtype="float64")
        s = sin(read * s)
        return i + 1, ta.tensor_array_write_v3(out.handle, i, s * w[0], flow_out), s

    _, last, _ = graphmill.while_loop(lambda i, *_: i < 3, body, [0, out.flow, w[1]])
    return ta.tensor_array_gather_v3(out.handle, [0, 1, 2], last, dtype="float64")


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "loop": lambda x, w: repeat(4, lambda _, s: tanh(s * w), x),
    "loop that never runs": lambda x, w: repeat(0, lambda _, s: s * w, x) + w,
    "limited loop": lambda x, w: graphmill.while_loop(
        lambda _: True, lambda s: sin(s * w), [x], maximum_iterations=3
    ),
    "nested loops": lambda x, w: repeat(
        3, lambda i, s: repeat(i + 1, lambda _, u: sin(u * w) + s, s), x
    ),
    "loops in a row": lambda x, w: repeat(
        2, lambda _, s: sin(s * w), repeat(3, lambda _, s: s * w, x)
    ),
    "gather in a loop": lambda x, w: repeat(
        3, lambda i, s: s + ops.array.gather_v2(x, [i, 0], 0), w[:2]
    ),
    "gather in nested loops": lambda x, w: repeat(
        2, lambda i, s: repeat(2, lambda j, u: u * ops.array.gather_v2(x, [i, j], 0), s), w[:2]
    ),
    "gather in a loop that never runs": lambda x, w: repeat(
        0, lambda i, s: s + ops.array.gather_v2(x, [i, 0], 0), w[:2]
    ),
    "true branch": lambda x, w: graphmill.cond(x[0] < 9, lambda: x * w, lambda: sin(x)),
    "false branch": lambda x, w: graphmill.cond(x[0] > 9, lambda: x * w, lambda: sin(x)),
    "branch in a loop": lambda x, w: repeat(
        5,
        lambda i, s: graphmill.cond(
            is_even(i), lambda: sin(s * w) + exp(-s * s), lambda: s * s * w + cos(s)
        ),
        x,
    ),
    "branches in branches in a loop": lambda x, w: repeat(
        6,
        lambda i, s: graphmill.cond(
            is_even(i),
            lambda: graphmill.cond(i > 2, lambda: sin(s * w) * exp(s / 3.0), lambda: cos(s)),
            lambda: tanh(s * s) * w,
        ),
        x,
    ),
    "loop in a branch": lambda x, w: graphmill.cond(
        x[0] < 9, lambda: repeat(3, lambda _, s: sin(s * w), x), lambda: cos(x)
    ),
    "loop in a branch that is not taken": lambda x, w: graphmill.cond(
        x[0] > 9, lambda: repeat(3, lambda _, s: sin(s * w), x), lambda: cos(x * w)
    ),
    "loop in a branch in a loop": lambda x, w: repeat(
        4,
        lambda i, s: graphmill.cond(
            is_even(i),
            lambda: repeat(i + 1, lambda _, u: sin(u * w) * u, s),
            lambda: cos(s * w),
        ),
        x,
    ),
    "tensor arrays": tensor_array,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_match_finite_differences(name: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x, w = (graph.placeholder("float64", (3,), name=name) for name in "xw")
        y = PROGRAMS[name](x, w)
        total = ops.math.sum(ops.array.reshape(y, [-1]), 0)
        found = graphmill.gradients(total, [x, w], unconnected_gradients="zero")
        found = [g.to_tensor() if isinstance(g, graphmill.IndexedSlices) else g for g in found]
    feeds = {x: np.array([0.3, -0.7, 1.1]), w: np.array([0.9, 0.4, -0.6])}
    with graphmill.Session(graph=graph) as session:
        results = session.run(found, feeds)
        run = session.make_callable(total, [x, w])
        for place, result in enumerate(results):
            np.testing.assert_allclose(result, _differences(run, feeds, place), atol=1e-7)


def _differences(run: Any, feeds: dict[Any, Any], place: int) -> list[float]:
    values = list(feeds.values())
    found = []
    for index in range(3):
        shift = np.zeros(3)
        shift[index] = _STEP
        ends = [
            run(*(value + sign * shift if p == place else value for p, value in enumerate(values)))
            for sign in (1, -1)
        ]
        found.append((ends[0] - ends[1]) / (2 * _STEP))
    return found


def test_gradients_go_through_an_imported_graph() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", (), name="x")
        repeat(3, lambda i, s: graphmill.cond(is_even(i), lambda: s * x, lambda: sin(s)), x)
    exit_ = next(node.name for node in graph if node.op == "Exit" and node.name.endswith("_1"))
    again = graphmill.Graph.from_graph_def(graph.as_graph_def())
    with again.as_default():
        x = again.get_tensor_by_name("x:0")
        (dx,) = graphmill.gradients(again.get_tensor_by_name(f"{exit_}:0"), x)
    with graphmill.Session(graph=again) as session:
        square = 0.25
        expected = 2 * 0.5 * np.cos(square) * 0.5 + np.sin(square)
        np.testing.assert_allclose(session.run(dx, {x: 0.5}), expected)


def test_second_derivatives_go_through_a_loop() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", ())
        y = repeat(3, lambda _, s: s * x, x)  # x⁴
        (first,) = graphmill.gradients(y, x)
        (second,) = graphmill.gradients(first, x)
    with graphmill.Session(graph=graph) as session:
        np.testing.assert_allclose(session.run([first, second], {x: 2.0}), [32, 48])


def test_a_loop_may_compute_gradients_in_its_body() -> None:
    """In a loop, each iteration uses the gradient of (s - x)² by its own s."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", ())

        def body(_: Any, s: Any) -> Any:
            (ds,) = graphmill.gradients(ops.math.square(s - x), s)
            return s - ds * 0.25

        y = repeat(30, body, graph.constant(0, "float64"))
    with graphmill.Session(graph=graph) as session:
        np.testing.assert_allclose(session.run(y, {x: 3.0}), 3)


def test_a_value_of_a_loop_has_no_gradient_outside() -> None:
    graph = graphmill.Graph()
    kept = []
    with graph.as_default():
        x = graph.placeholder("float64", ())

        def body(_: Any, s: Any) -> Any:
            kept.append(s)
            return s * x

        y = repeat(3, body, x)
        with pytest.raises(
            errors.InvalidArgumentError, match="is in a loop that does not contain the ys"
        ):
            graphmill.gradients(y, kept[0])


def add_function(graph: graphmill.Graph, name: str, build: Any, *types: str) -> FuncAttr:
    """Add a function, built by a Python function, to the library of a graph."""
    body = graphmill.Graph()
    with body.as_default():
        args = [body.placeholder(dtype) for dtype in types]
        results = build(*args)
    found = [(result.op, result.value_index) for result in results]
    graph.library.add(function_def(name, body, [arg.op for arg in args], found))
    return FuncAttr(name, {})


FUNCTIONAL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "PartitionedCall": lambda graph, x, w: ops.functional.partitioned_call(
        [x, w],
        Tout=["float64"],
        f=add_function(graph, "f", lambda a, b: [sin(a * b) + a], "float64", "float64"),
    )[0],
    "If": lambda graph, x, w: ops.functional.if_(
        x[0] < 9,
        [x, w],
        Tout=["float64"],
        then_branch=add_function(graph, "t", lambda a, b: [a * b], "float64", "float64"),
        else_branch=add_function(graph, "e", lambda a, _: [sin(a)], "float64", "float64"),
    )[0],
    "Case": lambda graph, x, w: ops.functional.case(
        1,
        [x, w],
        Tout=["float64"],
        branches=[
            add_function(graph, "t", lambda a, b: [a * b], "float64", "float64"),
            add_function(graph, "e", lambda a, _: [sin(a)], "float64", "float64"),
        ],
    )[0],
    "While": lambda graph, x, w: ops.functional.while_(
        [graph.constant(0), x, w],
        cond=add_function(graph, "c", lambda i, *_: [i < 3], "int32", "float64", "float64"),
        body=add_function(
            graph, "b", lambda i, s, v: [i + 1, sin(s * v), v], "int32", "float64", "float64"
        ),
    )[1],
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_gradients_go_through_functions(name: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x, w = (graph.placeholder("float64", (3,), name=name) for name in "xw")
        total = ops.math.sum(FUNCTIONAL[name](graph, x, w), 0)
        found = graphmill.gradients(total, [x, w], unconnected_gradients="zero")
    feeds = {x: np.array([0.3, -0.7, 1.1]), w: np.array([0.9, 0.4, -0.6])}
    with graphmill.Session(graph=graph) as session:
        results = session.run(found, feeds)
        run = session.make_callable(total, [x, w])
        for place, result in enumerate(results):
            np.testing.assert_allclose(result, _differences(run, feeds, place), atol=1e-7)


def test_a_function_with_random_numbers_has_no_gradient() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", (3,))
        noise = add_function(
            graph,
            "noise",
            lambda a: [a * ops.random.random_uniform([3], dtype="float64")],
            "float64",
        )
        y = ops.functional.stateful_partitioned_call([x], Tout=["float64"], f=noise)[0]
        with pytest.raises(errors.UnimplementedError, match="different random numbers"):
            graphmill.gradients(y, x)


def test_effect_of_a_function_is_not_repeated() -> None:
    """A gradient does not repeat effects for which a result only waits."""

    def body(x: Any, handle: Any) -> list[Any]:
        with x.graph.control_dependencies([ops.state.assign_add_variable_op(handle, x)]):
            return [ops.array.identity(sin(x))]

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", ())
        v = graphmill.Variable(np.float64(0))
        f = add_function(graph, "counted", body, "float64", "resource")
        y = ops.functional.stateful_partitioned_call([x, v.handle], Tout=["float64"], f=f)[0]
        (dx,) = graphmill.gradients(y, x)
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        assert session.run([y, dx], {x: 0.5}) == [np.sin(0.5), np.cos(0.5)]
        assert session.run(v) == 0.5


def test_function_reading_its_own_write_has_no_gradient() -> None:
    def body(x: Any, handle: Any) -> list[Any]:
        with x.graph.control_dependencies([ops.state.assign_add_variable_op(handle, x)]):
            return [x * ops.state.read_variable_op(handle, dtype="float64")]

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", ())
        v = graphmill.Variable(np.float64(0))
        f = add_function(graph, "written", body, "float64", "resource")
        y = ops.functional.stateful_partitioned_call([x, v.handle], Tout=["float64"], f=f)[0]
        with pytest.raises(errors.UnimplementedError, match="have its effect twice"):
            graphmill.gradients(y, x)


def test_rows_read_by_a_loop_are_sparse_gradients() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float64", (5, 2))
        y = repeat(3, lambda i, s: s + ops.array.gather_v2(x, [i, 0], 0), np.zeros((2, 2)))
        (dx,) = graphmill.gradients(y, x)
    assert isinstance(dx, graphmill.IndexedSlices)
    with graphmill.Session(graph=graph) as session:
        indices = session.run(dx.indices, {x: np.zeros((5, 2))})
    assert sorted(indices.tolist()) == [0, 0, 0, 0, 1, 2]
