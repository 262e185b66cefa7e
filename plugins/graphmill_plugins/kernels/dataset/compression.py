"""Kernels that compress elements of datasets into variants.

Semantics: tensorflow/core/kernels/data/experimental/compression_ops.cc and
core/data/compression_utils.cc. Elements made here are compressed with zlib, which comes with
Python; their codec converts them to TensorFlow's message, which has a block of Snappy.
"""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import dtypes
from graphmill.errors import DataLossError, FailedPreconditionError, InvalidArgumentError
from graphmill.spi.protos import (
    handles_from_tensor_proto,
    handles_to_tensor_proto,
    proto,
    variants_from_tensor_proto,
    variants_to_tensor_proto,
)
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import OpKernelContext, Value, VariantRegistry

_ZLIB_LEVEL: Final = 1
_OBJECTS: Final = (dtypes.variant, dtypes.resource)


class Component(NamedTuple):
    """The type, shape and size of a component in the content of an element.

    Attributes:
        dtype: its element type.
        shape: its shape.
        sizes: the number of its bytes; of strings, that of each string.
    """

    dtype: DType
    shape: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """The number of bytes of the whole component."""
        return sum(self.sizes)


class CompressedElement:
    """The compressed components of an element, as a scalar of dtype variant.

    Attributes:
        components: descriptions of the components.
    """

    __slots__ = ("_data", "_decompress", "components")

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(
        self,
        data: bytes,
        components: Sequence[Component],
        decompress: Callable[[bytes], bytes] = zlib.decompress,
    ) -> None:
        self._data, self._decompress = data, decompress
        self.components = tuple(components)

    def item(self) -> CompressedElement:
        """Return the object itself, as a scalar array returns its element."""
        return self

    def content(self) -> bytes:
        """Return the bytes of all components.

        Raises:
            DataLossError: the data are damaged, or have another length than the components.
        """
        content = self._decompress(self._data)
        expected = sum(component.num_bytes for component in self.components)
        if len(content) != expected:
            raise DataLossError(
                f"a compressed element has {len(content)} bytes, but its components need {expected}"
            )
        return content


def _packed(value: Value, dtype: DType, variants: VariantRegistry) -> tuple[Component, bytes]:
    """Return the description of a component, and its bytes."""
    if dtype in _OBJECTS:
        message = (
            handles_to_tensor_proto(value)
            if dtype is dtypes.resource
            else variants_to_tensor_proto(value, variants)
        )
        content = message.SerializeToString()
        shape = tuple(dim.size for dim in message.tensor_shape.dim)
        return Component(dtype, shape, (len(content),)), content
    array = np.asarray(value)
    if dtype is dtypes.string:
        items = array.ravel().tolist()
        return Component(dtype, array.shape, tuple(map(len, items))), b"".join(items)
    sizes = (array.nbytes,) if array.size else ()
    return Component(dtype, array.shape, sizes), np.ascontiguousarray(array).tobytes()


def _unpacked(component: Component, content: bytes, variants: VariantRegistry) -> Value:
    """Return a component from its bytes, whose number fits the component."""
    dtype, shape, sizes = component
    if dtype in _OBJECTS:
        message = _tensor_message(content)
        if dtype is dtypes.resource:
            return handles_from_tensor_proto(message)
        return variants_from_tensor_proto(message, variants)
    if dtype is dtypes.string:
        ends = list(itertools.accumulate(sizes, initial=0))
        items = [content[start:end] for start, end in itertools.pairwise(ends)]
        return string_array(items, shape)
    return np.frombuffer(content, dtype.as_numpy_dtype).reshape(shape)


def _tensor_message(content: bytes) -> proto.TensorProto:
    try:
        return proto.TensorProto.FromString(content)
    except DecodeError as error:
        raise DataLossError("a component of a compressed element is not a TensorProto") from error


@dataset_kernel("CompressElement")
def compress_element(
    ctx: OpKernelContext, components: list[Value], input_types: Sequence[Any]
) -> CompressedElement:
    """Compress the components of an element into one variant.

    Raises:
        UnimplementedError: a component is a variant of a type without a codec.
    """
    variants = ctx.functions.host.variants
    types = map(dtypes.as_dtype, input_types)
    packed = [_packed(*pair, variants) for pair in zip(components, types, strict=True)]
    content = b"".join(part for _, part in packed)
    return CompressedElement(zlib.compress(content, _ZLIB_LEVEL), [one for one, _ in packed])


@dataset_kernel("UncompressElement")
def uncompress_element(
    ctx: OpKernelContext, compressed: Any, output_types: Sequence[Any]
) -> list[Value]:
    """Return the components of a compressed element.

    Raises:
        InvalidArgumentError: the variant holds something else.
        FailedPreconditionError: its components are of other types than declared.
        DataLossError: its data are damaged.
    """
    is_array = isinstance(compressed, np.ndarray)
    element = compressed.item() if is_array and not compressed.ndim else compressed
    if not isinstance(element, CompressedElement):
        raise InvalidArgumentError(
            "Input does not contain a compressed element, it contains a "
            f"{type(element).__name__} of shape {list(compressed.shape)}"
        )
    expected = tuple(dtypes.as_dtype(dtype) for dtype in output_types)
    types = tuple(component.dtype for component in element.components)
    if types != expected:
        raise FailedPreconditionError(
            f"Expected components of types {[dtype.name for dtype in expected]} from uncompress, "
            f"but got {[dtype.name for dtype in types]}"
        )
    return _components(element, ctx.functions.host.variants)


def _components(element: CompressedElement, variants: VariantRegistry) -> list[Value]:
    content, start, values = element.content(), 0, []
    for component in element.components:
        end = start + component.num_bytes
        values.append(_unpacked(component, content[start:end], variants))
        start = end
    return values
