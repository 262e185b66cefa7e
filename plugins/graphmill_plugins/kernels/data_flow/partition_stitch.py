"""DynamicPartition and DynamicStitch: split rows into several tensors, and merge them again.

Semantics: tensorflow/core/kernels/dynamic_partition_op.cc, dynamic_stitch_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


@kernel("DynamicPartition", dynamic_shape=True, host=True)
def dynamic_partition(
    xp: ArrayNamespace, data: Value, partitions: Value, num_partitions: int
) -> list[Value]:
    """Return one tensor per partition, with the rows assigned to it."""
    rank = partitions.ndim
    if data.shape[:rank] != partitions.shape:
        raise InvalidArgumentError(
            "data.shape must start with partitions.shape, got data.shape = "
            f"{shape_text(data.shape)}, partitions.shape = {shape_text(partitions.shape)}"
        )
    numbers = np.asarray(partitions).reshape(-1)
    bad = np.flatnonzero((numbers < 0) | (numbers >= num_partitions))
    if bad.size:
        place = ",".join(map(str, np.unravel_index(bad[0], partitions.shape)))
        raise InvalidArgumentError(
            f"partitions[{place}] = {numbers[bad[0]]} is not in [0, {num_partitions})"
        )
    flat = xp.asarray(data).reshape(numbers.size, *data.shape[rank:])
    return [flat[np.flatnonzero(numbers == number)] for number in range(num_partitions)]


@kernel("DynamicStitch", "ParallelDynamicStitch", dynamic_shape=True, host=True)
def dynamic_stitch(xp: ArrayNamespace, indices: list[Value], data: list[Value]) -> Value:
    """Return the tensor with the rows of `data` at `indices`; the last duplicate wins.

    It is as long as the largest index needs; rows that no index names are zeros.
    """
    rest = _common_rest(indices, data)
    numbers = _checked_numbers(indices)
    length = max((int(part.max()) + 1 for part in numbers if part.size), default=0)
    check_size((length, *rest))
    first = data[0]
    blank = b"" if first.dtype.kind == "O" else 0
    merged = np.full((length, *rest), blank, first.dtype)
    for part, values in zip(numbers, data, strict=True):
        merged[part] = np.asarray(values).reshape(part.size, *rest)
    return merged if xp is np else xp.asarray(merged)


@kernel("DynamicStitch", "ParallelDynamicStitch", backend="jax", static=("indices",))
def stitch_where_known(xp: ArrayNamespace, indices: list[Value], data: list[Value]) -> Value:
    """Stitch while tracing, where the indices are static (shapes of gradients)."""
    rest = _common_rest(indices, data)
    numbers = np.concatenate(_checked_numbers(indices))
    source = np.full(int(numbers.max(initial=-1)) + 1, numbers.size)  # the row of zeros behind all
    source[numbers] = np.arange(numbers.size)
    rows = [
        xp.asarray(values).reshape(part.size, *rest)
        for part, values in zip(indices, data, strict=True)
    ]
    blank = xp.zeros((1, *rest), data[0].dtype)
    return xp.concatenate([*rows, blank])[source]


def _checked_numbers(indices: Sequence[Value]) -> list[Value]:
    """Return the indices as vectors, none of which is negative or needs a size beyond 32 bits."""
    numbers = [np.asarray(part).reshape(-1) for part in indices]
    for position, part in enumerate(numbers):
        if part.size and int(part.min()) < 0:
            raise InvalidArgumentError(
                f"indices[{position}] has the negative index {int(part.min())}"
            )
        if part.size and int(part.max()) + 1 >= 1 << 31:
            raise InvalidArgumentError(
                f"Expected a size of 32 bits; indices[{position}] has the index {int(part.max())}"
            )
    return numbers


def _common_rest(indices: Sequence[Value], data: Sequence[Value]) -> tuple[int, ...]:
    """Return the shape of a row, which all inputs must have."""
    rest: tuple[int, ...] = data[0].shape[indices[0].ndim :]
    for position, (numbers, values) in enumerate(zip(indices, data, strict=True)):
        if values.shape[: numbers.ndim] != numbers.shape:
            raise InvalidArgumentError(
                f"data[{position}].shape = {shape_text(values.shape)} does not start with "
                f"indices[{position}].shape = {shape_text(numbers.shape)}"
            )
        if values.shape[numbers.ndim :] != rest:
            raise InvalidArgumentError(
                f"Need data[0].shape[{indices[0].ndim}:] = data[{position}].shape"
                f"[{numbers.ndim}:], got data[0].shape = {shape_text(data[0].shape)}, "
                f"data[{position}].shape = {shape_text(values.shape)}"
            )
    return rest
