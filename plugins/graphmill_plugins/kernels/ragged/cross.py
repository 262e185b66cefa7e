"""RaggedCross: cross the features of ragged, sparse and dense columns row by row.

Semantics: tensorflow/core/kernels/ragged_cross_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.ragged._ragged import check_splits, splits_of
from graphmill_plugins.kernels.sparse.cross import (
    Column,
    crossed,
    crossed_hashes,
    crossed_texts,
    dense_column,
    sparse_column,
)

if TYPE_CHECKING:
    from graphmill.spi import Value


def _ragged_column(values: Value, splits: Value) -> Column:
    if values.ndim != 1:
        raise InvalidArgumentError(f"ragged values must be a vector, got rank {values.ndim}")
    check_splits(splits, len(values))
    rows = np.arange(len(splits) - 1)
    return Column(len(rows), rows, splits[:-1], splits[1:] - splits[:-1], values)


@kernel("RaggedCross", host=True)
def ragged_cross(
    ragged_values: list[Value],
    ragged_row_splits: list[Value],
    sparse_indices: list[Value],
    sparse_values: list[Value],
    sparse_shape: list[Value],
    dense_inputs: list[Value],
    input_order: str,
    num_buckets: int,
    hash_key: int,
    out_values_type: np.dtype[Any],
    out_row_splits_type: np.dtype[Any],
) -> tuple[Value, Value]:
    """Cross columns in the given order (R, S, D), and return joined strings or hashes.

    As in TensorFlow, `out_values_type` selects which; the attr `hashed_output` has no effect.
    """
    kinds = {
        "R": iter(
            [_ragged_column(*pair) for pair in zip(ragged_values, ragged_row_splits, strict=True)]
        ),
        "S": iter(
            [
                sparse_column(*parts, f"sparse input {index}")
                for index, parts in enumerate(
                    zip(sparse_indices, sparse_values, sparse_shape, strict=True)
                )
            ]
        ),
        "D": iter([dense_column(tensor, index) for index, tensor in enumerate(dense_inputs)]),
    }
    total = len(ragged_values) + len(sparse_values) + len(dense_inputs)
    if len(input_order) != total or set(input_order) - kinds.keys():
        raise InvalidArgumentError(
            f"input_order {input_order!r} must name each of the {total} inputs by R, S or D"
        )
    columns = [next(kinds[kind], None) for kind in input_order]
    rows = [column for column in columns if column is not None]
    if len(rows) != total or not rows:
        raise InvalidArgumentError(f"input_order {input_order!r} does not fit the inputs")
    count, filled, lengths, picks = crossed(rows)
    check_size((count + 1,), "the row splits")
    row_lengths = np.zeros(count, np.int64)
    row_lengths[filled] = lengths
    splits = splits_of(row_lengths, out_row_splits_type)
    if out_values_type.kind != "O":
        return crossed_hashes(rows, picks, hash_key, num_buckets), splits
    return crossed_texts(rows, picks, b"_X_"), splits
