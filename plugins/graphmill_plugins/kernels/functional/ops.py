"""Kernels that call functions (PartitionedCall, If, Case, While, For), and `_Arg`, `_Retval`.

Semantics: tensorflow/core/kernels/function_ops.cc, functional_ops.cc, partitioned_function_ops.cc.
A function is instantiated once for each node and session; loops around it run in Python. The call
itself waits for no other node (`waits=False`); nodes in the function may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._device_copies import moved, to_device
from graphmill_plugins.kernels._support import check_size, scalar_int

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from graphmill.spi import ArrayNamespace, OpKernelContext, Shape, Value

    Done = Callable[..., None]
    Calls = Generator[tuple[Any, Sequence[Value], int], Any, list[Value]]

# These kernels declare no effects: the nodes of the function declare their own. Calls are
# asynchronous, because a node of the function may wait for another node of the step. Most calls
# complete immediately, in the caller's thread.


def function_handle(ctx: OpKernelContext, key: str, function: Any, executor_type: str = "") -> Any:
    """Return the instantiated `function`; `key` identifies it among the functions of the node."""
    handle = ctx.state.get(key)
    if handle is None:
        handle = ctx.functions.instantiate(
            function.name, function.attrs, executor_type=executor_type
        )
        # Two steps may race to the first call; both handles are valid, and the first one stays.
        handle = ctx.state.setdefault(key, handle)
    return handle


@kernel("PartitionedCall", "StatefulPartitionedCall", async_=True, waits=False)
def partitioned_call(
    ctx: OpKernelContext, args: list[Value], f: Any, executor_type: str, done: Done
) -> None:
    """Call the function `f`, with an executor of its own if an `executor_type` is given."""
    ctx.functions.run_async(function_handle(ctx, "f", f, executor_type), args, ctx, done)


# It reaches the devices of its own session, whose policy applies to the function.
@kernel("RemoteCall", host_memory=("target",), async_=True, waits=False, brokered=True)
def remote_call(ctx: OpKernelContext, target: Value, args: list[Value], f: Any, done: Done) -> None:
    """Call the function `f` on the device `target`; arguments and results are copied."""
    name = target.item()
    text = name.decode() if isinstance(name, bytes) else str(name)
    functions = ctx.functions.on_device(text)
    key = f"f on {text}"
    handle = ctx.state.get(key)
    if handle is None:
        new_handle = functions.instantiate(f.name, f.attrs)
        handle = ctx.state.setdefault(key, new_handle)
    device, function_device = ctx.device, functions.device

    def called(results: Any = None, error: BaseException | None = None) -> None:
        if error is not None:
            done(error=error)
        else:
            done([moved(value, function_device, device) for value in results])

    functions.run_async(
        handle, [moved(value, device, function_device) for value in args], ctx, called
    )


class CallSequence:
    """Runs a generator that yields calls and is sent the results of each.

    A call is (handle, arguments, number of the iteration).

    A call that completes immediately continues in the same Python loop, so a long loop does not
    deepen the stack.
    """

    def __init__(self, ctx: OpKernelContext, calls: Calls, done: Done) -> None:
        self._ctx = ctx
        self._calls = calls
        self._done = done
        self._is_starting = False
        self._results: list[Value] | None = None

    def resume(self, results: list[Value] | None = None) -> None:
        """Send results to the generator, and make its next calls until one blocks."""
        run_async = self._ctx.functions.run_async
        while True:
            try:
                handle, args, number = self._calls.send(results)
            except StopIteration as stop:
                self._done(stop.value)
                return
            self._is_starting, self._results = True, None
            run_async(handle, args, self._ctx, self._called, number)
            self._is_starting = False
            if self._results is None:
                return
            results = self._results

    def _called(
        self, results: list[Value] | None = None, error: BaseException | None = None
    ) -> None:
        if error is not None:
            self._calls.close()
            self._done(error=error)
        elif self._is_starting:
            self._results = results
        else:
            try:
                self.resume(results)
            except errors.OpError as failure:
                self._done(error=failure)


def truth(value: Value) -> bool:
    """Return the truth of a condition: the value of a scalar, else whether the tensor has elements.

    Semantics: tensorflow/core/kernels/functional_ops.cc, ToBool.
    """
    if value.ndim:
        return bool(value.size > 0)
    if value.dtype == object:
        return bool(len(value.item()) > 0)
    return bool(value)


@kernel("ToBool", host=True)
def to_bool(xp: ArrayNamespace, value: Value) -> Value:
    """Return the truth of a condition, as `If` and `While` define it."""
    return xp.bool_(truth(value))


@kernel("If", "StatelessIf", "_If", host_memory=("cond",), async_=True, waits=False)
def if_(
    ctx: OpKernelContext,
    cond: Value,
    values: list[Value],
    then_branch: Any,
    else_branch: Any,
    done: Done,
) -> None:
    """Call one of two functions."""
    key, branch = ("then", then_branch) if truth(cond) else ("else", else_branch)
    ctx.functions.run_async(function_handle(ctx, key, branch), values, ctx, done)


@kernel("Case", "StatelessCase", host_memory=("branch_index",), async_=True, waits=False)
def case(
    ctx: OpKernelContext,
    branch_index: Value,
    values: list[Value],
    branches: tuple[Any, ...],
    done: Done,
) -> None:
    """Call the function at `branch_index`; the last one for an index out of range."""
    index = scalar_int("branch_index", branch_index)
    if not 0 <= index < len(branches):
        index = len(branches) - 1
    ctx.functions.run_async(function_handle(ctx, f"[{index}]", branches[index]), values, ctx, done)


@kernel("While", "StatelessWhile", "_While", async_=True, waits=False)
def while_(ctx: OpKernelContext, values: list[Value], cond: Any, body: Any, done: Done) -> None:
    """Call `body` on its own outputs as long as `cond` of them is true."""
    CallSequence(ctx, _while_calls(ctx, values, cond, body), done).resume()


def _while_calls(ctx: OpKernelContext, values: list[Value], cond: Any, body: Any) -> Calls:
    count = len(values)
    cond_handle, body_handle = (
        function_handle(ctx, "cond", cond),
        function_handle(ctx, "body", body),
    )
    args, number = ctx.args, 0
    while True:
        outputs = yield cond_handle, values, number
        if len(outputs) != 1:
            raise errors.InvalidArgumentError(
                f"Expected a single output from the cond function {cond.name!r} of a While, "
                f"got {len(outputs)}"
            )
        if not truth(ctx.device.to_host(outputs[0])):
            return values
        if args.is_cancelled:
            raise errors.CancelledError("the step was cancelled within a While loop")
        values = yield body_handle, values, number
        if len(values) != count:
            raise errors.InvalidArgumentError(
                f"The body function {body.name!r} of a While returned {len(values)} values, "
                f"expected {count}"
            )
        number += 1


@kernel("For", host_memory=("start", "limit", "delta"), async_=True, waits=False)
def for_(
    ctx: OpKernelContext,
    start: Value,
    limit: Value,
    delta: Value,
    values: list[Value],
    body: Any,
    done: Done,
) -> None:
    """Call `body(i, *values)` on its own outputs for i = start, start + delta, … to limit."""
    names = {"start": start, "limit": limit, "delta": delta}
    first, last, step = (scalar_int(name, value) for name, value in names.items())
    if first < last and step <= 0:
        raise errors.InvalidArgumentError(
            f"If start < limit, delta must be > 0; got {first}, {last}, {step}"
        )
    if first > last and step >= 0:
        raise errors.InvalidArgumentError(
            f"If start > limit, delta must be < 0; got {first}, {last}, {step}"
        )
    indices = range(first, last, step) if first != last else range(0)
    CallSequence(ctx, _for_calls(ctx, indices, values, body), done).resume()


def _for_calls(ctx: OpKernelContext, indices: range, values: list[Value], body: Any) -> Calls:
    handle = function_handle(ctx, "body", body)
    for number, index in enumerate(indices):
        if ctx.args.is_cancelled:
            raise errors.CancelledError("the step was cancelled within a For loop")
        values = yield handle, [to_device(np.int32(index), ctx.device), *values], number
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
    """Return a placeholder for an output that only the other branch computes.

    Its content is never read. An unknown size counts as zero.
    """
    sizes = tuple(max(size, 0) for size in shape or ())
    check_size(sizes, itemsize=dtype.itemsize)
    if dtypes.as_dtype(dtype) is dtypes.string:
        value = np.full(sizes, b"", dtype)
    elif dtype.hasobject:
        value = np.full(sizes, None, dtype)
    else:
        value = xp.zeros(sizes, dtype)
    return lambda: value


@kernel("DeviceIndex", stateful=True)
def device_index(ctx: OpKernelContext, device_names: tuple[str, ...]) -> Value:
    """Return the index of this device's type in `device_names`, or their count."""
    kind = ctx.device.device_type
    index = device_names.index(kind) if kind in device_names else len(device_names)
    return np.int32(index)


@kernel("_ArrayToList")
def array_to_list(
    xp: ArrayNamespace, values: list[Value], out_types: Sequence[np.dtype[Any]]
) -> list[Value]:
    """Return the list: the two forms differ in the types of the graph's edges only."""
    del xp
    return _of_types(values, out_types)


@kernel("_ListToArray")
def list_to_array(xp: ArrayNamespace, values: list[Value], T: np.dtype[Any], N: int) -> list[Value]:
    """Return the list: the two forms differ in the types of the graph's edges only."""
    del xp
    return _of_types(values, [T] * N)


def _of_types(values: list[Value], types: Sequence[np.dtype[Any]]) -> list[Value]:
    actual = [value.dtype for value in values]
    if actual != list(types):
        raise errors.InvalidArgumentError(
            f"expected a list of types {list(map(str, types))}, got {list(map(str, actual))}"
        )
    return values
