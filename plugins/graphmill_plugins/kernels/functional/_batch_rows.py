"""The rows of a batch: check a caller's inputs, and concatenate the inputs of all callers.

Semantics: tensorflow/core/kernels/batching_util/batch_resource_base.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import namespace_of, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Value
    from graphmill_plugins.kernels.functional._batch_scheduler import Batch


def row_count(tensors: Sequence[Value], limit: int, may_be_larger: bool) -> int:
    """Return the number of rows, which is the same for all inputs.

    Raises:
        InvalidArgumentError: the numbers of rows differ or are too large, or an input is a scalar.
    """
    for tensor in tensors:
        if not np.ndim(tensor):
            raise InvalidArgumentError(
                "Batching input tensors must have at least one dimension, got shape "
                f"{shape_text(np.shape(tensor))}"
            )
    sizes = {len(tensor) for tensor in tensors}
    if len(sizes) != 1:
        raise InvalidArgumentError(
            "Batching input tensors of one op invocation must have equal 0th-dimension "
            f"size, got {sorted(sizes)}"
        )
    (rows,) = sizes
    if not rows:
        raise InvalidArgumentError(
            "Invalid zero-sized batch: batching input tensors must have at least one row"
        )
    if rows > limit and not may_be_larger:
        raise InvalidArgumentError(
            f"Task size {rows} is larger than maximum input batch size {limit}"
        )
    return rows


def check_sizes(limit: int, allowed: Sequence[int], may_be_larger: bool) -> None:
    """Raise InvalidArgumentError unless the allowed sizes ascend to the maximum batch size."""
    if not allowed:
        return
    if list(allowed) != sorted(set(allowed)) or allowed[0] < 1:
        raise InvalidArgumentError(
            "allowed_batch_sizes entries must be monotonically increasing and positive, got "
            f"{list(allowed)}"
        )
    if allowed[-1] != limit and not may_be_larger:
        raise InvalidArgumentError(
            "final entry in allowed_batch_sizes must equal max_batch_size when "
            f"enable_large_batch_splitting is False, got {allowed[-1]} and {limit}"
        )


def joined(ctx: OpKernelContext, batch: Batch, padded: int) -> list[Value]:
    """Return the concatenated inputs of all callers, padded with copies of the first row.

    Raises:
        InvalidArgumentError: the rows of different callers have different shapes.
    """
    inputs = []
    for pieces in zip(*(part.inputs for part in batch.parts), strict=True):
        shapes = {np.shape(piece)[1:] for piece in pieces}
        if len(shapes) > 1:
            raise InvalidArgumentError(
                "Dimensions of inputs should match: rows of one batch have the shapes "
                + " and ".join(map(shape_text, sorted(shapes)))
            )
        xp = namespace_of(ctx.xp, pieces[0])
        first = xp.repeat(pieces[0][:1], padded - batch.count, axis=0)
        whole = [*pieces, first] if len(first) else list(pieces)
        inputs.append(whole[0] if len(whole) == 1 else xp.concatenate(whole))
    return inputs
