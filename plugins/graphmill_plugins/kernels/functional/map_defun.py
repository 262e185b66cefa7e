"""MapDefun: call a function on each row of its arguments.

Semantics: tensorflow/core/kernels/data/map_defun_op.cc. The calls are made one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.functional.ops import CallSequence, function_handle
from graphmill_plugins.kernels.unstack import rows, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill_plugins.kernels.functional.ops import Calls, Done


@kernel("MapDefun", async_=True, waits=False)
def map_defun(
    ctx: OpKernelContext,
    arguments: list[Value],
    captured_inputs: list[Value],
    f: Any,
    output_types: Sequence[np.dtype[Any]],
    output_shapes: Sequence[Shape],
    done: Done,
) -> None:
    """Call `f` on each row of the arguments; return its stacked results."""
    types = [dtypes.as_dtype(dtype) for dtype in output_types]
    calls = _map_calls(ctx, _rows_of_all(arguments), captured_inputs, f, types, output_shapes)
    CallSequence(ctx, calls, done).resume()


def _rows_of_all(arguments: Sequence[Value]) -> list[list[Value]]:
    """Return the rows of each argument.

    Raises:
        InvalidArgumentError: an argument is a scalar, or the arguments differ in length.
    """
    counts: list[int] = []
    for index, value in enumerate(arguments):
        if not np.ndim(value):
            raise errors.InvalidArgumentError(
                f"All inputs must have rank at least 1. Input {index} has a rank of 0."
            )
        counts.append(len(value))
        if counts[-1] != counts[0]:
            raise errors.InvalidArgumentError(
                f"All inputs must have the same dimension 0. Input {index} has leading dimension "
                f"{counts[-1]}, while all previous inputs have leading dimension {counts[0]}"
            )
    return [rows(value, dtypes.as_dtype(value.dtype)) for value in arguments]


def _map_calls(
    ctx: OpKernelContext,
    arguments: list[list[Value]],
    captured: list[Value],
    f: Any,
    types: Sequence[dtypes.DType],
    shapes: Sequence[Shape],
) -> Calls:
    handle = function_handle(ctx, "f", f)
    columns: list[list[Value]] = [[] for _ in types]
    shapes = list(shapes)
    for row, args in enumerate(zip(*arguments, strict=True)):
        if ctx.args.is_cancelled:
            raise errors.CancelledError("the step was cancelled within a MapDefun")
        results = yield handle, [*args, *captured], row
        for index, value in enumerate(results):
            actual = shape_of_value(value, types[index])
            if not is_compatible(shapes[index], actual):
                raise errors.InvalidArgumentError(
                    f"Mismatch in function retval shape, {shape_text(actual)}, and expected output "
                    f"shape, {shape_text(shapes[index])}."
                )
            shapes[index] = actual  # all rows have the shape of the first one
            columns[index].append(value)
    return [
        stacked(ctx.xp, values, tuple(max(size, 0) for size in shape or ()), dtype)
        for values, shape, dtype in zip(columns, shapes, types, strict=True)
    ]
