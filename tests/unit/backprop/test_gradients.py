"""`graphmill.gradients`: results, refusals, and gradients of plugins."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.plugin.gradient_registry import NoGradientError

if TYPE_CHECKING:
    from collections.abc import Callable


def values(graph: graphmill.Graph, fetches: Any, feeds: dict[Any, Any] | None = None) -> Any:
    with graphmill.Session(graph=graph) as session:
        return session.run(fetches, feeds)


@pytest.fixture
def graph() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        yield graph


def test_gradients_of_several_ys_add_up(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (2,))
    (dx,) = graphmill.gradients([x * x, x * 3.0], x)
    assert values(graph, dx, {x: [1, 2]}).tolist() == [5, 7]


def test_unconnected_gradient_is_none_or_zeros(graph: graphmill.Graph) -> None:
    x, z = graph.placeholder("float32", (2,)), graph.placeholder("float32", (3,))
    assert graphmill.gradients(x * 2.0, [z]) == [None]
    (dz,) = graphmill.gradients(x * 2.0, [z], unconnected_gradients="zero")
    assert values(graph, dz, {x: [1, 2], z: [1, 2, 3]}).tolist() == [0, 0, 0]


@pytest.mark.parametrize("use_resource", [True, False])
def test_unconnected_variable_has_zeros_of_its_shape(
    graph: graphmill.Graph, use_resource: bool
) -> None:
    x = graph.placeholder("float32", ())
    v = graphmill.Variable([[1.0, 2.0]], dtype="float64", use_resource=use_resource)
    (dv,) = graphmill.gradients(x * 2.0, [v.handle], unconnected_gradients="zero")
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        zeros = session.run(dv)
    assert (zeros.tolist(), zeros.dtype) == ([[0, 0]], np.float64)


@pytest.mark.parametrize(("number", "slopes"), [(0, [3, 0, 0]), (1, [0, 2, 0]), (2, [0, 0, 6])])
def test_gradient_of_a_merge_goes_to_the_input_that_was_alive(
    graph: graphmill.Graph, number: int, slopes: list[int]
) -> None:
    xs = [graph.placeholder("float32", ()) for _ in range(3)]
    chosen = graph.placeholder("int32", ())
    flow = ops.control_flow
    branches = [
        flow.switch(x * x, ops.math.equal(chosen, index)).output_true for index, x in enumerate(xs)
    ]
    merged = flow.merge(branches).output
    found = graphmill.gradients(merged, xs)
    with graphmill.Session(graph=graph) as session:
        feeds = {chosen: number, xs[0]: 1.5, xs[1]: 1.0, xs[2]: 3.0}
        assert session.run(found, feeds) == slopes


def test_grad_ys_weigh_the_ys(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (2,))
    (dx,) = graphmill.gradients(x * x, [x], [[1.0, 10.0]])
    assert values(graph, dx, {x: [1, 2]}).tolist() == [2, 40]


def test_stop_gradients_makes_constants(graph: graphmill.Graph) -> None:
    a = graph.placeholder("float32", ())
    b = a * 2.0
    total = a + b
    whole = graphmill.gradients(total, [a, b])
    partial = graphmill.gradients(total, [a, b], stop_gradients=[a, b])
    assert values(graph, [*whole, *partial], {a: 0.0}) == [3, 1, 1, 1]


def test_stop_gradients_takes_one_tensor(graph: graphmill.Graph) -> None:
    a = graph.placeholder("float32", ())
    b = a * 2.0
    (da,) = graphmill.gradients(a + b, a, stop_gradients=b)
    assert values(graph, da, {a: 0.0}) == 1


def test_the_gradient_of_a_y_by_itself_is_one(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (2,))
    assert values(graph, graphmill.gradients(x, x), {x: [5, 6]})[0].tolist() == [1, 1]


def test_second_derivatives_are_computed(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float64", ())
    (first,) = graphmill.gradients(x * x * x, x)
    (second,) = graphmill.gradients(first, x)
    assert values(graph, second, {x: 2.0}) == 12


def test_rows_that_are_read_get_slices(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (3, 2))
    (dx,) = graphmill.gradients(ops.array.gather_v2(x, [2, 0, 2], 0), x)
    assert isinstance(dx, graphmill.IndexedSlices)
    found = values(graph, [dx.indices, dx.to_tensor()], {x: np.zeros((3, 2))})
    assert found[0].tolist() == [2, 0, 2]
    assert found[1].tolist() == [[1, 1], [0, 0], [2, 2]]


def test_slices_and_a_tensor_add_up_to_a_tensor(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (2,))
    (dx,) = graphmill.gradients([ops.array.gather_v2(x, [1], 0), x], x)
    assert values(graph, dx, {x: [0, 0]}).tolist() == [1, 2]


@pytest.mark.jax
def test_an_op_without_gradient_function_is_differentiated_by_jax(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (2, 2))
    (dx,) = graphmill.gradients(ops.linalg.einsum([x, x], equation="ij,jk->ik"), x)
    assert "SymbolicGradient" in {node.op for node in graph}
    matrix = np.array([[1, 2], [3, 4]], "f")
    ones = np.ones((2, 2), "f")
    np.testing.assert_allclose(values(graph, dx, {x: matrix}), ones @ matrix.T + matrix.T @ ones)


def test_an_op_without_any_gradient_is_a_lookup_error(graph: graphmill.Graph) -> None:
    x = graph.placeholder("float32", (3,))
    y = ops.array.unique(x).y
    with pytest.raises(LookupError, match="No gradient defined for operation 'Unique'") as caught:
        graphmill.gradients(y, x)
    assert isinstance(caught.value, NoGradientError)
    assert isinstance(caught.value, errors.NotFoundError)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: graphmill.gradients(ops.math.cast(x, DstT="int32"), x), "has no gradient"),
        (lambda x: graphmill.gradients(x, [x], [[1.0], [2.0]]), "2 grad_ys were given for 1 ys"),
        (lambda _: graphmill.gradients(3.0, []), "is not a tensor or variable of a graph"),
        (lambda x: graphmill.gradients(x, x, unconnected_gradients="all"), "expected 'none' or"),
    ],
)
def test_wrong_arguments_are_refused(
    graph: graphmill.Graph, build: Callable[[Any], Any], message: str
) -> None:
    x = graph.placeholder("float32", (2,))
    with pytest.raises(errors.InvalidArgumentError, match=message):
        build(x)


def test_plugin_gradient_overrides_the_built_in_one() -> None:
    @graphmill.gradient("Neg")
    def neg(_op: Any, dy: Any) -> Any:
        return dy * 100.0

    @graphmill.hookimpl
    def register(gradients: Any) -> None:
        gradients.add(neg)

    plugin = types.ModuleType("mine")
    plugin.graphmill_register_gradients = register  # type: ignore[attr-defined]
    host = graphmill.Host(plugins=[plugin])
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", ())
        (dx,) = graphmill.gradients(-x, x, host=host)
    assert values(graph, dx, {x: 1.0}) == 100


def test_a_gradient_function_must_answer_for_every_input() -> None:
    @graphmill.gradient("AddV2")
    def half(_op: Any, dy: Any) -> Any:
        return dy

    @graphmill.hookimpl
    def register(gradients: Any) -> None:
        gradients.add(half)

    plugin = types.ModuleType("mine")
    plugin.graphmill_register_gradients = register  # type: ignore[attr-defined]
    host = graphmill.Host(plugins=[plugin])
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", ())
        with pytest.raises(errors.InvalidArgumentError, match="returned 1 gradients, expected 2"):
            graphmill.gradients(x + x, x, host=host)


def plugin(name: str, factor: float = 1.0, priority: int = 0) -> types.ModuleType:
    @graphmill.gradient("Neg")
    def neg(_op: Any, dy: Any) -> Any:
        return dy * factor

    module = types.ModuleType(name)
    hook = graphmill.hookimpl(lambda gradients: gradients.add(neg, priority=priority))
    module.graphmill_register_gradients = hook  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(("priority", "expected"), [(1, 7.0), (-1, 3.0), (-2, 3.0)])
def test_the_gradient_of_the_highest_priority_is_used(priority: int, expected: float) -> None:
    others = [plugin("one", 7.0, priority), plugin("two", 3.0)]
    host = graphmill.Host(plugins=others, load_entry_points=False)
    op_def = host.ops.get("Neg")
    found = host.gradients.find(op_def)
    assert found is not None
    assert found.function(None, 1.0) == expected


def test_two_plugins_with_one_gradient_conflict() -> None:
    with pytest.raises(errors.AlreadyExistsError, match="gradient of op Neg"):
        graphmill.Host(plugins=[plugin("one"), plugin("two")])
