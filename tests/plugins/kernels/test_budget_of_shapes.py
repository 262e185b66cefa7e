"""Kernels check results whose size depends only on shapes against the default memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, memory_budget, ops

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 8 << 20
SIZE = 2_000  # a matrix of so many rows and columns of float32 has twice the bytes of the limit
COLUMN = np.ones((SIZE, 1), np.float32)
IMAGE = np.ones((1, 1, SIZE, 1), np.float32)
RESULTS: dict[str, Callable[[Any], Any]] = {
    "Einsum": lambda x: ops.linalg.einsum([x, x], equation="ab,cd->ac"),
    "MatMul": lambda x: ops.math.mat_mul(x, x, transpose_b=True),
    "Svd": lambda x: ops.linalg.svd(x, full_matrices=True)[1],
    "Qr": lambda x: ops.linalg.qr(x, full_matrices=True)[0],
    "DepthwiseConv2dNative": lambda x: ops.nn.depthwise_conv2d_native(
        ops.array.reshape(x, IMAGE.shape),
        ops.array.reshape(x, [1, 1, 1, SIZE]),
        strides=[1, 1, 1, 1],
        padding="VALID",
    ),
    "SoftmaxCrossEntropyWithLogits": lambda x: ops.nn.softmax_cross_entropy_with_logits(
        x, ops.array.reshape(x, [1, SIZE])
    )[1],
}


def run(make: Callable[[Any], Any], x: Any, dtype: str = "float32") -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        fed = graph.placeholder(dtype, name="x")
        y = make(fed)
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        return session.run(y, {fed: x})


@pytest.fixture
def limited(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory_budget, "default_limit", lambda: LIMIT)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("op", RESULTS)
def test_result_beyond_the_default_budget_is_refused(op: str) -> None:
    with pytest.raises(errors.ResourceExhaustedError, match=f"the limit is {LIMIT}") as caught:
        run(RESULTS[op], COLUMN)
    assert caught.value.op_type == op


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("reduce", [ops.math.sum, ops.math.mean, ops.math.max, ops.math.prod])
def test_sum_over_an_empty_axis_is_refused(reduce: Any) -> None:
    empty = np.zeros((0, SIZE * SIZE), np.float32)
    assert run(lambda x: reduce(x, [1]), empty).shape == (0,)
    with pytest.raises(errors.ResourceExhaustedError, match="16000000 bytes are requested"):
        run(lambda x: reduce(x, [0]), empty)


@pytest.mark.parametrize(
    "op",
    [
        "ScatterNd",
        "ConcatOffset",
        "Tile",
        "Reshape",
        "RandomUniform",
        "TensorListGetItem",
        "EmptyTensorList",
    ],
)
def test_vector_of_more_sizes_than_axes_can_be_is_refused_unread(op: str) -> None:
    sizes = np.broadcast_to(np.int32(1), 1 << 40)  # a constant stores one value for all
    makes: dict[str, Callable[[Any], Any]] = {
        "ScatterNd": lambda x: ops.array.scatter_nd([[0]], [1.0], x),
        "ConcatOffset": lambda x: ops.array.concat_offset(0, [x, x])[0],
        "Tile": lambda x: ops.array.tile([1.0], x),
        "Reshape": lambda x: ops.array.reshape([1.0], x),
        "RandomUniform": lambda x: ops.random.random_uniform(x, dtype="float32"),
        "TensorListGetItem": lambda x: ops.tensor_list.tensor_list_get_item(
            ops.tensor_list.tensor_list_reserve(-1, 1, element_dtype="float32"),
            0,
            x,
            element_dtype="float32",
        ),
        "EmptyTensorList": lambda x: ops.tensor_list.tensor_list_length(
            ops.tensor_list.empty_tensor_list(x, 1, element_dtype="float32")
        ),
    }
    with pytest.raises(errors.InvalidArgumentError, match=r"1099511627776 elements.*at most 254"):
        run(makes[op], sizes, "int32")


def test_sparse_reshape_to_more_sizes_than_axes_can_be_is_refused() -> None:
    indices = np.zeros((1, 1), np.int64)
    with pytest.raises(errors.InvalidArgumentError, match=r"1000000 elements.*at most 254"):
        run(
            lambda x: ops.sparse.sparse_reshape(indices, [1], x)[1],
            np.ones(1_000_000, np.int64),
            "int64",
        )
