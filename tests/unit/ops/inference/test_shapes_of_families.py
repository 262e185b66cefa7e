"""Static shapes of ops of sparse tensors, tensor lists, strings and others, as TensorFlow's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

if TYPE_CHECKING:
    from collections.abc import Callable

CASES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "SparseToDense": (lambda g: ops.sparse.sparse_to_dense([[0]], [4], [1.0], 0.0), [(4,)]),
    "SparseAdd": (
        lambda g: ops.sparse.sparse_add([[0, 1]], [1.0], [2, 2], [[0, 0]], [2.0], [2, 2], 0.0),
        [(None, 2), (None,), (2,)],
    ),
    "SparseConcat": (
        lambda g: ops.sparse.sparse_concat(
            [[[0, 1]], [[0, 0], [1, 1]]], [[1.0], [2.0, 3.0]], [[2, 2], [2, 2]], concat_dim=0
        ),
        [(3, 2), (3,), (2,)],
    ),
    "SparseReduceSum": (
        lambda g: ops.sparse.sparse_reduce_sum([[0, 1]], [1.0], [2, 3], [1]),
        [(2,)],
    ),
    "SparseReduceMax": (
        lambda g: ops.sparse.sparse_reduce_max([[0, 1]], [1.0], [2, 3], [-1], keep_dims=True),
        [(2, 1)],
    ),
    "TensorListStack": (
        lambda g: ops.tensor_list.tensor_list_stack(
            ops.tensor_list.tensor_list_reserve([2], 3, element_dtype="float32"),
            [2],
            element_dtype="float32",
        ),
        [(None, 2)],
    ),
    "TensorListLength": (
        lambda g: ops.tensor_list.tensor_list_length(
            ops.tensor_list.tensor_list_from_tensor([1.0], np.zeros(0, np.int32))
        ),
        [()],
    ),
    "StringSplitV2": (
        lambda g: ops.string.string_split_v2(["a b"], " "),
        [(None, 2), (None,), (2,)],
    ),
    "Substr": (lambda g: ops.string.substr(["ab", "cd"], 0, 1), [(2,)]),
    "UnicodeDecode": (
        lambda g: ops.string.unicode_decode(["a", "b"], input_encoding="UTF-8"),
        [(3,), (None,)],
    ),
    "StringToNumber": (lambda g: ops.parsing.string_to_number([["1"]]), [(1, 1)]),
    "DecodeRaw": (lambda g: ops.parsing.decode_raw(["ab"], out_type="uint8"), [(1, None)]),
    "BroadcastArgs": (lambda g: ops.array.broadcast_args([2, 1], [3]), [(2,)]),
    "ListDiff": (lambda g: ops.array.list_diff([1, 2], [2]), [(None,), (None,)]),
    "LowerBound": (lambda g: ops.array.lower_bound([[1, 2]], [[1, 1, 1]]), [(1, 3)]),
    "DenseBincount": (
        lambda g: ops.math.dense_bincount([[1, 2]], 4, g.placeholder("float32")),
        [(1, 4)],
    ),
    "Bincount": (lambda g: ops.math.bincount([1, 2], 4, g.placeholder("float32")), [(4,)]),
    "FakeQuantWithMinMaxArgs": (
        lambda g: ops.quantized.fake_quant_with_min_max_args([[1.0]]),
        [(1, 1)],
    ),
}


def test_shapes_of_tensor_arrays_are_inferred() -> None:
    arrays = ops.tensor_array
    with graphmill.Graph().as_default():
        made = arrays.tensor_array_v3(2, dtype="float32", element_shape=[2])
        flow = arrays.tensor_array_write_v3(made.handle, 0, [1.0, 2.0], made.flow)
        size = arrays.tensor_array_size_v3(made.handle, flow)
        rows = arrays.tensor_array_gather_v3(
            made.handle, [0], flow, dtype="float32", element_shape=[2]
        )
    assert (made.flow.shape, flow.shape, size.shape, rows.shape) == ((), (), (), (1, 2))


@pytest.mark.parametrize("op", CASES)
def test_shapes_are_inferred(op: str) -> None:
    build, expected = CASES[op]
    with graphmill.Graph().as_default() as graph:
        build(graph)
        (node,) = (node for node in graph if node.op == op)
        assert [tensor.shape for tensor in node.outputs] == expected


def test_product_with_a_sparse_matrix_of_wrong_size_is_refused() -> None:
    product = ops.sparse.sparse_tensor_dense_mat_mul
    with graphmill.Graph().as_default() as graph:
        b = graph.placeholder("float32", [2, 5])
        assert product([[0, 1]], [1.0], [2, 3], b, adjoint_a=True).shape == (3, 5)
        with pytest.raises(errors.InvalidArgumentError, match="must be equal, but are 3 and 2"):
            _ = product([[0, 1]], [1.0], [2, 3], b).shape


def test_index_of_the_largest_of_at_most_one_axis_is_a_scalar() -> None:
    with graphmill.Graph().as_default() as graph:
        assert ops.math.arg_max(graph.placeholder("float32", []), -1).shape == ()
        assert ops.math.arg_max(graph.placeholder("float32", [3]), 5).shape == ()
        with pytest.raises(errors.InvalidArgumentError, match="axis 5 is out of range"):
            ops.math.arg_max(graph.placeholder("float32", [3, 2]), 5)


@pytest.mark.parametrize(
    ("op", "matrix", "rhs", "expected"),
    [
        ("MatrixSolve", (None, 3, 3), (2, 3, 1), (2, 3, 1)),
        ("MatrixSolve", (2, 3, 3), None, (2, 3, None)),
        ("MatrixSolve", None, (2, 3, 1), (2, 3, 1)),
        ("MatrixSolveLs", (2, 3, 4), (2, 3, 1), (2, 4, 1)),
        ("MatrixSolveLs", None, (2, 3, 1), (2, None, 1)),
        ("MatrixTriangularSolve", (3, 3), (2, 3, 1), (2, 3, 1)),
        ("MatrixTriangularSolve", (2, 3, 3), None, None),
    ],
)
def test_shapes_of_solutions_are_inferred(op: str, matrix: Any, rhs: Any, expected: Any) -> None:
    assert _solved(op, matrix, rhs).dims == expected


@pytest.mark.parametrize(
    ("op", "matrix", "rhs"),
    [
        ("MatrixSolve", (2, 3, 3), (4, 3, 1)),
        ("MatrixSolve", (3, 3), (2, 3, 1)),
        ("MatrixSolve", (2, 3, 4), (2, 3, 1)),
        ("MatrixSolveLs", (1, 3, 3), (2, 3, 1)),
        ("MatrixSolveLs", (3, 3), (3,)),
        ("MatrixTriangularSolve", (2, 3, 3), (4, 3, 1)),
    ],
)
def test_equations_of_shapes_that_do_not_fit_are_refused(op: str, matrix: Any, rhs: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=op):
        _solved(op, matrix, rhs)


def _solved(op: str, matrix: Any, rhs: Any) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        inputs = [graph.placeholder("float32", matrix), graph.placeholder("float32", rhs)]
        if op == "MatrixSolveLs":
            return ops.linalg.matrix_solve_ls(*inputs, 0.0).shape
        solve = {
            "MatrixSolve": ops.linalg.matrix_solve,
            "MatrixTriangularSolve": ops.linalg.matrix_triangular_solve,
        }[op]
        return solve(*inputs).shape
