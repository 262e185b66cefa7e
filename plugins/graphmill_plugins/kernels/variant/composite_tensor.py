"""Composite tensors in a variant: encode their component tensors, and decode them again.

Semantics: tensorflow/core/kernels/composite_tensor_ops.cc. The metadata, a
message that describes the Python type of the composite tensor, is only checked to be a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value


@dataclass(frozen=True, slots=True, eq=False)
class CompositeTensor:
    """The components of a composite tensor, a scalar of dtype variant.

    Attributes:
        components: the tensors that it consists of.
        types: their element types.
    """

    components: tuple[Value, ...]
    types: tuple[dtypes.DType, ...]

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __repr__(self) -> str:
        return f"<CompositeTensor of {len(self.components)} components>"


def _check_metadata(metadata: str | bytes) -> None:
    """Raise InvalidArgumentError unless the metadata is a serialized message."""
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.message import DecodeError

    content = metadata if isinstance(metadata, bytes) else metadata.encode()
    try:
        Empty().ParseFromString(content)
    except DecodeError as error:
        raise InvalidArgumentError("Error parsing metadata") from error


@kernel("CompositeTensorVariantFromComponents", host=True)
def composite_tensor_variant_from_components(
    components: list[Value], metadata: str | bytes, Tcomponents: Sequence[np.dtype[Any]]
) -> Value:
    """Return a variant that holds the component tensors."""
    _check_metadata(metadata)
    return CompositeTensor(tuple(components), tuple(map(dtypes.as_dtype, Tcomponents)))


@kernel("CompositeTensorVariantToComponents", host=True)
def composite_tensor_variant_to_components(
    encoded: Any, metadata: str | bytes, Tcomponents: Sequence[np.dtype[Any]]
) -> list[Value]:
    """Return the component tensors of a variant, or of the first of several variants."""
    _check_metadata(metadata)
    value = encoded.flat[0] if isinstance(encoded, np.ndarray) and encoded.size else encoded
    if not isinstance(value, CompositeTensor):
        raise InvalidArgumentError(
            f"The input `encoded` is not a valid CompositeTensorVariant tensor, got {value!r}"
        )
    expected = [dtypes.as_dtype(dtype) for dtype in Tcomponents]
    if len(value.components) != len(expected):
        raise InvalidArgumentError(
            f"Encoded value has {len(value.components)} tensor components; expected "
            f"{len(expected)} components based on type_spec"
        )
    for index, (actual_type, expected_type) in enumerate(zip(value.types, expected, strict=True)):
        if actual_type is not expected_type:
            raise InvalidArgumentError(
                f"Tensor component {index} had dtype {actual_type.proto_name}; expected dtype "
                f"{expected_type.proto_name}"
            )
    return list(value.components)
