"""Variant objects that can be added, so that gradients of variants can be accumulated.

A variant scalar is passed as the object itself, a variant tensor of more axes as an object array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


@runtime_checkable
class AddableVariant(Protocol):
    """An object that has a zero and a sum, so gradients can be accumulated."""

    def zeros_like(self, xp: ArrayNamespace) -> Any:
        """Return the zero of its kind."""

    def add(self, xp: ArrayNamespace, other: Any) -> Any:
        """Return the sum."""


def addable(value: Any) -> AddableVariant:
    """Return `value` if it can be added.

    Raises:
        InternalError: it cannot.
    """
    if not isinstance(value, AddableVariant):
        raise InternalError(f"variants that hold {value!r} cannot be added or zeroed")
    return value


def mapped(function: Callable[..., Any], *tensors: Value) -> Value:
    """Apply a function to the objects of variant tensors of one shape."""
    if not isinstance(tensors[0], np.ndarray):
        return function(*tensors)
    result = np.empty(tensors[0].shape, object)
    for index in np.ndindex(result.shape):
        result[index] = function(*(tensor[index] for tensor in tensors))
    return result


class TensorVariant:
    """A tensor inside a variant."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Value) -> None:
        self.tensor = tensor

    def __repr__(self) -> str:
        return f"a tensor of shape {list(self.tensor.shape)}"

    def zeros_like(self, xp: ArrayNamespace) -> TensorVariant:
        """Return zeros of the same shape."""
        return TensorVariant(xp.zeros_like(self.tensor))

    def add(self, xp: ArrayNamespace, other: Any) -> TensorVariant:
        """Return the sum of both tensors."""
        if not isinstance(other, TensorVariant):
            raise InvalidArgumentError(f"a tensor cannot be added to {other!r}")
        return TensorVariant(xp.add(self.tensor, other.tensor))
