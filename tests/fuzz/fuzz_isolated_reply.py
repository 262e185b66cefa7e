"""Fuzz target: replies of an isolated model's process, which an attacker may control.

The first byte chooses the kind of the reply; then come the region of its tensors and the message.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from typed_errors import typed_errors

from graphmill import errors, proto
from graphmill.isolation import packets
from graphmill.isolation.error_packets import decode_error, encode_error
from graphmill.isolation.packets import EndOfStreamError, MemoryRegion, Packet
from graphmill.isolation.tensors import SharedArea, decode_tensors, encode_tensors, new_area
from graphmill.models.summary import signatures_of
from graphmill.saved.signature import Signatures

_AREA_BYTES = 1 << 16
_REGION = struct.Struct("<QQ")


def seeds() -> list[bytes]:
    """Return a reply of each kind, and a whole packet."""
    values = [("x", np.arange(5, dtype=np.float32)), ("y", np.array([b"one", b""], object))]
    tensors, _ = encode_tensors([*values, ("z", np.ones(2000, np.float32))], _area())
    result = proto.RunStepResponse(tensor=tensors).SerializeToString()
    model = proto.MetaGraphDef()
    signature = model.signature_def["serving_default"]
    signature.inputs["x"].name, signature.inputs["x"].dtype = "x:0", 1
    signature.inputs["x"].tensor_shape.dim.add(size=-1)
    signature.outputs["y"].dtype = 1
    signature.outputs["y"].coo_sparse.values_tensor_name = "y:0"
    signature.outputs["z"].composite_tensor.components.add(name="z:0", dtype=9)
    signature.defaults["x"].CopyFrom(tensors[0].tensor)
    failure = encode_error(errors.NotFoundError("no such node", node="n", op_type="Const"))
    region = _REGION.pack(0, 8000)
    return [
        b"\x00" + region + result,
        b"\x01" + region + model.SerializeToString(),
        b"\x02" + region + failure.payload,
        b"\x03"
        + region
        + packets.encode(Packet(packets.RESULT, result, (MemoryRegion(0, 0),) * 3)),
    ]


@cache
def _area() -> SharedArea:
    fd = new_area(_AREA_BYTES)
    try:
        return SharedArea(fd, _AREA_BYTES)
    finally:
        os.close(fd)


def _read(content: bytes) -> None:
    """Read a packet from a pipe."""
    reading, writing = os.pipe()
    try:
        os.write(writing, content)
    finally:
        os.close(writing)
    try:
        packets.read_packet(reading, packets.MAX_REPLY_BYTES)
    finally:
        os.close(reading)


def fuzz(data: bytes) -> None:
    """Read a reply as the program does."""
    kind, place, payload = data[:1], data[1:17].ljust(16, b"\0"), data[17:]
    region = MemoryRegion(*_REGION.unpack(place))
    with typed_errors(DecodeError, EndOfStreamError):
        if kind == b"\x00":
            tensors = proto.RunStepResponse.FromString(payload).tensor
            small = [region if _is_empty(named) else MemoryRegion(0, 0) for named in tensors]
            decode_tensors(tensors, small, _area())
        elif kind == b"\x01":
            definitions: Any = proto.MetaGraphDef.FromString(payload).signature_def
            list(Signatures(definitions, Any))
            signatures_of(definitions)
        elif kind == b"\x02":
            decode_error(Packet(packets.ERROR, payload))
        else:
            _read(payload)


def _is_empty(named: proto.NamedTensorProto) -> bool:
    return not named.tensor.tensor_content and not named.tensor.string_val


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
