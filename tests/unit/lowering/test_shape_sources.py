"""Nodes whose inputs may be broadcast to a larger output are found, and ask before they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, memory_budget, ops
from graphmill.lowering.shape_sources import ShapeSources, with_default_budget
from graphmill.runtime.kernels.kernel import KernelDef

LIMIT = 1 << 20


@pytest.fixture
def xy() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        yield graph.placeholder("float32", name="x"), graph.placeholder("float32", name="y")


@pytest.fixture
def small_default(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory_budget, "default_limit", lambda: LIMIT)


def may_grow(tensor: Any) -> bool:
    return ShapeSources().may_grow(tensor.op)


def test_inputs_of_unrelated_shapes_may_grow(xy: Any) -> None:
    x, y = xy
    assert may_grow(x + y)
    assert may_grow(ops.math.exp(x) * y)
    assert may_grow(x + np.ones(3, np.float32))
    assert may_grow(ops.array.reshape(x, [-1, 1]) + x)
    assert may_grow((x + y) + x)
    assert may_grow(ops.math.select_v2(x > y, x, x))


def test_inputs_of_one_shape_do_not_grow(xy: Any) -> None:
    x, y = xy
    assert not may_grow(x + x)
    assert not may_grow(x * ops.math.sigmoid(-x) + 1.0)
    assert not may_grow(ops.math.select_v2(x > 0.0, ops.math.exp(x), x))
    both = x + y
    assert not may_grow(both * ops.math.tanh(both))


def test_nodes_that_do_not_broadcast_do_not_grow(xy: Any) -> None:
    x, y = xy
    assert not may_grow(ops.math.mat_mul(x, y))
    assert not may_grow(ops.math.exp(x))


def test_tensor_of_a_loop_has_one_shape(xy: Any) -> None:
    x, _ = xy
    exits = graphmill.while_loop(lambda i, _: i < 2, lambda i, v: [i + 1, v * v], [0, x])
    graph = exits[0].graph
    shapes = ShapeSources()
    assert [node.name for node in graph.nodes if shapes.may_grow(node)] == []


def test_declared_source_relates_tensors_of_two_graphs(xy: Any) -> None:
    x, y = xy
    known = ShapeSources()
    outer = known.of((x.op, 0))
    other = graphmill.Graph()
    with other.as_default():
        a, b, c = (other.placeholder("float32", name=name) for name in "abc")
        related, unrelated = ops.math.tanh(a) + b, a + c
    shapes = ShapeSources()
    shapes.declare((a.op, 0), outer)
    shapes.declare((b.op, 0), outer)
    shapes.declare((c.op, 0), known.of((y.op, 0)))
    assert not shapes.may_grow(related.op)
    assert shapes.may_grow(unrelated.op)
    shapes = ShapeSources()
    shapes.declare((c.op, 0), None)
    assert not shapes.may_grow(unrelated.op)


def test_long_chain_is_followed(xy: Any) -> None:
    x, y = xy
    total = x
    for _ in range(3000):
        total = total + x
    assert not may_grow(total)
    assert may_grow(total + y)


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("op", ["AddV2", "Equal", "SelectV2"])
def test_large_broadcast_asks_the_default_budget(
    op: str, jit: str, xy: Any, small_default: None
) -> None:
    x, y = xy
    results = {
        "AddV2": x + y,
        "Equal": ops.math.equal(x, y),
        "SelectV2": ops.math.select_v2(x > 0.0, x, y),
    }
    result = results[op]
    with graphmill.Session(graph=x.graph, config={"graphmill": {"jit": jit}}) as session:
        small = np.ones((1, 3), np.float32)
        assert session.run(result, {x: small.T, y: small}).shape == (3, 3)
        large = np.ones((1, 3000), np.float32)
        with pytest.raises(errors.ResourceExhaustedError, match=r"\[3000, 3000\]") as caught:
            session.run(result, {x: large.T, y: large})
    assert (caught.value.node, caught.value.op_type) == (result.op.name, op)


def test_equal_nodes_ask_each_for_itself(xy: Any, small_default: None) -> None:
    x, y = xy
    harmless, large = x + x, x + y
    ones = np.ones((1, 3000), np.float32)
    with (
        graphmill.Session(graph=x.graph, config={"graphmill": {"jit": "off"}}) as session,
        pytest.raises(errors.ResourceExhaustedError) as caught,
    ):
        session.run([harmless, large], {x: ones.T, y: ones})
    assert caught.value.node == large.op.name


def test_folded_constants_ask_the_default_budget(xy: Any, small_default: None) -> None:
    graph = xy[0].graph
    ones = np.ones((1, 3000), np.float32)
    total = graph.constant(ones.T) + graph.constant(ones)
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.ResourceExhaustedError) as caught,
    ):
        session.run(total)
    assert caught.value.node == total.op.name


class TensorWithSizeMethod:
    """A tensor as PyTorch's, whose `size` is a method."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def size(self) -> tuple[int, ...]:
        return self.shape


@pytest.mark.parametrize("op", ["AddV2", "SelectV2"])
def test_values_of_other_namespaces_need_shapes_only(op: str, xy: Any, small_default: None) -> None:
    x, y = xy
    result = x + y if op == "AddV2" else ops.math.select_v2(x > 0.0, x, y)
    definition = KernelDef((op,), lambda xp, *inputs: len(inputs))
    namespace: Any = object()
    compute = with_default_budget(result.op, definition, namespace, lambda *inputs: len(inputs))
    small, wide, long = (TensorWithSizeMethod(*shape) for shape in ((1, 1), (1, 3000), (3000, 1)))
    others = (small,) * (op == "SelectV2")
    assert compute(*others, wide, small) == 2 + len(others)
    with pytest.raises(errors.ResourceExhaustedError, match=r"\[3000, 3000\]"):
        compute(*others, long, wide)


@graphmill.kernel("AddV2", stateful=True, priority=10)
def add_with_context(ctx: Any, x: Any, y: Any) -> Any:
    return ctx.xp.add(x, y)


@graphmill.kernel("AddV2", async_=True, priority=10)
def add_at_last(ctx: Any, x: Any, y: Any, done: Any) -> None:
    done(ctx.xp.add(x, y))


@pytest.mark.parametrize("kernel", [add_with_context, add_at_last])
def test_kernels_with_a_context_ask(kernel: Any, xy: Any, small_default: None) -> None:
    x, y = xy
    host = graphmill.Host()
    host.kernels.add(kernel)
    config = {"graphmill": {"jit": "off"}}
    with graphmill.Session(graph=x.graph, host=host, config=config) as session:
        ones = np.ones((1, 3), np.float32)
        np.testing.assert_array_equal(session.run(x + y, {x: ones.T, y: ones}), np.full((3, 3), 2))
        large = np.ones((1, 3000), np.float32)
        with pytest.raises(errors.ResourceExhaustedError, match=r"\[3000, 3000\]"):
            session.run(x + y, {x: large.T, y: large})
