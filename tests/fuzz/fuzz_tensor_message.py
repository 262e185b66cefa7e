"""Fuzz target: decode a tensor from a message between tasks of a cluster."""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError
from typed_errors import typed_errors

from graphmill import proto
from graphmill.spi.compilers import default_host
from graphmill.spi.protos import numpy_to_tensor_proto
from graphmill_plugins._server.tensors import decode_tensor


def seeds() -> list[bytes]:
    """Return tensors of numbers, of strings and of variants."""
    arrays = (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([b"one", b""], object),
        np.array(5, np.int64),
        np.zeros((0, 3), np.complex64),
    )
    repeated = proto.TensorProto(dtype=1, float_val=[1.0])
    repeated.tensor_shape.dim.add(size=10)
    messages = [*map(numpy_to_tensor_proto, arrays), repeated, *_variants()]
    return [message.SerializeToString() for message in messages]


def _variants() -> list[proto.TensorProto]:
    """Return a list with an optional in it, and a map, a ragged tensor and a matrix, all empty."""
    nested = proto.TensorProto(dtype=21)
    element = nested.variant_val.add(type_name="tensorflow::TensorList")
    element.metadata = b"\1\0\x15" + b"\xff" * 9 + b"\1"
    optional = element.tensors.add(dtype=21).variant_val.add(metadata=b"\1")
    optional.type_name = "tensorflow::data::Optional"
    optional.tensors.add(dtype=1, float_val=[1.0])
    types = ("tensorflow::TensorMap", "RaggedTensorVariant", "tensorflow::CSRSparseMatrix")
    empty = [proto.TensorProto(dtype=21, variant_val=[{"type_name": name}]) for name in types]
    content = proto.TensorProto(dtype=21)
    data = element.SerializeToString()
    content.tensor_content = bytes([len(data)]) + data
    return [nested, content, *empty]


def read_message(data: bytes) -> proto.TensorProto:
    """Return the tensor in a seed."""
    return proto.TensorProto.FromString(data)


def write_message(message: proto.TensorProto, data: bytes) -> bytes:
    """Return a tensor as input."""
    del data
    return message.SerializeToString()


def fuzz(data: bytes) -> None:
    """Decode the bytes as a message, and the message as a value."""
    try:
        message = proto.TensorProto.FromString(data)
    except DecodeError:
        return
    size = np.prod([float(max(dim.size, 0)) for dim in message.tensor_shape.dim], initial=1.0)
    if size > 1 << 22:  # one value can fill a tensor of any size
        return
    with typed_errors():
        decode_tensor(message, default_host().variants)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
