"""BatchFunction: a function of batches, for callers that bring a few rows each.

Semantics: tensorflow/core/kernels/batch_kernels.cc. Each call is a batch of its own: TensorFlow,
too, runs what came within its timeout, and rows do not depend on each other. So nobody waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.typing import Value

    Done = Callable[..., None]


def _rows(tensors: Sequence[Value], most: int, may_be_larger: bool) -> int:
    """Return how many rows all inputs have.

    Raises:
        InvalidArgumentError: they differ, are scalars, or are too many.
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
    if rows > most and not may_be_larger:
        raise InvalidArgumentError(
            f"Task size {rows} is larger than maximum input batch size {most}"
        )
    return rows


def _check_attrs(most: int, allowed: Sequence[int], may_be_larger: bool) -> None:
    """Raise InvalidArgumentError unless allowed sizes ascend to the largest one."""
    if not allowed:
        return
    if list(allowed) != sorted(set(allowed)) or allowed[0] < 1:
        raise InvalidArgumentError(
            "allowed_batch_sizes entries must be monotonically increasing and positive, got "
            f"{list(allowed)}"
        )
    if allowed[-1] != most and not may_be_larger:
        raise InvalidArgumentError(
            "final entry in allowed_batch_sizes must equal max_batch_size when "
            f"enable_large_batch_splitting is False, got {allowed[-1]} and {most}"
        )


@kernel("BatchFunction", async_=True)
def batch_function(
    ctx: OpKernelContext,
    in_tensors: list[Value],
    captured_tensors: list[Value],
    done: Done,
    f: Any,
    max_batch_size: int,
    allowed_batch_sizes: tuple[int, ...],
    enable_large_batch_splitting: bool,
) -> None:
    """Call `f` with the rows, filled up with copies of the first to an allowed number of them."""
    _check_attrs(max_batch_size, allowed_batch_sizes, enable_large_batch_splitting)
    rows = _rows(in_tensors, max_batch_size, enable_large_batch_splitting)
    padded = next((size for size in allowed_batch_sizes if size >= rows), rows)
    xp = ctx.xp if padded > rows else None
    given = [
        tensor
        if xp is None
        else xp.concatenate([tensor, xp.repeat(tensor[:1], padded - rows, axis=0)])
        for tensor in in_tensors
    ]
    handle = ctx.state.get("f")
    if handle is None:
        handle = ctx.state.setdefault("f", ctx.functions.instantiate(f.name, f.attrs))

    def called(results: Any = None, error: BaseException | None = None) -> None:
        if error is not None:
            done(error=error)
            return
        for value in results:
            if not np.ndim(value) or len(value) != padded:
                done(
                    error=FailedPreconditionError(
                        "Batched output tensor's 0th dimension does not equal the sum of the 0th "
                        f"dimension sizes of the input tensors: {shape_text(np.shape(value))} for "
                        f"{padded} rows"
                    )
                )
                return
        done([value[:rows] for value in results])

    ctx.functions.run_async(handle, [*given, *captured_tensors], ctx, called)
