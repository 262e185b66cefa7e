"""Helpers for ref and resource variables: keys, checks, read-modify-write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from graphmill import errors
from graphmill.spi.kernels import is_frozen
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, Value, Variable


_CONTAINER = re.compile(r"[A-Za-z0-9.][A-Za-z0-9./-]*")


def node_key(construction: OpKernelConstruction) -> tuple[str, str]:
    """Return (container, name) of a node's resource: `shared_name`, else the node's name.

    For resources whose names TensorFlow does not check: mutexes, summary writers, batches of calls.
    """
    container, shared = (
        construction.attr(name) if name in construction.attrs else ""
        for name in ("container", "shared_name")
    )
    return container, shared or construction.node_name


def resource_key(
    construction: OpKernelConstruction, *, is_shared_by_node_name: bool = False
) -> tuple[str, str]:
    """Return (container, name) of a node's resource, both checked.

    All sessions of a device share a resource with a `shared_name`. A resource without one belongs
    to the node's session alone, unless its op shares it by the name of the node.

    Semantics: `ContainerInfo::Init` of tensorflow/core/framework/resource_mgr.cc.

    Args:
        construction: the construction of the node's kernel.
        is_shared_by_node_name: whether sessions share a resource without a `shared_name`.

    Raises:
        InvalidArgumentError: the shared name begins with an underscore, or the container has other
            characters than letters, digits, dots, dashes and slashes.
    """
    container, name = node_key(construction)
    if container and not _CONTAINER.fullmatch(container):
        raise errors.InvalidArgumentError(
            f"container contains invalid characters: {container!r} on node "
            f"{construction.node_name!r}; it may contain letters, digits and . - /, and must not "
            "begin with - or /"
        )
    if name.startswith("_") and name != construction.node_name:
        raise errors.InvalidArgumentError(
            f"shared_name cannot start with '_': {name!r} on node {construction.node_name!r}"
        )
    if is_shared_by_node_name or construction.attrs.get("shared_name"):
        return container, name
    return construction.private_container, name


def keepable(value: Value) -> Value:
    """Return `value` if nothing else can write to its memory, else a copy.

    NumPy views are copied: their base may be changed later (a fed array), or may be much larger
    than the view. An array that owns its memory was made by a kernel and is never written to again;
    a frozen array (restored from a checkpoint) cannot be written to.
    """
    if isinstance(value, np.ndarray) and not value.flags.owndata and not is_frozen(value):
        return value.copy()
    return value


def initialized(variable: Variable) -> Value:
    """Return the value of a ref variable.

    Raises:
        FailedPreconditionError: the variable has no value yet.
    """
    value = variable.value
    if value is None:
        raise errors.FailedPreconditionError(
            f"Attempting to use uninitialized value {variable.name}; "
            "run the variables' initializer or restore a checkpoint first"
        )
    return value


def check_same_shape(name: str, current: Value, value: Value) -> None:
    """Raise InvalidArgumentError unless an update has the shape of the variable."""
    if current.shape != value.shape:
        raise errors.InvalidArgumentError(
            f"Cannot update variable {name!r} with shape {shape_text(current.shape)} using a "
            f"Tensor with shape {shape_text(value.shape)}, shapes must be equal."
        )


def count_up_to(variable: Variable, limit: int) -> Value:
    """Return the scalar value and add one to it atomically.

    Raises:
        OutOfRangeError: the value has reached `limit`.
        InvalidArgumentError: the variable is not a scalar.
    """
    with variable.lock:
        value = initialized(variable)
        if value.ndim != 0:
            raise errors.InvalidArgumentError(
                f"CountUpTo needs a scalar variable; {variable.name!r} has shape "
                f"{shape_text(value.shape)}"
            )
        if value >= limit:
            raise errors.OutOfRangeError(f"Reached limit of {limit}")
        variable.value = value + value.dtype.type(1)
    return value
