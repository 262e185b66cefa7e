"""Check kernels against their declarations at run time: part of `GRAPHMILL_VALIDATE=1`.

A kernel without effects receives arrays and variables that it cannot write to; one with a `check`
must raise the declared error where the predicate is false; one that does not declare `waits` must
not need another node to end a wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InternalError
from graphmill.ops.definition.effects import effects_of
from graphmill.runtime.checks.wait_checks import with_wait_check
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.op_kernel import OpKernelConstruction, bind
from graphmill.runtime.resources.variables import ResourceHandle, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.node import Node
    from graphmill.runtime.kernels.lowering import Check
    from graphmill.runtime.kernels.op_kernel import OpKernel


def validated(kernel: OpKernel, node: Node) -> Callable[..., Any]:
    """Return a kernel's call, wrapped in checks of the kernel's declaration.

    Args:
        kernel: the kernel of the node.
        node: the node.
    """
    compute = kernel.compute
    if node.op_def.calls:
        return compute  # the nodes of its functions are checked
    if _is_on_host(kernel):
        compute = _with_checks(compute, kernel, node)
    return with_wait_check(compute, kernel, _named(kernel))


def _with_checks(compute: Callable[..., Any], kernel: OpKernel, node: Node) -> Callable[..., Any]:
    """Return the call of a kernel on host memory, checked for writes and against its `check=`."""
    definition = kernel.definition
    if not (definition.async_ or effects_of(node.op_def) | definition.effects):
        compute = _with_read_only_inputs(compute, kernel)
    if definition.stateful:
        return compute  # predicates take no context
    lowering = definition.lowering
    for check in (*definition.checks, *(lowering.checks if lowering is not None else ())):
        if check.error is not None and check.of == "inputs":
            compute = _with_check(compute, check, kernel, node)
    return compute


def _is_on_host(kernel: OpKernel) -> bool:
    return kernel.device is not None and kernel.device.is_host_memory


def _with_read_only_inputs(compute: Callable[..., Any], kernel: OpKernel) -> Callable[..., Any]:
    forwards = kernel.definition.forwards  # other kernels may write through forwarded handles

    def call(*inputs: Any) -> Any:
        taken = tuple(
            one if forwards else _with_read_only_variable(one, kernel)
            for one in map(_read_only, inputs)
        )
        try:
            result = compute(*taken)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise InternalError(
                f"{_named(kernel)} writes to one of its inputs, but declares no effects: other "
                "nodes read the same array. Compute into a new array"
            ) from error
        if type(result) in (tuple, list):
            return type(result)(_original_input(one, inputs, taken) for one in result)
        return _original_input(result, inputs, taken)

    return call


def _original_input(result: Any, inputs: Sequence[Any], taken: Sequence[Any]) -> Any:
    """Return a result, or the original input if the result is an input."""
    return next((x for x, passed in zip(inputs, taken, strict=True) if passed is result), result)


def _read_only(value: Any) -> Any:
    if type(value) is not np.ndarray or not value.flags.writeable:
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _with_read_only_variable(value: Any, kernel: OpKernel) -> Any:
    """Return a read-only form of a variable's handle."""
    from graphmill.runtime.resources.compiler_form import kind_of  # few steps are checked

    if type(value) is not ResourceHandle or kind_of(value.resource) is not Variable:
        return value
    variable = _ReadOnlyVariable(value.resource, kernel)
    return ResourceHandle(value.device, value.container, value.name, value.type_name, variable)


class _ReadOnlyVariable(Variable):
    """A read-only variable, for a kernel without effects."""

    __slots__ = ("_kernel", "_of")

    def __init__(self, of: Variable, kernel: OpKernel) -> None:
        self._of, self._kernel = of, kernel
        self.dtype, self.shape, self.name = of.dtype, of.shape, of.name
        self.compiler_cache, self.lock = of.compiler_cache, of.lock

    @property
    def value(self) -> Any:
        """The variable's value."""
        return _read_only(self._of.value)

    @value.setter
    def value(self, _: Any) -> None:
        raise InternalError(
            f"{_named(self._kernel)} writes to a variable, but declares no effects: "
            'compilers and passes may merge, drop or move its node. Declare effects=["state"]'
        )


def _with_check(
    compute: Callable[..., Any], check: Check, kernel: OpKernel, node: Node
) -> Callable[..., Any]:
    construction = OpKernelConstruction(node.name, node.op_def, node.attrs, None, np)
    holds = bind(KernelDef((node.op,), check.predicate), construction).compute

    def call(*inputs: Any) -> Any:
        # First: the predicate may assume that the kernel has accepted the shapes of its inputs.
        result = compute(*inputs)
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
