"""CSR matrices can be added, so that gradients accumulate; TensorFlow has no kernel for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels.sparse._csr_matrix import from_indices

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = np.array([[0, 1], [1, 0]])
SECOND = np.array([[0, 1], [1, 1]])


def matrix(indices: Any, values: Any, shape: tuple[int, ...] = (2, 2)) -> Any:
    return from_indices(shape, indices, np.array(values, np.float32))


def dense(call: Callable[..., Any], value: Any) -> Any:
    return call("CSRSparseMatrixToDense", value, type=np.float32).tolist()


@pytest.mark.jax
def test_a_sum_has_the_positions_of_both(call: Callable[..., Any]) -> None:
    total = call("AddN", [matrix(FIRST, [1, 2]), matrix(SECOND, [3, 4])])
    assert dense(call, total) == [[0, 4], [2, 4]]


def test_zeros_keep_the_positions(call: Callable[..., Any]) -> None:
    zeros = call("ZerosLike", matrix(FIRST, [1, 2]))
    assert zeros.values.tolist() == [0, 0]
    assert zeros.indices().tolist() == FIRST.tolist()


@pytest.mark.parametrize(
    "other",
    [
        matrix(FIRST, [1, 2], (2, 3)),
        from_indices((2, 2), FIRST, np.array([1.0, 2.0])),
    ],
    ids=["shape", "type"],
)
def test_matrices_that_differ_cannot_be_added(call: Callable[..., Any], other: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        call("AddN", [matrix(FIRST, [1, 2]), other])


def test_more_rows_than_32_bits_can_count_are_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="32 bits"):
        from_indices((2**31, 1), np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
