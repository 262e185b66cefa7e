"""Tensors between a program and its isolated model: small ones in messages, large ones shared.

The shared memory has a fixed size and is filled from its start for each packet. Both sides copy
what they receive, because the other side can write to the memory at any time.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes, proto
from graphmill.errors import DataLossError, ResourceExhaustedError, UnimplementedError
from graphmill.isolation.packets import MemoryRegion
from graphmill.ops.tensor_proto import (
    tensor_content_to_numpy,
    tensor_proto_dtype,
    tensor_proto_shape,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from graphmill.dtypes import DType

_INLINE_BYTES: Final = 4096
"""Up to this size, the elements of a tensor are in the message."""
_ALIGNMENT: Final = 64
_NOT_SHARED: Final = MemoryRegion(0, 0)


class SharedArea:
    """A piece of memory that two processes have mapped.

    Args:
        fd: its file descriptor; this object does not close it.
        size: its size in bytes.
    """

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._memory = mmap.mmap(fd, size)
        self._used = 0

    def clear(self) -> None:
        """Discard the contents, so that `put` starts at the beginning."""
        self._used = 0

    def put(self, array: NDArray[Any]) -> MemoryRegion:
        """Copy the elements of an array into it, and return where they are.

        Raises:
            ResourceExhaustedError: there is no room.
        """
        start = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        if start + array.nbytes > self.size:
            raise ResourceExhaustedError(
                f"the values of one step need more than {self.size} bytes of shared memory; raise "
                "IsolationLimits.transfer_bytes"
            )
        target = np.frombuffer(self._memory, np.uint8, array.nbytes, start)
        target[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._used = start + array.nbytes
        return MemoryRegion(start, array.nbytes)

    def copy(self, region: MemoryRegion) -> memoryview:
        """Return a copy of the bytes of a region.

        Raises:
            DataLossError: the region is not within the memory.
        """
        if region.offset + region.nbytes > self.size:
            raise DataLossError(f"{region} is outside of the {self.size} bytes of shared memory")
        return np.frombuffer(self._memory, np.uint8, region.nbytes, region.offset).copy().data

    def close(self) -> None:
        """Unmap it; safe to call twice."""
        self._memory.close()


def new_area(size: int) -> int:
    """Return a file descriptor of new shared memory of a fixed size.

    Only pages that are written to use physical memory.
    """
    import fcntl

    fd = os.memfd_create("graphmill-isolated", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def encode_tensors(
    values: Iterable[tuple[str, Any]], area: SharedArea
) -> tuple[list[proto.NamedTensorProto], tuple[MemoryRegion, ...]]:
    """Return messages for named values, and the regions of their elements.

    Raises:
        ResourceExhaustedError: the values are too large.
        UnimplementedError: a value stays in its session: a resource or variant.
    """
    area.clear()
    messages, regions = [], []
    for name, value in values:
        message, region = _encode(name, np.asarray(value), area)
        messages.append(proto.NamedTensorProto(name=name, tensor=message))
        regions.append(region)
    return messages, tuple(regions)


def decode_tensors(
    messages: Sequence[proto.NamedTensorProto], regions: Sequence[MemoryRegion], area: SharedArea
) -> list[NDArray[Any]]:
    """Return the values of messages as arrays of their own, which may be written to.

    Raises:
        DataLossError: a message is malformed, or its elements are not where it says.
    """
    if len(messages) != len(regions):
        raise DataLossError(f"{len(messages)} tensors have {len(regions)} regions")
    return [
        _decode(message, region, area) for message, region in zip(messages, regions, strict=True)
    ]


def _encode(
    name: str, array: NDArray[Any], area: SharedArea
) -> tuple[proto.TensorProto, MemoryRegion]:
    if array.dtype.kind in "OSU":
        return _encode_strings(name, array), _NOT_SHARED
    message = _empty_message(dtypes.as_dtype(array.dtype), array.shape)
    if array.nbytes > _INLINE_BYTES:
        return message, area.put(array)
    message.tensor_content = np.ascontiguousarray(array).tobytes()
    return message, _NOT_SHARED


def _encode_strings(name: str, array: NDArray[Any]) -> proto.TensorProto:
    message = _empty_message(dtypes.string, array.shape)
    for item in array.reshape(-1).tolist():
        if not isinstance(item, str | bytes):
            raise UnimplementedError(
                f"{name}: a value of type {type(item).__name__} cannot leave the process of an "
                "isolated model; only numbers and strings can"
            )
        message.string_val.append(item.encode() if isinstance(item, str) else item)
    return message


def _empty_message(dtype: DType, shape: tuple[int, ...]) -> proto.TensorProto:
    number: Any = dtype.enum  # the stubs want a value of the enum
    message = proto.TensorProto(dtype=number)
    message.tensor_shape.SetInParent()
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    return message


def _decode(named: proto.NamedTensorProto, region: MemoryRegion, area: SharedArea) -> NDArray[Any]:
    message = named.tensor
    dtype, shape = tensor_proto_dtype(message), tensor_proto_shape(message)
    if dtype in (dtypes.resource, dtypes.variant):
        raise DataLossError(
            f"tensor {named.name!r} of type {dtype.name} cannot be sent to another process"
        )
    if dtype is dtypes.string:
        if len(message.string_val) != math.prod(shape):
            raise DataLossError(
                f"tensor {named.name!r} has {len(message.string_val)} strings for the shape "
                f"{list(shape)}"
            )
        strings = np.empty(math.prod(shape), object)
        strings[:] = list(message.string_val)
        return strings.reshape(shape)
    if region != _NOT_SHARED:
        return tensor_content_to_numpy(area.copy(region), dtype, shape)
    return tensor_content_to_numpy(memoryview(bytearray(message.tensor_content)), dtype, shape)
