"""`StoredTensor`: a tensor in a file, read when its values are used."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.memory import aligned_empty, aligned_view, freeze

if TYPE_CHECKING:
    from graphmill.files import Reader


class StoredTensor:
    """A tensor whose values are read from a file on demand.

    It can replace the NumPy array of any constant in a graph: `np.asarray(stored)` reads the
    values into aligned memory. This object refers to that memory weakly: as long as somebody holds
    the memory, all readers share it. So a model that is only inspected uses no memory for its
    weights, and one that runs holds each of them once, however many executors use it.

    Thread-safe. The file stays open as long as one of its tensors lives; reading from a file that
    was changed since it was opened raises DataLossError.

    Attributes:
        dtype: NumPy dtype of the values.
        shape: the full shape.
        nbytes: bytes of all values.
    """

    __slots__ = ("_memory", "_offset", "_reader", "dtype", "nbytes", "shape")

    def __init__(
        self, reader: Reader, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self._reader = reader
        self._offset = offset
        self._memory: weakref.ref[np.ndarray[Any, Any]] | None = None
        self.dtype = dtype
        self.shape = shape
        self.nbytes = math.prod(shape) * dtype.itemsize

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def read(self) -> np.ndarray[Any, Any]:
        """Return the values as a read-only array.

        Raises:
            DataLossError: the file was changed or cut since it was opened.
        """
        memory = None if self._memory is None else self._memory()
        if memory is not None:
            return aligned_view(memory, self.shape, self.dtype)
        values = aligned_empty(self.shape, self.dtype)
        content = values.reshape(-1).view(np.uint8)
        self._reader.read_into(self._offset, content.data)
        if self.dtype == np.bool_ and content.max(initial=0) > 1:
            np.minimum(content, 1, out=content)  # any nonzero byte counts as true
        if values.base is not None:
            self._memory = weakref.ref(values.base)  # harmless if two threads both read
        return freeze(values)

    def content(self) -> bytes:
        """Return the values as the bytes of a `TensorProto.tensor_content`."""
        content = bytearray(self.nbytes)
        self._reader.read_into(self._offset, memoryview(content))
        return bytes(content)

    def close(self) -> None:
        """Release the file, and with it all tensors of that file; safe to call twice."""
        self._reader.close()

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        values = self.read()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"StoredTensor({self.dtype}, {self.shape}, {self._reader.path!r} @ {self._offset})"
