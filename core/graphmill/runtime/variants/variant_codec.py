"""`VariantCodec`: how values of one variant type become tensors and bytes, and back.

Semantics: `Variant::Encode`, `Variant::Decode` and `VariantTensorData` of
tensorflow/core/framework/variant.h and variant_tensor_data.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphmill.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.typing import Value


class VariantData(NamedTuple):
    """The content of a variant value.

    Attributes:
        metadata: everything that is not a tensor, in a form that the codec chooses.
        tensors: the tensors that the value consists of; they may be variants themselves.
        types: the element type of each.
    """

    metadata: bytes = b""
    tensors: tuple[Value, ...] = ()
    types: tuple[DType, ...] = ()


@dataclass(frozen=True, slots=True)
class VariantCodec:
    """Encodes and decodes the values of one variant type.

    Attributes:
        value_class: the class of the values; values of its subclasses are encoded as well.
        encode: returns the content of a value.
        decode: returns the value of a content, which may come from anybody: it checks the content
            and raises InvalidArgumentError for one that no value has.
    """

    value_class: type[Any]
    encode: Callable[[Any], VariantData]
    decode: Callable[[VariantData], Any]


VariantRegistry: TypeAlias = Registry[VariantCodec]
"""The codecs of a host by type name; `graphmill_register_variants` adds to it."""
