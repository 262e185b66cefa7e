"""Kernels that compress elements of datasets into variants.

Semantics: tensorflow/core/kernels/data/experimental/compression_ops.cc. TensorFlow compresses with
Snappy; the variant never leaves the process, so that here it is zlib, which comes with Python.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.spi.protos import read_varint, write_varint
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import OpKernelContext, Value

_FASTEST: Final = 1
_OBJECTS: Final = (dtypes.variant, dtypes.resource)


class CompressedElement:
    """The compressed components of an element, as a scalar of dtype variant.

    Attributes:
        types: the element types of the components.
    """

    __slots__ = ("_parts", "types")

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(self, components: Sequence[Value], types: Sequence[DType]) -> None:
        self.types = tuple(types)
        self._parts = [_packed(*pair) for pair in zip(components, types, strict=True)]

    def item(self) -> CompressedElement:
        """Return the object itself, as a scalar array returns its element."""
        return self

    def components(self) -> list[Value]:
        """Return the components."""
        return [_unpacked(*part) for part in zip(self._parts, self.types, strict=True)]


def _packed(value: Value, dtype: DType) -> tuple[Any, tuple[int, ...]]:
    """Return the content of a tensor, compressed if it has no references, and its shape."""
    if dtype in _OBJECTS:
        return value, ()
    array = np.asarray(value)
    if dtype is dtypes.string:
        items = array.ravel().tolist()
        content = b"".join([write_varint(len(item)) for item in items] + items)
    else:
        content = np.ascontiguousarray(array).tobytes()
    return zlib.compress(content, _FASTEST), array.shape


def _unpacked(part: tuple[Any, tuple[int, ...]], dtype: DType) -> Value:
    content, shape = part
    if dtype in _OBJECTS:
        return content
    data = zlib.decompress(content)
    if dtype is dtypes.string:
        return string_array(_strings(data, int(np.prod(shape))), shape)
    return np.frombuffer(data, dtype.as_numpy_dtype).reshape(shape)


def _strings(data: bytes, count: int) -> list[bytes]:
    sizes, start = [], 0
    for _ in range(count):
        size, start = read_varint(data, start, len(data))
        sizes.append(size)
    strings = []
    for size in sizes:
        strings.append(data[start : start + size])
        start += size
    return strings


@dataset_kernel("CompressElement")
def compress_element(
    ctx: OpKernelContext, components: list[Value], input_types: Sequence[Any]
) -> CompressedElement:
    """Compress the components of an element into one variant."""
    del ctx
    return CompressedElement(components, [dtypes.as_dtype(dtype) for dtype in input_types])


@dataset_kernel("UncompressElement")
def uncompress_element(
    ctx: OpKernelContext, compressed: Any, output_types: Sequence[Any]
) -> list[Value]:
    """Return the components of a compressed element.

    Raises:
        InvalidArgumentError: the variant holds something else.
        FailedPreconditionError: its components are of other types than declared.
    """
    del ctx
    is_array = isinstance(compressed, np.ndarray)
    element = compressed.item() if is_array and not compressed.ndim else compressed
    if not isinstance(element, CompressedElement):
        raise InvalidArgumentError(
            "Input does not contain a compressed element, it contains a "
            f"{type(element).__name__} of shape {list(compressed.shape)}"
        )
    expected = tuple(dtypes.as_dtype(dtype) for dtype in output_types)
    if element.types != expected:
        raise FailedPreconditionError(
            f"Expected components of types {[dtype.name for dtype in expected]} from uncompress, "
            f"but got {[dtype.name for dtype in element.types]}"
        )
    return element.components()
