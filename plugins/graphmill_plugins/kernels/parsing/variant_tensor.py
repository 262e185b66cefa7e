"""Variants as serialized tensors: `SerializeTensor` and `ParseTensor` with codecs of the host.

Semantics: tensorflow/core/kernels/{serialize_tensor,parse_tensor}_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, OpError, UnimplementedError
from graphmill.spi import kernel
from graphmill.spi.protos import variants_from_tensor_proto, variants_to_tensor_proto
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.parsing.tensor import parsed_message

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value


@kernel("SerializeTensor", types={"T": (dtypes.variant,)}, priority=1, host=True, stateful=True)
def serialize_variants(ctx: OpKernelContext, tensor: Value) -> Value:
    """Return the serialized `TensorProto` of a variant, or of a tensor of variants.

    Raises:
        UnimplementedError: the type of a variant has no codec.
    """
    message = variants_to_tensor_proto(tensor, ctx.functions.host.variants)
    return string_scalar(message.SerializeToString(deterministic=True))


@kernel("ParseTensor", types={"out_type": (dtypes.variant,)}, priority=1, host=True, stateful=True)
def parse_variants(ctx: OpKernelContext, serialized: Value) -> Value:
    """Return the variants of a serialized `TensorProto`.

    Raises:
        InvalidArgumentError: it is malformed, or a tensor of another type.
        UnimplementedError: the type of a variant has no codec.
    """
    message = parsed_message(serialized, dtypes.variant)
    try:
        return variants_from_tensor_proto(message, ctx.functions.host.variants)
    except UnimplementedError:
        raise
    except OpError as error:
        raise InvalidArgumentError(f"malformed TensorProto: {error.message}") from error
