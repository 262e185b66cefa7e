"""`Optional`: the value of a variant that holds an element or nothing.

Semantics: tensorflow/core/kernels/data/optional_ops.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._variant import addable

if TYPE_CHECKING:
    import numpy as np

    from graphmill.spi import ArrayNamespace, Value


class Optional:
    """An element, or nothing; a scalar of dtype variant.

    Attributes:
        values: the components, or None.
    """

    __slots__ = ("values",)

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(self, values: tuple[Value, ...] | None = None) -> None:
        self.values = values

    def item(self) -> Optional:
        """Return the optional itself, as a scalar array returns its element."""
        return self

    def zeros_like(self, xp: ArrayNamespace) -> Optional:
        """Return an optional of zeros, or the empty one."""
        if self.values is None:
            return self
        return Optional(tuple(_zeros(xp, value) for value in self.values))

    def add(self, xp: ArrayNamespace, other: Any) -> Optional:
        """Return the sums of the components.

        Raises:
            InvalidArgumentError: only one of both holds something, or they differ in components.
        """
        mine, theirs = self.values, optional_of(other).values
        if (mine is None) != (theirs is None):
            raise InvalidArgumentError(
                "Cannot add optionals because one has a value and the other doesn't."
            )
        if mine is None or theirs is None:
            return self
        if len(mine) != len(theirs):
            raise InvalidArgumentError(
                f"Cannot add optionals because they have different numbers of components "
                f"({len(mine)} vs. {len(theirs)})."
            )
        return Optional(tuple(_sum(xp, a, b) for a, b in zip(mine, theirs, strict=True)))


def optional_of(value: Any) -> Optional:
    """Return the optional in a variant.

    Raises:
        InvalidArgumentError: it holds something else.
    """
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    if not isinstance(value, Optional):
        raise InvalidArgumentError(
            f"expected a variant that holds an optional, got one that holds {type(value).__name__}"
        )
    return value


def _zeros(xp: ArrayNamespace, value: Value) -> Value:
    if value.dtype == object:
        return addable(value).zeros_like(xp)
    return xp.zeros(value.shape, value.dtype)


def _sum(xp: ArrayNamespace, one: Value, other: Value) -> Value:
    return addable(one).add(xp, other) if one.dtype == object else xp.add(one, other)
