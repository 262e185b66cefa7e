"""`TensorArray`: the resource that tensor array ops write to and read from.

Semantics: tensorflow/core/kernels/tensor_array.h. Elements are stored and returned without copies;
only sums of gradients and zeros are new arrays.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import is_compatible, is_fully_defined, merged
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.unstack import zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import ArrayNamespace, Shape, Value


class _Zeros:
    """An element of zeros with a static shape; the array is created when it is read."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class _Cleared(_Zeros):
    """Marks an element that was read and cleared."""

    __slots__ = ()


class TensorArray:
    """An array of tensors, each written once; a gradient array sums several writes.

    Threads: `_lock` guards all mutable state.

    Attributes:
        name: the name in messages.
        dtype: element type of the tensors.
        dynamic_size: whether a write may extend the array.
        identical_shapes: whether all elements have the same shape.
        clear_after_read: whether an element can be read only once.
        is_gradient: whether this is the gradient of another array.
        marked_size: the size at the last unpack or split; -1 before. A gradient array copies it
            from its forward array, and packs and concatenates only so many elements.
    """

    def __init__(
        self,
        xp: ArrayNamespace,
        name: str,
        dtype: DType,
        size: int,
        element_shape: Shape = None,
        *,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        identical_shapes: bool = False,
        is_gradient: bool = False,
        marked_size: int = -1,
    ) -> None:
        self._xp = xp
        self._lock = threading.Lock()
        self._element_shape = element_shape
        self._elements: list[Any] = [None] * size
        self._read: set[int] = set()
        self._summed: set[int] = set()  # indices of sums made here, which are updated in place
        self._is_closed = False
        self._may_have_gradient = True
        self.name = name
        self.dtype = dtype
        self.dynamic_size = dynamic_size
        self.identical_shapes = identical_shapes
        self.clear_after_read = clear_after_read
        self.is_gradient = is_gradient
        self.marked_size = marked_size

    @property
    def size(self) -> int:
        """The number of elements.

        Raises:
            InvalidArgumentError: the array was closed.
        """
        with self._lock:
            self._check_open()
            return len(self._elements)

    @property
    def pack_size(self) -> int:
        """The number of elements that are packed or concatenated."""
        return self.marked_size if self.is_gradient else self.size

    def merge_element_shape(self, shape: Shape) -> None:
        """Merge a shape into the elements' partial shape.

        Raises:
            InvalidArgumentError: the shapes are incompatible.
        """
        with self._lock:
            self._element_shape = merged(self._element_shape, shape)

    def mark_size(self, size: int) -> None:
        """Record the size at an unpack or split."""
        if not self.is_gradient:
            self.marked_size = size

    def write(self, index: int, value: Value) -> None:
        """Set an element, or add to it in a gradient array.

        Raises:
            InvalidArgumentError: the index is out of range, the element was written or read before,
                or the value has an incompatible shape.
        """
        with self._lock:
            self._write(index, value)

    def write_many(self, indices: Sequence[int], values: Sequence[Value]) -> None:
        """Set several elements, starting with the last, as TensorFlow does."""
        with self._lock:
            for index, value in zip(reversed(indices), reversed(values), strict=True):
                self._write(index, value)

    def read(self, index: int) -> Value:
        """Return an element.

        Raises:
            InvalidArgumentError: the index is out of range, or the element was not written or was
                cleared by a read.
        """
        with self._lock:
            return self._read_one(index)

    def read_many(self, indices: Sequence[int]) -> list[Value]:
        """Return several elements."""
        with self._lock:
            return [self._read_one(index) for index in indices]

    def close(self) -> None:
        """Drop all elements; the array can no longer be used."""
        with self._lock:
            self._elements = []
            self._is_closed = True

    def gradient(self, name: str, prefix: tuple[int, ...] = ()) -> TensorArray:
        """Return a new array for the elements' gradients, with zeros for each written element.

        The forward array cannot grow afterwards. `prefix` adds leading axes to the gradients.

        Raises:
            InvalidArgumentError: the array was closed, or has summed several writes to an element.
        """
        with self._lock:
            self._check_open()
            self.dynamic_size = False
            if not self._may_have_gradient:
                raise InvalidArgumentError(
                    f"Unable to create a gradients TensorArray for {self.name}: several values "
                    f"were written to one index, so the gradient of each is ambiguous"
                )
            known = self._element_shape
            gradient_array = TensorArray(
                self._xp,
                name,
                self.dtype,
                len(self._elements),
                None if known is None else prefix + known,
                identical_shapes=self.identical_shapes,
                is_gradient=True,
                marked_size=self.marked_size,
            )
            gradient_array._copy_shapes(self, prefix)
            return gradient_array

    def _copy_shapes(self, source: TensorArray, prefix: tuple[int, ...]) -> None:
        for index, element in enumerate(source._elements):
            if element is not None:
                self._elements[index] = _Zeros(prefix + self._shape_of(element))

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidArgumentError(f"TensorArray {self.name} has already been closed.")

    def _write(self, index: int, value: Value) -> None:
        self._check_open()
        elements = self._elements
        if not 0 <= index < len(elements):
            if index < 0 or not self.dynamic_size:
                raise InvalidArgumentError(
                    f"TensorArray {self.name}: Tried to write to index {index} but array is not "
                    f"resizeable and size is: {len(elements)}"
                )
            check_size((index + 1,), "the TensorArray", itemsize=8)
            elements.extend([None] * (index + 1 - len(elements)))
        self._check_shape(index, value)
        current = elements[index]
        if index in self._read or type(current) is _Cleared:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not write to TensorArray index {index} because "
                "it has already been read."
            )
        if current is None:
            elements[index] = value
        elif self.is_gradient:
            self._add(index, value)
        else:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not write to TensorArray index {index} because "
                "it has already been written to."
            )

    def _check_shape(self, index: int, value: Value) -> None:
        known, shape = self._element_shape, shape_of_value(value, self.dtype)
        if known is None or known != shape:
            if not is_compatible(known, shape):
                raise InvalidArgumentError(
                    f"TensorArray {self.name}: Could not write to TensorArray index {index} "
                    f"because the value shape is {shape_text(shape)} which is incompatible "
                    f"with the TensorArray's inferred element shape: {shape_text(known)} "
                    "(consider setting infer_shape=False)."
                )
            if self.identical_shapes and not is_fully_defined(known):
                self._element_shape = shape

    def _add(self, index: int, value: Value) -> None:
        current = self._elements[index]
        known, shape = self._shape_of(current), shape_of_value(value, self.dtype)
        if known != shape:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not aggregate to TensorArray index {index} "
                f"because the existing shape is {shape_text(known)} but the new input shape "
                f"is {shape_text(shape)}."
            )
        if isinstance(current, _Zeros):
            self._elements[index] = value
            return
        if self.dtype.kind not in "fiuc":
            raise InvalidArgumentError(
                f"TensorArray {self.name} cannot add up values of {self.dtype.name}"
            )
        if index in self._summed:
            current += value
        else:
            current = self._xp.add(current, value)
            self._summed.add(index)
        self._elements[index] = current
        self._may_have_gradient = False

    def _read_one(self, index: int) -> Value:
        self._check_open()
        elements = self._elements
        if index < 0 or (index >= len(elements) and not self.is_gradient):
            raise InvalidArgumentError(
                f"Tried to read from index {index} but array size is: {len(elements)}"
            )
        element = elements[index] if index < len(elements) else None
        if element is None:
            element = self._fill(index)
        kind = type(element)
        if kind is _Cleared:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read index {index} twice because it was "
                "cleared after a previous read (perhaps try setting clear_after_read = false?)."
            )
        if kind is _Zeros:
            element = elements[index] = self._zeros(element.shape)
        if self.clear_after_read:
            elements[index] = _Cleared(shape_of_value(element, self.dtype))
        else:
            self._read.add(index)
        return element

    def _shape_of(self, element: Any) -> tuple[int, ...]:
        """Return the shape of an element, even if it is a placeholder for zeros."""
        if isinstance(element, (_Zeros, _Cleared)):
            return element.shape
        return shape_of_value(element, self.dtype)

    def _zeros(self, shape: tuple[int, ...]) -> Value:
        if self.dtype.kind in "sh" and 0 not in shape:
            raise InvalidArgumentError(
                f"TensorArray {self.name} has no zero value of type {self.dtype.name}"
            )
        return zeros(self._xp, shape, self.dtype)

    def _fill(self, index: int) -> _Zeros:
        """Fill an unwritten element with zeros; its shape must be fully defined."""
        shape = self._element_shape
        if shape is None or -1 in shape:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read from TensorArray index {index}.  "
                "Furthermore, the element shape is not fully defined: "
                f"{shape_text(shape)}.  It is possible you are working with a resizeable "
                "TensorArray and stop_gradients is not allowing the gradients to be written.  If "
                "you set the full element_shape property on the forward TensorArray, the proper "
                "all-zeros tensor will be returned instead of incurring this error."
            )
        zeros = _Zeros(shape)
        elements = self._elements
        elements.extend(_Zeros(shape) for _ in range(len(elements), index + 1))
        elements[index] = zeros
        return zeros
