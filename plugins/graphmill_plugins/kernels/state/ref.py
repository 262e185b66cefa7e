"""Ref variables: VariableV2, Assign, AssignAdd, temporary variables, CountUpTo.

Semantics: tensorflow/core/kernels/variable_ops.cc, assign_op.h, dense_update_ops.cc,
count_up_to_op.cc. The executor dereferences refs for ops that do not declare a ref input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import Ref, kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.state.value import (
    check_same_shape,
    count_up_to,
    initialized,
    keepable,
    resource_key,
)

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value


@kernel("Variable", "VariableV2", stateful=True, effects=("state",))
class VariableKernel:
    """Output the reference of a named variable, created on first use in the device's resources."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._dtype = attrs["dtype"].base_dtype
        self._shape = attrs["shape"]
        self._container, self._name = resource_key(construction, is_shared_by_node_name=True)
        self._node_name = construction.node_name

    def __call__(self, ctx: OpKernelContext) -> Ref:
        """Return the `Ref`; its value is None until an `Assign`."""
        ref = ctx.resources.lookup_or_create(self._container, self._name, Ref, self._make)
        if ref.dtype is not self._dtype:
            raise errors.InternalError(
                f"Output 0 of type {ref.dtype.name}_ref does not match declared output type "
                f"{self._dtype.name}_ref: another node created variable {self._name!r} of another "
                "type; use different shared_name attrs for the two"
            )
        return ref

    def _make(self) -> Ref:
        return Ref(self._dtype, self._shape, self._node_name)


@kernel("Assign", stateful=True, effects=("state",), traces_variables=True)
def assign(ctx: OpKernelContext, ref: Ref, value: Value, validate_shape: bool) -> Ref:
    """Store `value`; with `validate_shape` its shape must be that of the variable."""
    del ctx
    if value is None:
        raise errors.FailedPreconditionError(
            f"Attempting to use uninitialized value: the variable {ref.name!r} is assigned a "
            "variable without a value"
        )
    if validate_shape:
        current = ref.value
        expected = ref.shape if current is None else shape_of_value(current, ref.dtype)
        actual = shape_of_value(value, ref.dtype)
        if not is_compatible(expected, actual):
            raise errors.InvalidArgumentError(
                "Assign requires shapes of both tensors to match. lhs shape= "
                f"{shape_text(expected)} rhs shape= {shape_text(actual)} "
                f"(variable {ref.name!r})"
            )
    stored = keepable(value)
    with ref.lock:
        ref.value = stored
    return ref


def _update(ref: Ref, value: Value, function: Any) -> Ref:
    with ref.lock:
        current = initialized(ref)
        check_same_shape(ref.name, current, value)
        ref.value = function(current, value)
    return ref


@kernel("AssignAdd", stateful=True, effects=("state",), traces_variables=True)
def assign_add(ctx: OpKernelContext, ref: Ref, value: Value) -> Ref:
    """Add `value`, which has the variable's shape."""
    return _update(ref, value, ctx.xp.add)


@kernel("AssignSub", stateful=True, effects=("state",), traces_variables=True)
def assign_sub(ctx: OpKernelContext, ref: Ref, value: Value) -> Ref:
    """Subtract `value`, which has the variable's shape."""
    return _update(ref, value, ctx.xp.subtract)


@kernel("IsVariableInitialized", stateful=True, effects=("state",))
def is_variable_initialized(ctx: OpKernelContext, ref: Ref) -> Value:
    """Return whether the variable has been assigned."""
    del ctx
    return np.bool_(ref.is_initialized)


@kernel("CountUpTo", stateful=True, effects=("state",))
def count_up_to_ref(ctx: OpKernelContext, ref: Ref, limit: int) -> Value:
    """Return the variable's value and add one to it; OutOfRangeError at `limit`."""
    del ctx
    return count_up_to(ref, limit)


def _temporary_name(ctx: OpKernelContext, var_name: str) -> str:
    return var_name or ctx.node_name


@kernel("TemporaryVariable", stateful=True, effects=("state",))
class TemporaryVariableKernel:
    """Create a variable that lives until its DestroyTemporaryVariable or the end of the step."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._dtype = attrs["dtype"].base_dtype
        self._shape = attrs["shape"]
        self._var_name = construction.attr("var_name")
        if self._shape is None or min(self._shape, default=0) < 0:
            raise errors.InvalidArgumentError(
                f"TemporaryVariable needs a fully known shape, got {shape_text(self._shape)}"
            )

    def __call__(self, ctx: OpKernelContext) -> Ref:
        """Return the reference; the content is zeros (TensorFlow leaves it undefined)."""
        name = _temporary_name(ctx, self._var_name)
        check_size(self._shape, "the variable", itemsize=self._dtype.as_numpy_dtype.itemsize)
        ref = Ref(self._dtype, self._shape, name)
        ref.value = np.zeros(self._shape, self._dtype.as_numpy_dtype)
        ctx.resources.create(ctx.step_container, name, ref)
        return ref


@kernel("DestroyTemporaryVariable", stateful=True, effects=("state",))
def destroy_temporary_variable(ctx: OpKernelContext, ref: Ref, var_name: str) -> Value:
    """Remove a temporary variable and return its last value."""
    value = initialized(ref)
    ctx.resources.delete(ctx.step_container, var_name, Ref)
    return value
