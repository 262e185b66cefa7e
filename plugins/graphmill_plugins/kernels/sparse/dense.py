"""Scatter sparse values into a dense tensor: SparseToDense.

Semantics: tensorflow/core/kernels/sparse_to_dense_op.cc, tensorflow/core/util/sparse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_axis_count, check_size, shape_text
from graphmill_plugins.kernels.sparse._sparse import check_bounds, lie_inside, row_text

if TYPE_CHECKING:
    from graphmill.spi import Value


def _as_matrix(indices: Any) -> Any:
    """Return indices as (count, rank): a vector holds positions, a scalar is one position."""
    if indices.ndim > 2:
        raise errors.InvalidArgumentError(
            "sparse_indices should be a scalar, vector, or matrix, got shape "
            f"{shape_text(indices.shape)}"
        )
    return indices if indices.ndim == 2 else indices.reshape(-1, 1)


def check_order(indices: Any, shape: tuple[int, ...]) -> None:
    """Check that rows of `indices` are within `shape`, ascending and unique.

    Raises:
        InvalidArgumentError: a row violates this; the message names the first one.
    """
    check_bounds(indices, shape)
    if len(indices) < 2:
        return
    flat: Any = np.ravel_multi_index(tuple(indices.T), shape)
    steps = flat[1:] - flat[:-1]
    if steps.min() <= 0:
        row = int(np.argmax(steps <= 0)) + 1
        kind = (
            "is repeated"
            if steps[row - 1] == 0
            else "is out of order. Many sparse ops require sorted indices"
        )
        raise errors.InvalidArgumentError(f"indices[{row}] = {row_text(indices[row])} {kind}")


def _check(indices: Any, sizes: Any, values: Any, default: Any) -> tuple[int, ...]:
    if sizes.ndim != 1 or sizes.size != indices.shape[1]:
        raise errors.InvalidArgumentError(
            f"output_shape has incorrect number of elements: {sizes.size} should be: "
            f"{indices.shape[1]}"
        )
    if values.shape not in ((), (len(indices),)):
        raise errors.InvalidArgumentError(
            f"sparse_values has incorrect shape {shape_text(values.shape)}, should be [] or "
            f"[{len(indices)}]"
        )
    if default.ndim != 0:
        raise errors.InvalidArgumentError(
            f"default_value should be a scalar, got shape {shape_text(default.shape)}"
        )
    check_axis_count(sizes, "output_shape")
    shape = tuple(sizes.tolist())
    if min(shape, default=0) < 0:
        raise errors.InvalidArgumentError(f"Dimension {min(shape)} must be >= 0")
    return shape


@kernel("SparseToDense", host=True)
def sparse_to_dense(
    sparse_indices: Value,
    output_shape: Value,
    sparse_values: Value,
    default_value: Value,
    validate_indices: bool,
) -> Value:
    """Return a tensor of the default value with `sparse_values` at the indices.

    A scalar `sparse_values` is stored at all indices.
    """
    indices = _as_matrix(np.asarray(sparse_indices))
    shape = _check(indices, output_shape, sparse_values, default_value)
    if validate_indices:
        check_order(indices, shape)
    elif not lie_inside(indices, shape):
        raise errors.InvalidArgumentError(
            f"Indices are not valid (out of bounds).  Shape: {shape_text(shape)}"
        )
    check_size(shape, itemsize=sparse_values.dtype.itemsize)
    dense = np.empty(shape, sparse_values.dtype)
    dense[...] = default_value
    dense[tuple(indices.T)] = sparse_values
    return dense
