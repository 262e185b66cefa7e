"""`TensorList`: an immutable list of tensors in a variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import merged
from graphmill_plugins.kernels._support import POINTER_SIZE, check_size, shape_text
from graphmill_plugins.kernels._variant import addable, mapped
from graphmill_plugins.kernels.tensor_list._persistent_list import PersistentList
from graphmill_plugins.kernels.unstack import zeros

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Shape, Value


class TensorList:
    """An immutable list of tensors, a scalar of dtype variant; changes return new lists.

    Unset elements are None.

    Attributes:
        element_dtype: element type of the tensors.
        element_shape: their partial shape.
        max_num_elements: the maximum length; negative for no limit.
    """

    __slots__ = ("_elements", "element_dtype", "element_shape", "max_num_elements")

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(
        self,
        element_dtype: DType,
        element_shape: Shape,
        elements: Iterable[Value] | PersistentList = (),
        max_num_elements: int = -1,
    ) -> None:
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.max_num_elements = max_num_elements
        if not isinstance(elements, PersistentList):
            elements = PersistentList(elements)
        self._elements: PersistentList = elements

    @property
    def length(self) -> int:
        """Number of elements."""
        return self._elements.length

    def element(self, index: int) -> Value:
        """Return an element, None if it is unset.

        Raises:
            IndexError: the index is out of range.
        """
        return self._elements.item(index)

    def elements(self) -> list[Value]:
        """Return all elements in a new list."""
        return self._elements.to_list()

    def replaced(self, indices: Sequence[int], values: Sequence[Value]) -> TensorList:
        """Return the list with new elements at some indices; the last of equal indices counts."""
        return self._with(self._elements.replaced(indices, values))

    def pushed(self, value: Value) -> TensorList:
        """Return the list with one more element."""
        return self._with(self._elements.extended((value,)))

    def resized(self, length: int) -> TensorList:
        """Return the list truncated, or extended by unset elements."""
        missing = length - self.length
        if missing <= 0:
            return self._with(self._elements.cut(length))
        check_size((length,), "the list", itemsize=2 * POINTER_SIZE)
        return self._with(self._elements.extended((None,) * missing))

    def zeros_like(self, xp: ArrayNamespace) -> TensorList:
        """Return a list of zeros of the elements' shapes (see `_variant.AddableVariant`)."""
        cleared = [
            None if element is None else _zeros_like(xp, element, self.element_dtype)
            for element in self.elements()
        ]
        return TensorList(self.element_dtype, self.element_shape, cleared)

    def add(self, xp: ArrayNamespace, other: Any) -> TensorList:
        """Return the list of sums; unset elements count as zero.

        Raises:
            InvalidArgumentError: `other` is not a list, or has another type, shape or length.
        """
        if not isinstance(other, TensorList):
            raise InvalidArgumentError(f"cannot add {other!r} to a list of tensors")
        if self.element_dtype is not other.element_dtype:
            raise InvalidArgumentError(
                "Trying to add two lists of tensors of different dtypes. One is "
                f"{self.element_dtype.tf_name} and the other is {other.element_dtype.tf_name}"
            )
        if self.length != other.length:
            raise InvalidArgumentError(
                "Trying to add two lists of tensors with different lengths. One is "
                f"{self.length} and the other is {other.length}"
            )
        sums = [
            b if a is None else a if b is None else _sum(xp, a, b, self.element_dtype)
            for a, b in zip(self.elements(), other.elements(), strict=True)
        ]
        shape = merged(self.element_shape, other.element_shape)
        return TensorList(self.element_dtype, shape, sums)

    def _with(self, elements: PersistentList) -> TensorList:
        return TensorList(self.element_dtype, self.element_shape, elements, self.max_num_elements)

    def __repr__(self) -> str:
        return f"<TensorList of {self.length} {self.element_dtype.name}>"


def _zeros_like(xp: ArrayNamespace, value: Value, dtype: DType) -> Value:
    if dtype is dtypes.variant:
        return mapped(lambda item: addable(item).zeros_like(xp), value)
    return zeros(xp, shape_of_value(value, dtype), dtype)


def _sum(xp: ArrayNamespace, a: Value, b: Value, dtype: DType) -> Value:
    one, other = shape_of_value(a, dtype), shape_of_value(b, dtype)
    if one != other:
        raise InvalidArgumentError(
            "Trying to add two lists of tensors with elements of different shapes: "
            f"{shape_text(one)} and {shape_text(other)}"
        )
    if dtype is dtypes.variant:
        return mapped(lambda item, added: addable(item).add(xp, added), a, b)
    return xp.add(a, b)
