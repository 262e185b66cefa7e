"""Resource variables: VarHandleOp, reads, assignments and queries.

Semantics: tensorflow/core/kernels/resource_variable_ops.cc. A `VarHandleOp` finds or creates the
`Variable`, which has no value until the first assignment. All other ops treat a variable without a
value as TensorFlow treats a missing resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import ResourceHandle, Variable, kernel
from graphmill.spi.kernels import has_dtype, shape_of_value
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.state.value import (
    check_same_shape,
    count_up_to,
    keepable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import OpKernelConstruction, OpKernelContext, ResourceMgr, Shape, Value

# TensorFlow's `ResourceHandle::ANONYMOUS_NAME`: eager variables request a private resource with it.
_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


class _HandleMaker:
    """Finds or creates one variable of a device, and its handle.

    The handle is cached until a resource of the device is removed.

    Threads: any may call; two that look up at the same moment get handles of the same variable.
    """

    def __init__(self, container: str, name: str, dtype: dtypes.DType, shape: Shape) -> None:
        self._container = container
        self._name = name
        self._dtype = dtype
        self._shape = shape
        self._cached: tuple[ResourceMgr, int, ResourceHandle] | None = None

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        resources, cached = ctx.resources, self._cached
        generation = resources.generation  # read first, so that a concurrent removal changes it
        if cached is not None and cached[0] is resources and cached[1] == generation:
            return cached[2]
        if self._name == _ANONYMOUS:
            return self._handle(ctx, self._make())
        variable = resources.lookup_or_create(self._container, self._name, Variable, self._make)
        handle = self._handle(ctx, variable)
        self._cached = resources, generation, handle
        return handle

    def _handle(self, ctx: OpKernelContext, variable: Variable) -> ResourceHandle:
        container = self._container or ctx.resources.default_container
        return ResourceHandle(ctx.device.name, container, self._name, "Variable", variable)

    def _make(self) -> Variable:
        return Variable(self._dtype, self._shape, self._name)


@kernel("VarHandleOp", stateful=True, effects=("state",))
class VarHandleKernel:
    """Output the handle of a named variable.

    As in TensorFlow, the name is `shared_name` alone: all nodes with an empty `shared_name` share a
    variable.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._find = _HandleMaker(
            construction.attr("container"),
            construction.attr("shared_name"),
            attrs["dtype"],
            attrs["shape"],
        )

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""
        return self._find(ctx)


@kernel("_VarHandlesOp", stateful=True, effects=("state",))
class VarHandlesKernel:
    """Output the handles of several variables."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        lists = ("containers", "shared_names", "dtypes", "shapes")
        lengths = {name: len(attrs[name]) for name in lists}
        if set(lengths.values()) != {attrs["N"]}:
            raise errors.InvalidArgumentError(
                f"_VarHandlesOp has N={attrs['N']} outputs, which do not fit the lengths of its "
                f"attrs: {lengths}"
            )
        self._finders = [
            _HandleMaker(*row)
            for row in zip(
                construction.attr("containers"),
                construction.attr("shared_names"),
                attrs["dtypes"],
                attrs["shapes"],
                strict=True,
            )
        ]

    def __call__(self, ctx: OpKernelContext) -> list[ResourceHandle]:
        """Return the handles."""
        return [find(ctx) for find in self._finders]


def variable_of(handle: Value) -> Variable:
    """Return the variable that a resource input points to.

    Raises:
        NotFoundError: the variable has no value: not initialized yet, or destroyed.
        InvalidArgumentError: the resource is not a variable.
    """
    variable: Variable = handle.expect(Variable)
    if variable.value is None:
        raise errors.NotFoundError(_missing(handle))
    return variable


def _missing(handle: ResourceHandle) -> str:
    return (
        f"Error while reading resource variable {handle.name} from Container: "
        f"{handle.container}. This could mean that the variable was uninitialized. "
        f"Resource {handle.container}/{handle.name} has no value; run the variables' "
        "initializer or restore a checkpoint first"
    )


def _read(handle: Value, dtype: np.dtype[Any]) -> Value:
    variable: Variable = handle.expect(Variable)
    value = variable.value
    if value is None:
        raise errors.FailedPreconditionError(_missing(handle))
    if getattr(value, "dtype", None) != dtype and not has_dtype(value, dtypes.as_dtype(dtype)):
        raise errors.InvalidArgumentError(
            f"Trying to read variable {handle.name} with wrong dtype. Expected "
            f"{variable.dtype.name} got {dtypes.as_dtype(dtype).name}"
        )
    return value


@kernel("ReadVariableOp", stateful=True, effects=("state",), traces_variables=True)
def read_variable(ctx: OpKernelContext, resource: Value, dtype: np.dtype[Any]) -> Value:
    """Return the value; later assignments do not change it."""
    del ctx
    return _read(resource, dtype)


@kernel("_ReadVariablesOp", stateful=True, effects=("state",))
def read_variables(
    ctx: OpKernelContext,
    resources: list[Value],
    dtypes: tuple[np.dtype[Any], ...],
) -> list[Value]:
    """Return the values of several variables."""
    del ctx
    return [_read(handle, dtype) for handle, dtype in zip(resources, dtypes, strict=True)]


@kernel("AssignVariableOp", stateful=True, effects=("state",), traces_variables=True)
def assign_variable(
    ctx: OpKernelContext,
    resource: Value,
    value: Value,
    dtype: np.dtype[Any],
    validate_shape: bool,
) -> None:
    """Store `value`, which has the variable's dtype; `validate_shape` also requires its shape."""
    del ctx
    variable: Variable = resource.expect(Variable)
    if variable.dtype.as_numpy_dtype != dtype:
        raise errors.InvalidArgumentError(
            f"Trying to assign variable {resource.name} with wrong dtype. Expected "
            f"{variable.dtype.name} got {dtypes.as_dtype(dtype).name}"
        )
    if validate_shape and variable.value is not None:
        expected = shape_of_value(variable.value, variable.dtype)
        actual = shape_of_value(value, variable.dtype)
        if expected != actual:
            raise errors.InvalidArgumentError(
                f"Trying to assign to variable {resource.name} with tensor with wrong shape. "
                f"Expected {shape_text(expected)} got {shape_text(actual)}"
            )
    stored = keepable(value)
    with variable.lock:
        variable.value = stored


def _update(resource: Value, value: Value, function: Callable[[Value, Value], Value]) -> None:
    variable: Variable = resource.expect(Variable)
    with variable.lock:
        current = variable.value
        if current is None:
            raise errors.NotFoundError(_missing(resource))
        check_same_shape(resource.name, current, value)
        variable.value = function(current, value)


@kernel("AssignAddVariableOp", stateful=True, effects=("state",), traces_variables=True)
def assign_add_variable(ctx: OpKernelContext, resource: Value, value: Value) -> None:
    """Add `value`, which has the variable's shape."""
    _update(resource, value, ctx.xp.add)


@kernel("AssignSubVariableOp", stateful=True, effects=("state",), traces_variables=True)
def assign_sub_variable(ctx: OpKernelContext, resource: Value, value: Value) -> None:
    """Subtract `value`, which has the variable's shape."""
    _update(resource, value, ctx.xp.subtract)


@kernel("VarIsInitializedOp", stateful=True, effects=("state",))
def var_is_initialized(ctx: OpKernelContext, resource: Value) -> Value:
    """Return whether the variable exists and has been assigned."""
    del ctx
    current = resource.resource
    return np.bool_(
        current is not None and (not isinstance(current, Variable) or current.is_initialized)
    )


@kernel("VariableShape", stateful=True, effects=("state",), traces_variables=True)
def variable_shape(ctx: OpKernelContext, resource: Value, out_type: np.dtype[Any]) -> Value:
    """Return the shape of the variable's value."""
    del ctx
    variable = variable_of(resource)
    return np.array(shape_of_value(variable.value, variable.dtype), out_type)


@kernel("DestroyResourceOp", stateful=True, effects=("state",))
def destroy_resource(ctx: OpKernelContext, resource: Value, ignore_lookup_error: bool) -> None:
    """Remove a resource; later uses of its handles are errors."""
    current = resource.resource
    is_missing = current is None or (isinstance(current, Variable) and current.value is None)
    if is_missing and not ignore_lookup_error:
        raise errors.NotFoundError(f"Resource {resource.container}/{resource.name} does not exist")
    if current is None:
        return
    kind = Variable if isinstance(current, Variable) else type(current)
    if ctx.resources.find(resource.container, resource.name, kind) is current:
        ctx.resources.delete(resource.container, resource.name, kind)
    if isinstance(current, Variable):
        # Existing handles refer to the variable itself, not to the resource manager.
        with current.lock:
            current.value = None
    resource.resource = None


@kernel("DisableCopyOnRead", stateful=True, effects=("state",))
def disable_copy_on_read(ctx: OpKernelContext, resource: Value) -> None:
    """Do nothing: reads never copy here."""
    del ctx, resource


@kernel("ResourceCountUpTo", stateful=True, effects=("state",))
def resource_count_up_to(
    ctx: OpKernelContext, resource: Value, limit: int, T: np.dtype[Any]
) -> Value:
    """Return the variable's value and add one to it; OutOfRangeError at `limit`."""
    del ctx
    _read(resource, T)  # checks the element type
    return count_up_to(variable_of(resource), limit)
