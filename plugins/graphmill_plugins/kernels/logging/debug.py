"""Debugger watches: Copy, DebugIdentity, DebugNanCount, DebugNumericSummary.

Semantics: tensorflow/core/kernels/debug_ops.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.spi import kernel
from graphmill.spi.kernels import WatchedTensor, publish

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, OpKernelContext, Value


@kernel("Copy", "CopyHost", make=True)
def copy(xp: ArrayNamespace) -> Any:
    """Return the value without a copy, because values are immutable."""
    del xp
    return lambda value: value


def _publish(
    ctx: OpKernelContext, debug_op: str, tensor_name: str, urls: tuple[str, ...], value: Value
) -> None:
    device = ctx.device
    watched = WatchedTensor(tensor_name, debug_op, device.name, device.to_host(value))
    for url in urls:
        publish(watched, url, ctx.functions.host.debug_callbacks)


@kernel("DebugIdentity", stateful=True, effects={"fs.write", "python"})
def debug_identity(
    ctx: OpKernelContext, value: Value, tensor_name: str, debug_urls: tuple[str, ...]
) -> Value:
    """Publish a value, and return it."""
    _publish(ctx, "DebugIdentity", tensor_name, debug_urls, value)
    return value


@kernel("DebugNanCount", stateful=True, effects={"fs.write", "python"})
def debug_nan_count(
    ctx: OpKernelContext, value: Value, tensor_name: str, debug_urls: tuple[str, ...]
) -> Value:
    """Publish and return the number of NaN elements."""
    count = np.array([np.isnan(_as_float(ctx, value)).sum()], np.int64)
    _publish(ctx, "DebugNanCount", tensor_name, debug_urls, count)
    return count


@kernel("DebugNumericSummary", stateful=True, effects={"fs.write", "python"})
def debug_numeric_summary(
    ctx: OpKernelContext,
    value: Value,
    tensor_name: str,
    debug_urls: tuple[str, ...],
    lower_bound: float,
    upper_bound: float,
    mute_if_healthy: bool,
) -> Value:
    """Publish and return statistics of a value.

    They are: 1 (initialized); counts of all, NaN, -inf or up to the lower bound, negative, zero,
    positive, +inf or from the upper bound elements; minimum, maximum, mean and variance of the
    finite ones; dtype, rank and sizes.
    """
    numbers = _as_float(ctx, value)
    low = np.isneginf(numbers) | (numbers <= lower_bound)
    high = np.isposinf(numbers) | (numbers >= upper_bound)
    nan = np.isnan(numbers)
    finite = numbers[np.isfinite(numbers)]
    inside = ~(low | high | nan)
    summary = [
        1.0,
        numbers.size,
        nan.sum(),
        low.sum(),
        (inside & (numbers < 0)).sum(),
        (inside & (numbers == 0)).sum(),
        (inside & (numbers > 0)).sum(),
        high.sum(),
        finite.min() if finite.size else np.inf,
        finite.max() if finite.size else -np.inf,
        finite.mean() if finite.size else np.nan,
        finite.var() if finite.size else np.nan,
    ]
    is_healthy = not (nan.any() or low.any() or high.any())
    result = np.array(
        [*summary, as_dtype(value.dtype).enum, numbers.ndim, *numbers.shape], np.float64
    )
    if not (mute_if_healthy and is_healthy):
        _publish(ctx, "DebugNumericSummary", tensor_name, debug_urls, result)
    return result


def _as_float(ctx: OpKernelContext, value: Value) -> np.ndarray[Any, Any]:
    array = np.asarray(ctx.device.to_host(value))
    if array.dtype == object:
        return np.zeros(array.shape)  # strings count as zeros
    return array.astype(np.float64) if array.dtype.kind != "c" else np.abs(array)
