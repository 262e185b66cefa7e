"""DynamicPartition and DynamicStitch: split rows into several tensors, and merge them again.

Semantics: tensorflow/core/kernels/dynamic_partition_op.cc, dynamic_stitch_op.cc.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import INT32_MAX, check_size, shape_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.spi import ArrayNamespace, Value


_FEW: Final = 64
"""The number of rows, and of partitions, up to which Python sorts faster than NumPy."""
_SORTED: Final = 4096
"""The number of rows up to which sorting them is faster than a search for each partition."""
_FEW_INDICES: Final = 256
"""The number of indices up to which it is faster to stitch all inputs at once."""


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
    targets = np.asarray(partitions).reshape(-1)
    flat = xp.asarray(data).reshape(targets.size, *data.shape[rank:])
    if xp is np and 0 < targets.size <= _FEW and num_partitions <= _FEW:
        numbers = targets.tolist()
        if min(numbers) >= 0 and max(numbers) < num_partitions:
            return _partitions_of_few(flat, numbers, num_partitions)
    bad = np.flatnonzero((targets < 0) | (targets >= num_partitions))
    if bad.size:
        position = ",".join(map(str, np.unravel_index(bad[0], partitions.shape)))
        raise InvalidArgumentError(
            f"partitions[{position}] = {targets[bad[0]]} is not in [0, {num_partitions})"
        )
    if xp is np and targets.size <= _SORTED and 2 < num_partitions < 1 << 15:
        return _sorted_partitions(flat, targets, num_partitions)
    return [flat[np.flatnonzero(targets == number)] for number in range(num_partitions)]


def _partitions_of_few(rows: Value, targets: list[int], count: int) -> list[Value]:
    order = sorted(range(len(targets)), key=targets.__getitem__)  # keeps the order of equal ones
    return _consecutive(rows[order], map(targets.count, range(count)))


def _sorted_partitions(rows: Value, targets: Value, count: int) -> list[Value]:
    # NumPy sorts 16-bit integers with a radix sort, which is faster.
    order = np.argsort(targets.astype(np.int16), kind="stable")
    return _consecutive(rows[order], np.bincount(targets, minlength=count).tolist())


def _consecutive(rows: Value, sizes: Iterable[int]) -> list[Value]:
    """Return parts of these sizes, one after the other."""
    return [rows[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]


@kernel("DynamicStitch", "ParallelDynamicStitch", dynamic_shape=True, host=True)
def dynamic_stitch(xp: ArrayNamespace, indices: list[Value], data: list[Value]) -> Value:
    """Return the tensor with the rows of `data` at `indices`; the last duplicate wins.

    Its first size is the largest index plus one; rows without an index are zeros.
    """
    row_shape = _row_shape(indices, data)
    if xp is np and len(indices) > 1 and sum(part.size for part in indices) <= _FEW_INDICES:
        indices, data = _as_one_input(indices, data, row_shape)
    row_indices = _checked_indices(indices)
    length = max((int(part.max()) + 1 for part in row_indices if part.size), default=0)
    check_size((length, *row_shape))
    first = data[0]
    blank = b"" if first.dtype.kind == "O" else 0
    merged = np.full((length, *row_shape), blank, first.dtype)
    for part, values in zip(row_indices, data, strict=True):
        merged[part] = np.asarray(values).reshape(part.size, *row_shape)
    return merged if xp is np else xp.asarray(merged)


def _as_one_input(
    indices: list[Value], data: list[Value], row_shape: tuple[int, ...]
) -> tuple[list[Value], list[Value]]:
    """Return few inputs joined to one; unchanged if an index is out of range."""
    joined: Value = np.concatenate([part.reshape(-1) for part in indices])
    if not joined.size or joined.min() < 0 or joined.max() >= INT32_MAX:
        return indices, data
    rows = [
        np.asarray(values).reshape(part.size, *row_shape)
        for part, values in zip(indices, data, strict=True)
    ]
    return [joined], [np.concatenate(rows)]


@kernel("DynamicStitch", "ParallelDynamicStitch", backend="jax", static=("indices",))
def stitch_static_indices(xp: ArrayNamespace, indices: list[Value], data: list[Value]) -> Value:
    """Stitch while tracing, where the indices are static (shapes of gradients)."""
    row_shape = _row_shape(indices, data)
    row_indices = np.concatenate(_checked_indices(indices))
    row_of_zeros = row_indices.size  # behind the rows of all inputs
    source = np.full(int(row_indices.max(initial=-1)) + 1, row_of_zeros)
    source[row_indices] = np.arange(row_indices.size)
    rows = [
        xp.asarray(values).reshape(part.size, *row_shape)
        for part, values in zip(indices, data, strict=True)
    ]
    blank = xp.zeros((1, *row_shape), data[0].dtype)
    return xp.concatenate([*rows, blank])[source]


def _checked_indices(indices: Sequence[Value]) -> list[Value]:
    """Return the indices as vectors, checked to be non-negative and below 2**31 - 1."""
    row_indices = [np.asarray(part).reshape(-1) for part in indices]
    for position, part in enumerate(row_indices):
        if part.size and int(part.min()) < 0:
            raise InvalidArgumentError(
                f"indices[{position}] has the negative index {int(part.min())}"
            )
        if part.size and int(part.max()) + 1 >= 1 << 31:
            raise InvalidArgumentError(
                f"indices[{position}] has the index {int(part.max())}, expected less than 2**31 - 1"
            )
    return row_indices


def _row_shape(indices: Sequence[Value], data: Sequence[Value]) -> tuple[int, ...]:
    """Return the common shape of the rows of all inputs."""
    row_shape: tuple[int, ...] = data[0].shape[indices[0].ndim :]
    for position, (row_indices, values) in enumerate(zip(indices, data, strict=True)):
        if values.shape[: row_indices.ndim] != row_indices.shape:
            raise InvalidArgumentError(
                f"data[{position}].shape = {shape_text(values.shape)} does not start with "
                f"indices[{position}].shape = {shape_text(row_indices.shape)}"
            )
        if values.shape[row_indices.ndim :] != row_shape:
            raise InvalidArgumentError(
                f"Need data[0].shape[{indices[0].ndim}:] = data[{position}].shape"
                f"[{row_indices.ndim}:], got data[0].shape = {shape_text(data[0].shape)}, "
                f"data[{position}].shape = {shape_text(values.shape)}"
            )
    return row_shape
