"""Ops that call functions: PartitionedCall, If, Case, While, For; and a function's own ends.

Semantics: tensorflow/core/kernels/function_ops.cc, functional_ops.cc, partitioned_function_ops.cc.
A function is instantiated once for each node and session; the loops run in Python around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.runtime.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.typing import ArrayNamespace, Shape, Value

# What a function does is not known here: its own nodes declare their effects.


def _handle(ctx: OpKernelContext, key: str, function: Any) -> Any:
    """Return the instantiated `function` of this node; `key` tells it from the node's others."""
    handle = ctx.state.get(key)
    if handle is None:
        handle = ctx.functions.instantiate(function.name, function.attrs)
        # Two steps may race to the first call; both handles are good and one is kept.
        handle = ctx.state.setdefault(key, handle)
    return handle


def _call(ctx: OpKernelContext, key: str, function: Any, args: Sequence[Value]) -> list[Value]:
    outputs: list[Value] = ctx.functions.run(_handle(ctx, key, function), args, ctx)
    return outputs


@kernel("PartitionedCall", "StatefulPartitionedCall", stateful=True)
def partitioned_call(ctx: OpKernelContext, args: list[Value], f: Any) -> list[Value]:
    """Call the function `f`."""
    return _call(ctx, "f", f, args)


def truth(value: Value) -> bool:
    """Return what a condition means: a scalar itself, a string or tensor by its not being empty.

    Semantics: tensorflow/core/kernels/functional_ops.cc, ToBool.
    """
    if value.ndim:
        return bool(value.size > 0)
    if value.dtype == object:
        return bool(len(value.item()) > 0)
    return bool(value)


@kernel("ToBool", host=True)
def to_bool(xp: ArrayNamespace, value: Value) -> Value:
    """Return whether a condition holds, as `If` and `While` see it."""
    return xp.bool_(truth(value))


@kernel("If", "StatelessIf", "_If", stateful=True)
def if_(
    ctx: OpKernelContext,
    cond: Value,
    values: list[Value],
    then_branch: Any,
    else_branch: Any,
) -> list[Value]:
    """Call one of two functions."""
    if truth(cond):
        return _call(ctx, "then_branch", then_branch, values)
    return _call(ctx, "else_branch", else_branch, values)


@kernel("Case", "StatelessCase", stateful=True)
def case(
    ctx: OpKernelContext,
    branch_index: Value,
    values: list[Value],
    branches: tuple[Any, ...],
) -> list[Value]:
    """Call the function at `branch_index`; the last one for an index out of range."""
    index = int(branch_index)
    if not 0 <= index < len(branches):
        index = len(branches) - 1
    return _call(ctx, f"branches[{index}]", branches[index], values)


@kernel("While", "StatelessWhile", "_While", stateful=True)
def while_(ctx: OpKernelContext, values: list[Value], cond: Any, body: Any) -> list[Value]:
    """Call `body` on its own outputs for as long as `cond` of them holds."""
    count = len(values)
    run = ctx.functions.run
    cond_handle, body_handle = _handle(ctx, "cond", cond), _handle(ctx, "body", body)
    cancellation = ctx.cancellation
    while True:
        outputs = run(cond_handle, values, ctx)
        if len(outputs) != 1:
            raise errors.InvalidArgumentError(
                f"Expected a single output from the cond function {cond.name!r} of a While, "
                f"got {len(outputs)}"
            )
        if not truth(outputs[0]):
            return values
        if cancellation is not None and cancellation.is_cancelled:
            raise errors.CancelledError("the step was cancelled within a While loop")
        values = run(body_handle, values, ctx)
        if len(values) != count:
            raise errors.InvalidArgumentError(
                f"The body function {body.name!r} of a While returned {len(values)} values, "
                f"expected {count}"
            )


@kernel("For", stateful=True)
def for_(
    ctx: OpKernelContext,
    start: Value,
    limit: Value,
    delta: Value,
    values: list[Value],
    body: Any,
) -> list[Value]:
    """Call `body(i, *values)` on its own outputs for i = start, start + delta, … to limit."""
    first, last, step = int(start), int(limit), int(delta)
    if first < last and step <= 0:
        raise errors.InvalidArgumentError(
            f"If start < limit, delta must be > 0; got {first}, {last}, {step}"
        )
    if first > last and step >= 0:
        raise errors.InvalidArgumentError(
            f"If start > limit, delta must be < 0; got {first}, {last}, {step}"
        )
    handle = _handle(ctx, "body", body)
    cancellation = ctx.cancellation
    for index in range(first, last, step) if first != last else ():
        if cancellation is not None and cancellation.is_cancelled:
            raise errors.CancelledError("the step was cancelled within a For loop")
        values = ctx.functions.run(handle, [np.int32(index), *values], ctx)
    return values


@kernel("_Arg", "_DeviceArg", stateful=True)
def arg(ctx: OpKernelContext, index: int) -> Value:
    """Return argument `index` of the running function."""
    return ctx.call_frame.get_arg(index)


@kernel("_Retval", "_DeviceRetval", stateful=True)
def retval(ctx: OpKernelContext, value: Value, index: int) -> None:
    """Set result `index` of the running function."""
    ctx.call_frame.set_retval(index, value)


@kernel("FakeParam", make=True)
def fake_param(xp: ArrayNamespace, dtype: np.dtype[Any], shape: Shape) -> Any:
    """Return a placeholder for an output that the other branch of a conditional makes.

    It is never read. An unknown size counts as zero.
    """
    sizes = tuple(max(size, 0) for size in shape or ())
    if dtypes.as_dtype(dtype) is dtypes.string:
        value = np.full(sizes, b"", dtype)
    elif dtype.hasobject:
        value = np.full(sizes, None, dtype)
    else:
        value = xp.zeros(sizes, dtype)
    return lambda: value


@kernel("DeviceIndex", stateful=True)
def device_index(ctx: OpKernelContext, device_names: tuple[str, ...]) -> Value:
    """Return the place of this device's type in `device_names`, or their number."""
    kind = ctx.device.device_type
    known = device_names.index(kind) if kind in device_names else len(device_names)
    return np.int32(known)


@kernel("_ArrayToList", "_ListToArray")
def pass_list(xp: ArrayNamespace, values: list[Value]) -> list[Value]:
    """Return the list: the two spellings differ in the graph only."""
    del xp
    return values
