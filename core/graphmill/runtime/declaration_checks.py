"""Hold kernels to what they declare, while they run: part of `GRAPHMILL_VALIDATE=1`.

A kernel without effects is given arrays that it cannot write to, and one with a `check` must raise
the error that is declared where the predicate is false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InternalError
from graphmill.ops.effects import effects_of
from graphmill.runtime.kernel import KernelDef, OpKernelConstruction, bind

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.node import Node
    from graphmill.runtime.kernel import OpKernel
    from graphmill.runtime.lowering import Check


def validated(kernel: OpKernel, node: Node) -> Callable[..., Any]:
    """Return the call of a kernel, checked against what the kernel declares.

    Args:
        kernel: bound to the node.
        node: the node.
    """
    definition, compute = kernel.definition, kernel.compute
    if definition.stateful or node.op_def.calls or not _is_on_host(kernel):
        return compute
    if not effects_of(node.op_def) | definition.effects:
        compute = _with_read_only_inputs(compute, kernel)
    lowering = definition.lowering
    for check in (*definition.checks, *(lowering.checks if lowering is not None else ())):
        if check.error is not None and check.of == "inputs":
            compute = _with_check(compute, check, kernel, node)
    return compute


def _is_on_host(kernel: OpKernel) -> bool:
    return kernel.device is not None and kernel.device.is_host_memory


def _with_read_only_inputs(compute: Callable[..., Any], kernel: OpKernel) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        taken = tuple(map(_read_only, inputs))
        try:
            result = compute(*taken)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise InternalError(
                f"{_named(kernel)} writes to one of its inputs, but declares no effects: other "
                "nodes read the same array. Compute into a new array"
            ) from error
        return next((x for x, given in zip(inputs, taken, strict=True) if given is result), result)

    return call


def _read_only(value: Any) -> Any:
    if type(value) is not np.ndarray or not value.flags.writeable:
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _with_check(
    compute: Callable[..., Any], check: Check, kernel: OpKernel, node: Node
) -> Callable[..., Any]:
    construction = OpKernelConstruction(node.name, node.op_def, node.attrs, None, np)
    holds = bind(KernelDef((node.op,), check.predicate), construction).compute

    def call(*inputs: Any) -> Any:
        result = compute(
            *inputs
        )  # what it raises for the shapes of inputs, the check need not know
        if not holds(*inputs):
            assert check.error is not None
            raise InternalError(
                f"{_named(kernel)} declares check={check.predicate.__qualname__} with "
                f"{check.error.__name__}, but computed a result where the predicate is false. "
                "Raise that error, or declare the check with error=None"
            )
        return result

    return call


def _named(kernel: OpKernel) -> str:
    of = f" of {kernel.owner}" if kernel.owner is not None else ""
    return f"the kernel {kernel.definition.source}{of} for op {kernel.op}"
