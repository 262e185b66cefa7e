"""XlaScatter and XlaSelectAndScatter: scatter with a combining function.

Semantics: the Scatter and SelectAndScatter operations of XLA (openxla.org/xla/operation_semantics).
The message `ScatterDimensionNumbers` of xla/xla_data.proto gives the role of each dimension.
Several updates of one element are combined in order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.xla._computation import combine_at, function_of
from graphmill_plugins.kernels.xla._index_vectors import index_vectors, vector_size
from graphmill_plugins.kernels.xla._message import read_numbers
from graphmill_plugins.kernels.xla._windows import Windows, taps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import FuncAttr, OpKernelContext, Value


class _Dimensions(NamedTuple):
    """The roles of the dimensions of operand, indices and updates."""

    window: list[int]
    inserted: list[int]
    to_operand: list[int]
    index_vector: int
    operand_batch: list[int]
    index_batch: list[int]

    @classmethod
    def parse(cls, message: bytes) -> _Dimensions:
        numbers = read_numbers(message, "ScatterDimensionNumbers", 6)
        window, inserted, to_operand, vector, operand_batch, index_batch = numbers
        start = vector[-1] if vector else 0
        return cls(window, inserted, to_operand, start, operand_batch, index_batch)

    def check(self, shape: Sequence[int], indices: Sequence[int], updates: Sequence[int]) -> None:
        """Raise InvalidArgumentError unless they match the operand, the indices and the updates."""
        rank, absent = len(shape), {*self.inserted, *self.operand_batch}
        vector = vector_size(indices, self.index_vector)
        batch = [size for axis, size in enumerate(indices) if axis != self.index_vector]
        fits = (
            vector == len(self.to_operand) == len(set(self.to_operand))
            and all(axis < rank for axis in (*absent, *self.to_operand))
            and len(absent) == len(self.inserted) + len(self.operand_batch)
            and len(self.window) == rank - len(absent) == len(set(self.window))
            and all(axis < len(updates) for axis in self.window)
            and [n for axis, n in enumerate(updates) if axis not in self.window] == batch
            and len(self.operand_batch) == len(self.index_batch)
            and all(axis < len(indices) and axis != self.index_vector for axis in self.index_batch)
        )
        if not fits:
            raise InvalidArgumentError(
                f"updates of shape {shape_text(updates)} at indices of shape {shape_text(indices)} "
                f"of an operand of shape {shape_text(shape)} do not fit {self}"
            )


@kernel("XlaScatter", stateful=True, effects=())
def xla_scatter(
    ctx: OpKernelContext,
    operand: Value,
    scatter_indices: Value,
    updates: Value,
    update_computation: FuncAttr,
    dimension_numbers: str,
) -> Value:
    """Combine windows of updates with the windows of the operand at the indices.

    A window that is not completely inside the operand is skipped.

    Raises:
        InvalidArgumentError: `dimension_numbers` does not fit the shapes.
    """
    dimensions = _Dimensions.parse(encode(dimension_numbers))
    dimensions.check(operand.shape, scatter_indices.shape, updates.shape)
    starts = index_vectors(np, scatter_indices, dimensions.index_vector)
    batch = starts.shape[:-1]
    absent = {*dimensions.inserted, *dimensions.operand_batch}
    windows = [axis for axis in range(operand.ndim) if axis not in absent]
    window_axes = sorted(dimensions.window)
    sizes = dict(zip(windows, (updates.shape[axis] for axis in window_axes), strict=True))
    indices = np.zeros((*batch, *sizes.values()), np.int64)
    inside = np.ones(batch, np.bool_)
    for axis, full in enumerate(operand.shape):
        start = np.zeros((1,) * len(batch), np.int64)
        if axis in dimensions.to_operand:
            start = starts[..., dimensions.to_operand.index(axis)]
        elif axis in dimensions.operand_batch:
            along = dimensions.index_batch[dimensions.operand_batch.index(axis)]
            along -= along > dimensions.index_vector
            start = np.arange(batch[along]).reshape(
                [-1 if k == along else 1 for k in range(len(batch))]
            )
        inside &= (start >= 0) & (start <= full - sizes.get(axis, 1))
        start = start.reshape((*start.shape, *(1,) * len(windows)))
        if axis in sizes:
            start = start + np.arange(sizes[axis]).reshape(
                [-1 if k == axis else 1 for k in windows]
            )
        indices += start * math.prod(operand.shape[axis + 1 :])
    rest = [axis for axis in range(updates.ndim) if axis not in dimensions.window]
    values = np.transpose(updates, (*rest, *window_axes))
    whole = np.broadcast_to(inside.reshape((*batch, *(1,) * len(windows))), indices.shape)
    flat = np.array(operand).reshape(-1)
    combine_at(flat, indices[whole], values[whole], function_of(ctx, "update", update_computation))
    return flat.reshape(operand.shape)


@kernel("XlaSelectAndScatter", stateful=True, effects=())
def xla_select_and_scatter(
    ctx: OpKernelContext,
    operand: Value,
    window_dimensions: Value,
    window_strides: Value,
    padding: Value,
    source: Value,
    init_value: Value,
    select: FuncAttr,
    scatter: FuncAttr,
) -> Value:
    """Scatter each source element to the selected operand position of its window.

    Raises:
        InvalidArgumentError: the source does not have one element for each window.
    """
    windows = Windows.of(operand.shape, window_dimensions, window_strides, padding)
    if source.shape != windows.shape or np.ndim(init_value):
        raise InvalidArgumentError(
            f"the source has shape {shape_text(source.shape)}, expected {shape_text(windows.shape)}"
            ", one element for each window, and init_value a scalar"
        )
    select_function = function_of(ctx, "select", select)
    flat = operand.reshape(-1)
    chosen, is_chosen = np.zeros(windows.shape, np.int64), np.zeros(windows.shape, np.bool_)
    for tap in taps(windows.window):
        indices, inside = windows.element_indices(tap)
        if inside.any():
            (is_preferred,) = select_function(flat[chosen], flat[indices])
            is_new = inside & ~(is_chosen & is_preferred)
            chosen = np.where(is_new, indices, chosen)
            is_chosen |= inside
    flat_result = np.full(flat.shape, init_value, operand.dtype)
    combine_at(
        flat_result, chosen[is_chosen], source[is_chosen], function_of(ctx, "scatter", scatter)
    )
    return flat_result.reshape(operand.shape)
