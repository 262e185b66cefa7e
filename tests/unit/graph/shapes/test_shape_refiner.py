"""`tensor.shape` is inferred before a graph runs (clause G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops, proto
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.graph.builder import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.tensor import Tensor


@pytest.fixture
def graph() -> Iterator[Graph]:
    with Graph().as_default() as graph:
        yield graph


def made(function: Any) -> Any:
    """Return the function of an op from float32 to float32."""

    @graphmill.op("Mine>Op", shape=function)
    def mine(xp: Any, x: np.float32) -> np.float32:
        return x  # pragma: no cover - never run

    return graphmill.op_function(mine)


def test_size_computed_from_shapes_is_static(graph: Graph) -> None:
    x = graph.placeholder("float32", [4, 6, None])
    shape = ops.array.shape(x)
    rows = shape[0] * shape[1]
    assert ops.array.reshape(x, ops.array.pack([rows, -1])).shape == (24, None)
    both = ops.array.concat_v2([shape[:2], [5]], 0)
    assert ops.array.fill(both, 0.0).shape == (4, 6, 5)


def test_unknown_size_stays_dynamic(graph: Graph) -> None:
    x = graph.placeholder("float32", [None, 6])
    count = ops.array.shape(x)[0]
    assert ops.array.reshape(x, ops.array.pack([count, 2, 3])).shape == (None, 2, 3)
    assert ops.array.reshape(x, graph.placeholder("int32", [3])).shape == (None, None, None)
    assert ops.array.reshape(x, graph.placeholder("int32")).shape.rank is None


def test_op_without_shape_function_has_unknown_shape(graph: Graph) -> None:
    x = graph.placeholder("string", [2])
    assert ops.parsing.decode_compressed(x).shape == graphmill.TensorShape(None)


def test_variables_have_a_shape(graph: Graph) -> None:
    by_handle = graphmill.Variable(np.zeros([2, 3], np.float32))
    by_reference = graphmill.Variable(np.zeros([3, 5], np.float32), use_resource=False)
    assert by_handle.shape == (2, 3)
    assert (by_handle @ by_reference).shape == (2, 5)


def test_loop_invariant_sizes_are_static(graph: Graph) -> None:
    def body(i: Tensor, x: Tensor, y: Tensor) -> list[Tensor]:
        return [i + 1, ops.math.tanh(x), ops.array.concat_v2([y, y], 0)]

    x = graph.placeholder("float32", [7, None])
    start = [graph.constant(0), x, graph.constant(np.zeros([2, 3], np.float32))]
    i, x, y = graphmill.while_loop(lambda i, *_: i < 3, body, start)
    assert i.shape == ()
    assert x.shape == (7, None)
    assert y.shape == (None, 3)


def test_agreeing_branches_are_static(graph: Graph) -> None:
    x = graph.placeholder("float32", [4, 2])
    chosen = graphmill.cond(
        graph.placeholder("bool", []), lambda: x, lambda: ops.array.tile(x[:1], [3, 1])
    )
    assert chosen.shape == (None, 2)


def test_invalid_shape_is_refused_at_build_time(graph: Graph) -> None:
    x, y = graph.placeholder("float32", [2, 3]), graph.placeholder("float32", [4, 5])
    count = len(graph)
    with pytest.raises(InvalidArgumentError, match="must be equal, but are 3 and 4") as caught:
        ops.math.mat_mul(x, y, name="product")
    assert (caught.value.node, caught.value.op_type) == ("product", "MatMul")
    assert len(graph) == count


def test_loaded_graph_shapes_are_inferred_lazily(graph: Graph) -> None:
    x, y = graph.placeholder("float32", [2, 3]), graph.placeholder("float32", [3, 5])
    ops.math.tanh(ops.math.mat_mul(x, y, name="bad"), name="after")
    message = graph.as_graph_def()
    next(node for node in message.node if node.name == "bad").attr["transpose_b"].b = True
    loaded = Graph.from_graph_def(message)
    for ask in (lambda: loaded.get_tensor_by_name("after:0").shape, loaded.check_shapes):
        with pytest.raises(InvalidArgumentError, match="must be equal, but are 3 and 5") as caught:
            ask()
        assert caught.value.node == "bad"


def test_a_long_chain_costs_no_stack(graph: Graph) -> None:
    x = graph.placeholder("float32", [3])
    for _ in range(3000):
        x = ops.math.neg(x)
    assert x.shape == (3,)


def test_an_edit_is_noticed(graph: Graph) -> None:
    y = ops.math.neg(graph.placeholder("float32", [3]))
    assert y.shape == (3,)
    graph.replace_input(y.op, 0, graph.placeholder("float32", [5]).op, 0)
    assert y.shape == (5,)


def test_loaded_graph_has_shapes(graph: Graph) -> None:
    ops.math.neg(graph.placeholder("float32", [None, 3]), name="y")
    loaded = Graph.from_graph_def(graph.as_graph_def())
    assert loaded.get_tensor_by_name("y:0").shape == (None, 3)


def test_custom_op_shape_error_is_raised_at_build_time(graph: Graph) -> None:
    scale = made(lambda op: op.shape("x").with_rank(2))
    assert scale(graph.placeholder("float32", [3, None])).shape == (3, None)
    count = len(graph)
    x = graph.placeholder("float32", [3])
    with pytest.raises(InvalidArgumentError, match="must be rank 2 but is rank 1") as caught:
        scale(x, name="bad")
    assert (caught.value.node, caught.value.op_type) == ("bad", "Mine>Op")
    assert len(graph) == count + 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda op: op.shape("x").nothing, "test_shape_refiner.*failed: AttributeError"),
        (lambda _: [1.5], "is not a shape"),
        (lambda op: op.shape("y"), "op has no input 'y'; it has x"),
        (lambda op: op.get_attr("n"), "node has no attr 'n'"),
    ],
)
def test_a_shape_function_at_fault_is_named(graph: Graph, function: Any, text: str) -> None:
    x = graph.placeholder("float32")
    with pytest.raises((InternalError, InvalidArgumentError), match=text) as caught:
        made(function)(x, name="bad")
    assert (caught.value.node, caught.value.op_type) == ("bad", "Mine>Op")


def test_several_outputs_need_several_shapes(graph: Graph) -> None:
    @graphmill.op("Mine>Two", shape=lambda op: op.shape("x"))
    def two(xp: Any, x: np.float32) -> tuple[np.float32, np.float32]:
        return x, x  # pragma: no cover - never run

    with pytest.raises(InternalError, match="expected a list of 2 shapes"):
        graphmill.op_function(two)(graph.placeholder("float32", [1]))


def test_a_message_gets_its_shape_function_from_the_host() -> None:
    @graphmill.op("Mine>Told")
    def told(xp: Any, x: np.float32) -> np.float32:
        return x  # pragma: no cover - never run

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_ops(self, ops: Any) -> None:
            message = told.__graphmill_op__.to_proto()  # type: ignore[attr-defined]
            ops.add(message, shape=lambda op: op.shape("x"))

    host = graphmill.Host(plugins=[Plugin()])
    graph = Graph(ops=host.ops)
    node = graph.create_op("Mine>Told", [graph.placeholder("float32", [8])])
    assert graph.outputs_of(node)[0].shape == (8,)


def test_shapes_of_factorizations_are_inferred(graph: Graph) -> None:
    x = graph.placeholder("float32", [5, 4, None])
    assert [y.shape for y in ops.linalg.qr(x)] == [(5, 4, None), (5, None, None)]
    whole = ops.linalg.qr(x, full_matrices=True)
    assert [y.shape for y in whole] == [(5, 4, 4), (5, 4, None)]
    tall = graph.placeholder("float32", [4, 3])
    assert [y.shape for y in ops.linalg.svd(tall)] == [(3,), (4, 3), (3, 3)]
    assert [y.shape for y in ops.linalg.svd(tall, full_matrices=True)] == [(3,), (4, 4), (3, 3)]
    assert ops.linalg.svd(tall, compute_uv=False)[0].shape == (3,)
    assert ops.linalg.svd(graph.placeholder("float32"))[0].shape.rank is None


def test_shapes_of_quantized_arithmetic_are_inferred(graph: Graph) -> None:
    rows, columns = (graph.placeholder("quint8", size) for size in ([3, 1], [1, 4]))
    scalar = graph.placeholder("float32", [])
    total = ops.quantized.quantized_add(rows, columns, *[scalar] * 4)
    assert [y.shape for y in total] == [(3, 4), (), ()]
    product = ops.quantized.quantized_mat_mul(rows, columns, *[scalar] * 4)
    assert product[0].shape == (3, 4)


@pytest.mark.parametrize(("producer", "shape"), [(20, None), (24, ()), (0, ())])
def test_placeholder_of_rank_0_in_an_old_graph_may_have_any_shape(
    producer: int, shape: object
) -> None:
    message = proto.GraphDef()
    message.versions.producer = producer
    node = message.node.add(name="x", op="Placeholder")
    node.attr["dtype"].type = 1
    node.attr["shape"].shape.SetInParent()
    graph = graphmill.Graph.from_graph_def(message)
    assert graph.get_tensor_by_name("x:0").shape == shape
