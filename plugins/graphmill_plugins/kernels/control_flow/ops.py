"""Kernels of control-flow ops; the executor routes their outputs.

Semantics: tensorflow/core/kernels/no_op.cc, control_flow_ops.cc. An executor passes None to a
`Merge` for each input that has not arrived; a dead output is returned as `DEAD`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import DEAD, kernel
from graphmill.spi.kernels import not_a_scalar

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, OpKernelContext, Value


@kernel("NoOp", "ControlTrigger")
def no_op(xp: ArrayNamespace) -> None:
    """Do nothing."""
    del xp


@kernel("SyncDevice", stateful=True)
def sync_device(ctx: OpKernelContext) -> None:
    """Wait until the device has finished all work that was started before."""
    ctx.device.sync()


@kernel(
    "Enter",
    "RefEnter",
    "Exit",
    "RefExit",
    "NextIteration",
    "RefNextIteration",
    make=True,
)
def forward(xp: ArrayNamespace) -> Any:
    """Forward the input."""
    del xp
    return lambda value: value


@kernel("LoopCond", host_memory=("input", "output"), make=True)
def loop_cond(xp: ArrayNamespace) -> Any:
    """Forward the condition to the executor."""
    del xp
    return lambda value: value


@kernel("Switch", "RefSwitch", host_memory=("pred",), make=True, forwards=True)
def switch(xp: ArrayNamespace) -> Any:
    """Return `data` at output 1 if `pred` is true, else at output 0.

    Raises:
        InvalidArgumentError: `pred` is not a scalar.
    """
    del xp

    true, false = np.True_, np.False_  # singletons, so identity tests suffice

    def route(data: Value, pred: Value) -> tuple[Any, Any]:
        if pred is true:
            return DEAD, data
        if pred is false:
            return data, DEAD
        if pred.ndim:
            raise not_a_scalar(pred)
        return (DEAD, data) if pred else (data, DEAD)

    return route


@kernel("_SwitchN", host_memory=("output_index",), forwards=True)
def switch_n(xp: ArrayNamespace, data: Value, output_index: Value, num_outs: int) -> list[Any]:
    """Return `data` at output `output_index`; an index out of range selects the last output.

    Raises:
        InvalidArgumentError: `output_index` is not a scalar.
    """
    del xp
    if output_index.ndim:
        raise not_a_scalar(output_index)
    index = int(output_index)
    outputs: list[Any] = [DEAD] * num_outs
    outputs[index if 0 <= index < num_outs else num_outs - 1] = data
    return outputs


@kernel("Merge", "RefMerge", host_memory=("value_index",), make=True, forwards=True)
def merge(xp: ArrayNamespace, N: int) -> Any:
    """Return the input that arrived and its index."""
    del xp
    positions = tuple(map(np.int32, range(N)))

    def first_arrived(inputs: list[Any]) -> tuple[Any, Value]:
        for position, value in zip(positions, inputs, strict=True):
            if value is not None:
                return value, position
        raise errors.InternalError("a Merge ran before any of its inputs arrived")

    return first_arrived


@kernel("RefSelect", host=True)
def ref_select(index: Value, inputs: list[Any]) -> Any:
    """Return the reference at `index`."""
    if not 0 <= index < len(inputs):
        raise errors.InvalidArgumentError(
            f"Index must be in the range [0, {len(inputs)}) but got {index}"
        )
    return inputs[int(index)]


@kernel("Abort", host=True)
def abort(error_msg: str, exit_without_error: bool) -> None:
    """Raise AbortedError; TensorFlow would abort the whole process.

    With `exit_without_error`, TensorFlow exits with status 0. Here the step is aborted all the
    same, because nodes after this one must not run.
    """
    kind = "a request to exit without error" if exit_without_error else "intentional failure"
    raise errors.AbortedError(f"Abort_op {kind}; {error_msg}")
