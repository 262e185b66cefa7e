"""Classes for attr values that have no built-in Python type.

`Node.attrs` and `OpDef` hold attrs in canonical form:

- type: `DType`
- int: `int`
- float: `float`, rounded to float32
- bool: `bool`
- string: `bytes`
- shape: `ShapeAttr`, a tuple of sizes, -1 if unknown; None for unknown rank
- tensor: `TensorAttr`
- func: `FuncAttr`
- list(x): a plain tuple
- an unbound attr of a function body: `AttrPlaceholder`
- no value at all: `UNSET`
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import DType, as_dtype
from graphmill.ops import tensor_proto

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from graphmill.proto import TensorProto


class _Unset(enum.Enum):
    """The type of `UNSET`."""

    UNSET = enum.auto()

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = _Unset.UNSET
"""The value of an empty `AttrValue`, and the default of an attr without a default."""

NO_DEFAULT: Final = UNSET
"""The default of a required attr."""


class ShapeAttr(tuple[int, ...]):
    """A shape as attr value: a tuple of sizes, whose class distinguishes it from a list of ints."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"ShapeAttr({tuple(self)!r})"


class AttrPlaceholder:
    """Stands for the function's attr `name` as the value of a node's attr in a function body."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttrPlaceholder) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"AttrPlaceholder({self.name!r})"


class FuncAttr:
    """A function as attr value, which is never changed.

    Attributes:
        name: its name.
        attrs: the attrs to instantiate it with, in canonical form.
    """

    __slots__ = ("attrs", "name")

    def __init__(self, name: str, attrs: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.attrs = {} if attrs is None else attrs

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FuncAttr):
            return NotImplemented
        return self.name == other.name and self.attrs == other.attrs

    def __repr__(self) -> str:
        return f"FuncAttr(name={self.name!r}, attrs={self.attrs!r})"

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.attrs.items())))


class TensorAttr:
    """A tensor as attr value, which is stored as given and converted on demand.

    Equality compares element type, shape and bytes, so NaNs equal themselves.
    """

    __slots__ = ("_array", "_deferred", "_proto", "dtype", "shape")

    dtype: DType
    shape: tuple[int, ...]

    def __init__(self, value: Any, dtype: Any = None) -> None:
        """Wrap a message, an array, or an object that can become an array.

        Args:
            value: a `TensorProto` (not copied, so do not modify it afterwards), an array, an object
                with `dtype`, `shape` and `__array__` (which is called for each use; the result is
                not cached), or an array-like.
            dtype: the element type, if that of the array is ambiguous.

        Raises:
            InvalidArgumentError: the message has no valid dtype or shape, or the array's type is no
                element type.
        """
        self._proto: TensorProto | None = None
        self._array: NDArray[Any] | None = None
        self._deferred: Any = None
        if hasattr(value, "tensor_shape"):
            self._proto = value
            self.dtype = tensor_proto.tensor_proto_dtype(value)
            self.shape = tensor_proto.tensor_proto_shape(value)
            return
        if not isinstance(value, np.ndarray):
            if all(hasattr(value, name) for name in ("__array__", "dtype", "shape")):
                self._deferred = value
            else:
                value = np.asarray(value)
        if self._deferred is None:
            self._array = value
        self.dtype = as_dtype(value.dtype if dtype is None else dtype)
        self.shape = tuple(value.shape)

    def numpy(self) -> NDArray[Any]:
        """Return the value as an array, which may be read-only and must not be modified.

        Raises:
            InvalidArgumentError: the message's content does not match its shape.
        """
        if self._array is not None:
            return self._array
        if self._proto is None:
            return np.asarray(self._deferred)
        self._array = tensor_proto.tensor_proto_to_numpy(self._proto)
        return self._array

    def to_proto(self) -> TensorProto:
        """Return the value as a message: the original object if it was created from a message."""
        if self._proto is None:
            return tensor_proto.numpy_to_tensor_proto(self.numpy(), self.dtype)
        return self._proto

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorAttr):
            return NotImplemented
        if self is other:
            return True
        if self.dtype is not other.dtype or self.shape != other.shape:
            return False
        left, right = self.numpy(), other.numpy()
        if left.dtype == object:
            return bool(np.array_equal(left, right))
        return left.tobytes() == right.tobytes()

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __repr__(self) -> str:
        return f"TensorAttr({self.dtype.name}, shape={list(self.shape)})"
