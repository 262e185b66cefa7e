"""Identity-like ops, and ops that create a value from an attr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import ResourceHandle, kernel
from graphmill.spi.protos import ResourceHandleProto
from graphmill_plugins.kernels._support import check_size, checked_shape, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Shape, Value


def _handle(value: Value) -> ResourceHandle:
    """Return the handle in a constant; its resource is looked up only when it is used."""
    if value.ndim:
        raise UnimplementedError(
            f"a constant of type resource must be a scalar, got shape {shape_text(value.shape)}"
        )
    message = ResourceHandleProto.FromString(value.item())
    return ResourceHandle(message.device, message.container, message.name, message.maybe_type_name)


@kernel("Const", make=True)
@kernel("HostConst", make=True, host_memory=("output",))
def const(_xp: ArrayNamespace, value: Value, dtype: np.dtype[Any]) -> Callable[[], Value]:
    """Return the attr's value without a copy; a scalar as a NumPy scalar.

    Raises:
        InvalidArgumentError: the value is not of the node's type.
    """
    if value.dtype != dtype:
        raise InvalidArgumentError(
            f"Type mismatch between value ({dtypes.as_dtype(value.dtype).tf_name}) and dtype "
            f"({dtypes.as_dtype(dtype).tf_name})"
        )
    if dtypes.as_dtype(dtype) is dtypes.resource:
        handle = _handle(value)
        return lambda: handle
    if 0 in value.strides:  # one stored value stands for all elements
        check_size(value.shape, "the constant", itemsize=value.itemsize)
    if value.ndim == 0 and value.dtype.kind != "O":
        value = value[()]  # arithmetic is several times faster than on 0-d arrays
    return lambda: value


@kernel(
    "Identity",
    "Snapshot",
    "StopGradient",
    "PreventGradient",
    "GuaranteeConst",
    "DebugGradientIdentity",
    "DeepCopy",
    "_EagerConst",
    "PlaceholderWithDefault",
    make=True,
    forwards=True,
)
def identity(_xp: ArrayNamespace) -> Callable[[Value], Value]:
    """Return the input itself; values are never changed in place, so no copy is needed."""
    return lambda x: x


@kernel("RefIdentity", "DebugGradientRefIdentity", make=True)
def ref_identity(_xp: ArrayNamespace) -> Callable[[Value], Value]:
    """Return the reference itself."""
    return lambda ref: ref


@kernel("IdentityN", make=True)
def identity_n(_xp: ArrayNamespace) -> Callable[[list[Value]], list[Value]]:
    """Return the inputs themselves."""
    return lambda values: values


@kernel("Placeholder", "PlaceholderV2", stateful=True)
def placeholder(ctx: Any, *, dtype: np.dtype[Any], shape: Shape) -> Value:
    """Raise, because a placeholder runs only if it was not fed.

    Raises:
        InvalidArgumentError: always; names the placeholder, its type and its shape.
    """
    shape_suffix = f" and shape {shape_text(shape)}" if shape else ""
    raise InvalidArgumentError(
        f"You must feed a value for placeholder tensor '{ctx.node_name}' with dtype "
        f"{dtypes.as_dtype(dtype).tf_name}{shape_suffix}"
    )


@kernel("Empty", static=("shape",))
def empty(xp: ArrayNamespace, shape: Value, *, dtype: np.dtype[Any]) -> Value:
    """Make a tensor of zeros (empty strings); contents are unspecified unless `init` is set."""
    sizes = checked_shape(shape)
    check_size(sizes, itemsize=dtype.itemsize)
    if dtype.kind == "O":
        return np.full(sizes, b"", object)
    return xp.zeros(sizes, dtype)
