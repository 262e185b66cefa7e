"""Fuzz target: decode a tensor from a message between tasks of a cluster."""

from __future__ import annotations

import contextlib

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import errors, proto
from graphmill.spi.compilers import default_host
from graphmill.spi.protos import numpy_to_tensor_proto
from graphmill_plugins._server.tensors import decode_tensor


def seeds() -> list[bytes]:
    """Return tensors of numbers and of strings."""
    arrays = (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([b"one", b""], object),
        np.array(5, np.int64),
        np.zeros((0, 3), np.complex64),
    )
    repeated = proto.TensorProto(dtype=1, float_val=[1.0])
    repeated.tensor_shape.dim.add(size=10)
    messages = [*map(numpy_to_tensor_proto, arrays), repeated]
    return [message.SerializeToString() for message in messages]


def fuzz(data: bytes) -> None:
    """Decode the bytes as a message, and the message as a value."""
    try:
        message = proto.TensorProto.FromString(data)
    except DecodeError:
        return
    size = np.prod([float(max(dim.size, 0)) for dim in message.tensor_shape.dim], initial=1.0)
    if size > 1 << 22:  # one value may stand for as many as a message can have
        return
    with contextlib.suppress(errors.OpError):
        decode_tensor(message, default_host().variants)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
