"""`Optional`: a variant that holds an element or nothing.

Semantics: tensorflow/core/kernels/data/optional_ops.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._variant import addable, mapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


class Optional:
    """An element or nothing, as a scalar of dtype variant.

    Attributes:
        values: the components, or None.
        types: their element types.
    """

    __slots__ = ("types", "values")

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(
        self, values: tuple[Value, ...] | None = None, types: Sequence[dtypes.DType] = ()
    ) -> None:
        self.values = values
        self.types = tuple(types)

    def item(self) -> Optional:
        """Return the optional itself, as a scalar array returns its element."""
        return self

    def zeros_like(self, xp: ArrayNamespace) -> Optional:
        """Return an optional of zeros, or the empty one."""
        if self.values is None:
            return self
        pairs = zip(self.values, self.types, strict=True)
        return Optional(tuple(_zeros(xp, value, dtype) for value, dtype in pairs), self.types)

    def add(self, xp: ArrayNamespace, other: Any) -> Optional:
        """Return the sums of the components.

        Raises:
            InvalidArgumentError: only one has a value, or their components differ.
        """
        other = optional_of(other)
        left, right = self.values, other.values
        if (left is None) != (right is None):
            raise InvalidArgumentError(
                "Cannot add optionals because one has a value and the other doesn't."
            )
        if left is None or right is None:
            return self
        if len(left) != len(right):
            raise InvalidArgumentError(
                f"Cannot add optionals because they have different numbers of components "
                f"({len(left)} vs. {len(right)})."
            )
        if self.types != other.types:
            raise InvalidArgumentError(
                "Cannot add optionals because they have different types of components "
                f"({_names(self.types)} vs. {_names(other.types)})."
            )
        parts = zip(left, right, self.types, strict=True)
        return Optional(tuple(_sum(xp, a, b, dtype) for a, b, dtype in parts), self.types)


def optional_of(value: Any) -> Optional:
    """Return the optional in a variant.

    Raises:
        InvalidArgumentError: it holds something else.
    """
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if not isinstance(value, Optional):
        raise InvalidArgumentError(
            f"expected a variant that holds an optional, got one that holds {type(value).__name__}"
        )
    return value


def _zeros(xp: ArrayNamespace, value: Value, dtype: dtypes.DType) -> Value:
    if dtype.kind in "sh":
        return mapped(lambda item: addable(item).zeros_like(xp), value)
    return xp.zeros(value.shape, value.dtype)


def _sum(xp: ArrayNamespace, one: Value, other: Value, dtype: dtypes.DType) -> Value:
    if dtype.kind in "sh":
        return mapped(lambda item, added: addable(item).add(xp, added), one, other)
    return xp.add(one, other)


def _names(types: Sequence[dtypes.DType]) -> str:
    return ", ".join(dtype.name for dtype in types)
