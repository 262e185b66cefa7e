"""XlaGather: gather slices at positions given by a tensor.

Semantics: the Gather operation of XLA (openxla.org/xla/operation_semantics). The message
`GatherDimensionNumbers` of xla/xla_data.proto gives the role of each dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import check_size, shape_text, to_ints
from graphmill_plugins.kernels.xla._index_vectors import index_vectors, vector_size
from graphmill_plugins.kernels.xla._message import read_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


class _Dimensions(NamedTuple):
    """The roles of the dimensions of operand, indices and output."""

    offset: list[int]
    collapsed: list[int]
    start_map: list[int]
    operand_batch: list[int]
    index_batch: list[int]
    index_vector: int

    @classmethod
    def parse(cls, message: bytes) -> _Dimensions:
        numbers = read_numbers(message, "GatherDimensionNumbers", 6)
        offset, collapsed, start_map, vector, operand_batch, index_batch = numbers
        return cls(
            offset, collapsed, start_map, operand_batch, index_batch, vector[-1] if vector else 0
        )

    def check(self, shape: Sequence[int], sizes: Sequence[int], indices: Sequence[int]) -> None:
        """Raise InvalidArgumentError unless they match the operand, the slices and the indices."""
        rank, absent = len(shape), {*self.collapsed, *self.operand_batch}
        vector = vector_size(indices, self.index_vector)
        batches = len(indices) - (self.index_vector < len(indices))
        fits = (
            len(sizes) == rank
            and all(0 <= size <= full for size, full in zip(sizes, shape, strict=True))
            and vector == len(self.start_map) == len(set(self.start_map))
            and all(axis < rank for axis in (*absent, *self.start_map))
            and all(sizes[axis] <= 1 for axis in absent)
            and len(absent) == len(self.collapsed) + len(self.operand_batch)
            and len(self.offset) == rank - len(absent) == len(set(self.offset))
            and all(axis < batches + len(self.offset) for axis in self.offset)
            and len(self.operand_batch) == len(self.index_batch)
            and all(axis < len(indices) and axis != self.index_vector for axis in self.index_batch)
        )
        if not fits:
            raise InvalidArgumentError(
                f"slices of {shape_text(sizes)} of an operand of shape {shape_text(shape)} at "
                f"indices of shape {shape_text(indices)} do not fit {self}"
            )


@kernel("XlaGather", static=("slice_sizes",))
def xla_gather(
    xp: ArrayNamespace,
    operand: Value,
    start_indices: Value,
    slice_sizes: Value,
    dimension_numbers: str,
) -> Value:
    """Return slices that begin at the indices, clamped so that slices are within the operand.

    Raises:
        InvalidArgumentError: `dimension_numbers` does not fit the shapes.
    """
    dimensions = _Dimensions.parse(encode(dimension_numbers))
    sizes = to_ints(slice_sizes)
    dimensions.check(operand.shape, sizes, start_indices.shape)
    starts = index_vectors(xp, start_indices, dimensions.index_vector)
    batch = starts.shape[:-1]
    absent = {*dimensions.collapsed, *dimensions.operand_batch}
    window = [axis for axis in range(operand.ndim) if axis not in absent]
    check_size((*batch, *(sizes[axis] for axis in window)), itemsize=operand.dtype.itemsize)
    axis_indices = []
    for axis, size in enumerate(sizes):
        index = xp.zeros((1,) * len(batch), np.int64)
        if axis in dimensions.start_map:
            index = starts[..., dimensions.start_map.index(axis)]
            index = xp.clip(index, 0, operand.shape[axis] - size)
        elif axis in dimensions.operand_batch:
            dim = dimensions.index_batch[dimensions.operand_batch.index(axis)]
            dim -= dim > dimensions.index_vector
            index = np.arange(batch[dim]).reshape(
                [-1 if k == dim else 1 for k in range(len(batch))]
            )
        index = index.reshape((*index.shape, *(1,) * len(window)))
        if axis in window:
            steps = np.arange(size)
            index = index + steps.reshape([-1 if other == axis else 1 for other in window])
        axis_indices.append(index)
    shape = (*batch, *(sizes[axis] for axis in window))
    gathered = xp.broadcast_to(operand[tuple(axis_indices)], shape)
    return xp.moveaxis(gathered, range(len(batch), len(shape)), sorted(dimensions.offset))
