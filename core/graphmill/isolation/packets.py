"""Packets between a program and the process of its isolated model.

A packet is a header (magic, kind, sizes), the regions of tensors in shared memory, and a payload:
a protobuf message or JSON. Neither can run code, and every number is checked before it is used, as
the process may be under an attacker's control.
"""

from __future__ import annotations

import os
import select
import struct
import time
from typing import Final, NamedTuple

from graphmill.errors import DataLossError, DeadlineExceededError

SETUP: Final = 1
LOAD: Final = 2
RUN: Final = 3
READY: Final = 4
MODEL: Final = 5
RESULT: Final = 6
ERROR: Final = 7

MAX_REQUEST_BYTES: Final = 1 << 30
MAX_REPLY_BYTES: Final = 64 << 20
"""A parsed message can take many times the memory of its bytes, so replies are limited."""
MAX_REGIONS: Final = 1 << 16
_MAGIC: Final = b"GMi1"
_HEADER: Final = struct.Struct("<4sIIQ")
_REGION: Final = struct.Struct("<QQ")
_PIECE: Final = 1 << 20


class MemoryRegion(NamedTuple):
    """The position of a tensor's elements in the shared memory; (0, 0) for none."""

    offset: int
    nbytes: int


class Packet(NamedTuple):
    """One packet.

    Attributes:
        kind: one of the constants of this module.
        payload: the serialized message.
        regions: the region of each tensor of the message, in order; empty without tensors.
    """

    kind: int
    payload: bytes = b""
    regions: tuple[MemoryRegion, ...] = ()


class EndOfStreamError(EOFError):
    """The other side has closed the connection, for example because its process ended."""


def encode(packet: Packet) -> bytes:
    """Return the bytes of a packet."""
    header = _HEADER.pack(_MAGIC, packet.kind, len(packet.regions), len(packet.payload))
    regions = b"".join(_REGION.pack(*region) for region in packet.regions)
    return header + regions + packet.payload


def read_packet(pipe: int, max_bytes: int, deadline: float | None = None) -> Packet:
    """Read one packet.

    Args:
        pipe: a file descriptor, which does not block if there is a deadline.
        max_bytes: the maximum size of the payload.
        deadline: a time of `time.monotonic()`.

    Raises:
        EndOfStreamError: the other side has closed its end.
        DataLossError: the bytes are not a packet.
        DeadlineExceededError: it did not come in time.
    """
    header = _read(pipe, _HEADER.size, deadline)
    magic, kind, count, size = _HEADER.unpack(header)
    if magic != _MAGIC or count > MAX_REGIONS or size > max_bytes:
        raise DataLossError(
            f"a packet is malformed: it starts with {magic!r}, has {count} regions (at most "
            f"{MAX_REGIONS}) and a payload of {size} bytes (at most {max_bytes})"
        )
    regions = _read(pipe, count * _REGION.size, deadline)
    payload = _read(pipe, size, deadline)
    return Packet(kind, payload, tuple(map(MemoryRegion._make, _REGION.iter_unpack(regions))))


def write_packet(pipe: int, packet: Packet, deadline: float | None = None) -> None:
    """Write one packet.

    Raises:
        BrokenPipeError: the other side has closed its end.
        DeadlineExceededError: the other side did not read it in time.
    """
    rest = memoryview(encode(packet))
    while rest:
        if deadline is not None:
            _wait(pipe, select.POLLOUT, deadline)
        try:
            rest = rest[os.write(pipe, rest[:_PIECE]) :]
        except BlockingIOError:
            continue


def _read(pipe: int, size: int, deadline: float | None) -> bytes:
    content = bytearray()
    while len(content) < size:
        if deadline is not None:
            _wait(pipe, select.POLLIN, deadline)
        try:
            piece = os.read(pipe, min(size - len(content), _PIECE))
        except BlockingIOError:
            continue
        if not piece:
            raise EndOfStreamError("the other side has closed the connection")
        content += piece
    return bytes(content)


def is_readable(pipe: int, seconds: float) -> bool:
    """Return whether there is something to read, or the end, within some seconds."""
    return _is_ready(pipe, select.POLLIN, seconds)


def _is_ready(pipe: int, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _wait(pipe: int, event: int, deadline: float) -> None:
    if not _is_ready(pipe, event, deadline - time.monotonic()):
        raise DeadlineExceededError("the other side did not answer in time")
