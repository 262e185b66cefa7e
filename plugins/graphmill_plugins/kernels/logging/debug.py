"""Debugger watches: Copy, DebugIdentity, DebugNanCount, DebugNumericSummary, …V2.

Semantics: tensorflow/core/kernels/debug_ops.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill.spi.kernels import WatchedTensor, publish

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, OpKernelContext, Value
    from graphmill.spi.files import Broker


_EFFECTS: Final = frozenset({"fs.write", "python"})


@kernel("Copy", "CopyHost", make=True)
def copy(xp: ArrayNamespace) -> Any:
    """Return the value without a copy, because values are immutable."""
    del xp
    return lambda value: value


def _publish(
    ctx: OpKernelContext,
    debug_op: str,
    tensor_name: str,
    urls: tuple[str, ...],
    value: Value,
    broker: Broker,
    device_name: str = "",
    dump_name: str = "",
) -> None:
    """Publish a value to each URL; `device_name` and `dump_name` replace the default names."""
    watched = WatchedTensor(
        tensor_name,
        debug_op,
        device_name or ctx.device.name,
        ctx.device.to_host(value),
        dump_name,
        ctx.iteration_name,
    )
    for url in urls:
        publish(watched, url, ctx.functions.host.debug_callbacks, broker)


@kernel("DebugIdentity", stateful=True, effects=_EFFECTS, brokered=True)
def debug_identity(
    ctx: OpKernelContext,
    value: Value,
    tensor_name: str,
    debug_urls: tuple[str, ...],
    *,
    broker: Broker,
) -> Value:
    """Publish a value, and return it."""
    _publish(ctx, "DebugIdentity", tensor_name, debug_urls, value, broker)
    return value


@kernel("DebugIdentityV3", stateful=True, effects=_EFFECTS, brokered=True)
def debug_identity_v3(
    ctx: OpKernelContext,
    value: Value,
    device_name: str,
    tensor_name: str,
    io_of_node: str,
    is_input: bool,
    io_index: int,
    debug_urls: tuple[str, ...],
    *,
    broker: Broker,
) -> Value:
    """Publish a value under the name of a device, which may be another device; return the value.

    With `io_of_node`, its file is named after the input or output of that node.

    Raises:
        InvalidArgumentError: `tensor_name` is not the name of a tensor.
    """
    node, colon, slot = tensor_name.partition(":")
    if not node or (colon and not slot.isdecimal()):
        raise InvalidArgumentError(f'Failed to parse tensor name: "{tensor_name}"')
    dump_name = ""
    if io_of_node:
        side = "in" if is_input else "out"
        file_name = f"{io_of_node.replace('/', '-')}:{side}:{io_index}"
        dump_name = f"node-io-dump/step-{ctx.step_id}/{file_name}"
    watched_name = f"{node}:{slot or 0}"
    _publish(
        ctx, "DebugIdentityV3", watched_name, debug_urls, value, broker, device_name, dump_name
    )
    return value


@kernel("DebugNanCount", stateful=True, effects=_EFFECTS, brokered=True)
def debug_nan_count(
    ctx: OpKernelContext,
    value: Value,
    tensor_name: str,
    debug_urls: tuple[str, ...],
    *,
    broker: Broker,
) -> Value:
    """Publish and return the number of NaN elements."""
    count = np.array([np.isnan(_as_float(ctx, value)).sum()], np.int64)
    _publish(ctx, "DebugNanCount", tensor_name, debug_urls, count, broker)
    return count


@kernel("DebugNumericSummary", stateful=True, effects=_EFFECTS, brokered=True)
def debug_numeric_summary(
    ctx: OpKernelContext,
    value: Value,
    tensor_name: str,
    debug_urls: tuple[str, ...],
    lower_bound: float,
    upper_bound: float,
    mute_if_healthy: bool,
    *,
    broker: Broker,
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
        _publish(ctx, "DebugNumericSummary", tensor_name, debug_urls, result, broker)
    return result


_CURT_HEALTH: Final = 2
_CONCISE_HEALTH: Final = 3
_FULL_HEALTH: Final = 4
_SHAPE: Final = 5
_REDUCE_INF_NAN_THREE_SLOTS: Final = 8
_SHAPE_SLOTS: Final = 6  # a longer shape loses its first sizes


@kernel(
    "DebugNumericSummaryV2",
    types={"T": (*dtypes.REAL, dtypes.bool)},
    host=True,
    effects=_EFFECTS,
    brokered=True,  # nothing is published
)
def debug_numeric_summary_v2(
    value: Value, output_dtype: np.dtype[Any], tensor_debug_mode: int, tensor_id: int
) -> Value:
    """Return the statistics of a value that the `TensorDebugMode` of tfdbg requests.

    All but those of mode 8 begin with the id of the tensor. Nothing is published.
    """
    if tensor_debug_mode != _REDUCE_INF_NAN_THREE_SLOTS:
        _check_tensor_id(tensor_id, output_dtype)
    array = np.asarray(value)
    summary = _NUMERIC_SUMMARIES.get(tensor_debug_mode)
    if summary is None:
        raise UnimplementedError(f"Unimplemented tensor debug mode: {tensor_debug_mode}")
    return np.array(summary(array, tensor_id), output_dtype)


def _check_tensor_id(tensor_id: int, output_dtype: np.dtype[Any]) -> None:
    bits = np.finfo(output_dtype).nmant + 1
    if tensor_id > 1 << bits:
        raise InvalidArgumentError(
            f"DebugNumericSummaryV2Op requires tensor_id to be less than or equal to (2^{bits}). "
            f"Given tensor_id:{tensor_id}"
        )


def _infinities_and_nan(array: np.ndarray[Any, Any]) -> list[int]:
    """Return the number of -inf, inf and NaN elements."""
    counts = np.isneginf, np.isposinf, np.isnan
    numbers = array.astype(np.float64)
    return [int(count(numbers).sum()) for count in counts]


def _curt_health(array: np.ndarray[Any, Any], tensor_id: int) -> list[float]:
    return [tensor_id, any(_infinities_and_nan(array))]


def _concise_health(array: np.ndarray[Any, Any], tensor_id: int) -> list[float]:
    return [tensor_id, array.size, *_infinities_and_nan(array)]


def _full_health(array: np.ndarray[Any, Any], tensor_id: int) -> list[float]:
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    signs = [(finite < 0).sum(), (finite == 0).sum(), (finite > 0).sum()]
    head = [tensor_id, _NO_DEVICE_ID, as_dtype(array.dtype).enum, array.ndim, array.size]
    return [*head, *_infinities_and_nan(array), *signs]


def _shape(array: np.ndarray[Any, Any], tensor_id: int) -> list[float]:
    sizes = array.shape[-_SHAPE_SLOTS:]
    padding = [0] * (_SHAPE_SLOTS - len(sizes))
    return [tensor_id, as_dtype(array.dtype).enum, array.ndim, array.size, *sizes, *padding]


def _three_slots(array: np.ndarray[Any, Any], tensor_id: int) -> list[float]:
    del tensor_id
    found = zip(_infinities_and_nan(array), (-np.inf, np.inf, np.nan), strict=True)
    return [value if count else 0.0 for count, value in found]


_NO_DEVICE_ID: Final = -1
_NUMERIC_SUMMARIES: Final = {
    _CURT_HEALTH: _curt_health,
    _CONCISE_HEALTH: _concise_health,
    _FULL_HEALTH: _full_health,
    _SHAPE: _shape,
    _REDUCE_INF_NAN_THREE_SLOTS: _three_slots,
}


def _as_float(ctx: OpKernelContext, value: Value) -> np.ndarray[Any, Any]:
    array = np.asarray(ctx.device.to_host(value))
    if array.dtype == object:
        return np.zeros(array.shape)  # strings count as zeros
    return array.astype(np.float64) if array.dtype.kind != "c" else np.abs(array)
