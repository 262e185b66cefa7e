"""Stack kernels: v1 loops push in the forward pass and pop in the backward pass.

Semantics: tensorflow/core/kernels/stack.cc. A stack lives as long as its step. The handle of the
v1 ops is a reference to two strings instead of a resource.
"""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Any

from graphmill import dtypes, errors
from graphmill.spi import Ref, ResourceHandle, kernel
from graphmill_plugins.kernels._strings import string_array

if TYPE_CHECKING:
    import numpy as np

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_STATE = ("state",)
_CONTAINER = "_stacks"
_ids = count()


class Stack:
    """A stack of tensors.

    Threads: `_lock` guards the elements.

    Attributes:
        name: for messages.
        dtype: element type of the tensors.
        max_size: the maximum number of elements; negative for no limit.
    """

    def __init__(self, name: str, dtype: dtypes.DType, max_size: int) -> None:
        self._lock = threading.Lock()
        self._elements: list[Value] | None = []
        self.name = name
        self.dtype = dtype
        self.max_size = max_size

    def push(self, value: Value) -> None:
        """Push a tensor.

        Raises:
            InvalidArgumentError: the stack is full or closed.
        """
        with self._lock:
            elements = self._open()
            if 0 <= self.max_size <= len(elements):
                raise errors.InvalidArgumentError(
                    f"Stack[{self.name}] overflowed its max_size ({self.max_size})"
                )
            elements.append(value)

    def pop(self) -> Value:
        """Remove and return the tensor pushed last.

        Raises:
            InvalidArgumentError: the stack is empty or closed.
        """
        with self._lock:
            elements = self._open()
            if not elements:
                raise errors.InvalidArgumentError(
                    f"Stack[{self.name}] is empty when calling Pop()."
                )
            return elements.pop()

    def close(self) -> None:
        """Drop all elements and make the stack unusable."""
        with self._lock:
            self._elements = None

    def _open(self) -> list[Value]:
        if self._elements is None:
            raise errors.InvalidArgumentError(f"Stack[{self.name}] has already been closed.")
        return self._elements


def stack_of(ctx: OpKernelContext, handle: Any) -> Stack:
    """Return the stack of a handle of either kind.

    Raises:
        NotFoundError: there is none of that name in this step.
        InvalidArgumentError: the handle is not that of a stack.
    """
    if type(handle) is ResourceHandle:
        stack: Stack = handle.expect(Stack)
        return stack
    names = handle.read() if isinstance(handle, Ref) else handle
    if names.size != 2:
        raise errors.InvalidArgumentError(
            f"Stack handle must have two elements, but had shape: {names.shape}"
        )
    name = "".join(part.decode() for part in names.ravel().tolist())
    return ctx.resources.lookup(ctx.step_container, name, Stack)


@kernel("Stack", "StackV2", stateful=True, effects=_STATE)
class StackKernel:
    """Create a stack that lives as long as the step."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._is_reference = construction.op_def.output_args[0].is_ref
        self._dtype: dtypes.DType = construction.attrs["elem_type"]
        self._name = construction.attr("stack_name") or construction.node_name

    def __call__(self, ctx: OpKernelContext, max_size: Any = None) -> Any:
        """Return the handle."""
        if max_size is not None and max_size.ndim:
            raise errors.InvalidArgumentError(
                f"Stack size must be a scalar, but had shape: {max_size.shape}"
            )
        name = f"{self._name}_{next(_ids)}"
        stack = Stack(name, self._dtype, -1 if max_size is None else int(max_size))
        container = ctx.step_container
        ctx.resources.create(container, _CONTAINER + name, stack)
        if not self._is_reference:
            return ResourceHandle(ctx.device.name, container, _CONTAINER + name, "Stack", stack)
        ref = Ref(dtypes.string, (2,), name)
        ref.value = string_array([_CONTAINER.encode(), name.encode()])
        return ref


@kernel("StackPush", "StackPushV2", stateful=True, effects=_STATE)
class StackPushKernel:
    """Push a tensor onto a stack, and return it."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._dtype: dtypes.DType = construction.attrs["T"]

    def __call__(self, ctx: OpKernelContext, handle: Any, elem: Value) -> Value:
        """Return the tensor."""
        stack = stack_of(ctx, handle)
        if stack.dtype is not self._dtype:
            raise errors.InvalidArgumentError(
                f"Must have type {stack.dtype.name} but got {self._dtype.name}"
            )
        stack.push(elem)
        return elem


@kernel("StackPop", "StackPopV2", stateful=True, effects=_STATE)
def stack_pop(ctx: OpKernelContext, handle: Any, elem_type: np.dtype[Any]) -> Value:
    """Pop a tensor from a stack, without a copy."""
    stack = stack_of(ctx, handle)
    if stack.dtype.as_numpy_dtype != elem_type:
        raise errors.InvalidArgumentError(
            f"Must have type {stack.dtype.name} but got {dtypes.as_dtype(elem_type).name}"
        )
    return stack.pop()


@kernel("StackClose", "StackCloseV2", stateful=True, effects=_STATE)
def stack_close(ctx: OpKernelContext, handle: Any) -> None:
    """Close a stack; later uses fail."""
    stack_of(ctx, handle).close()
