"""Packets over pipes: round trips, malformed bytes, and sides that do not answer."""

from __future__ import annotations

import os
import struct
import time
from typing import TYPE_CHECKING

import pytest

from graphmill.errors import DataLossError, DeadlineExceededError, NotFoundError, OpError
from graphmill.isolation import packets
from graphmill.isolation.error_packets import decode_error, encode_error
from graphmill.isolation.packets import EndOfStreamError, MemoryRegion, Packet, encode, read_packet

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(os, "set_blocking"), reason="needs POSIX pipes")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    with os.fdopen(reading), os.fdopen(writing):
        yield reading, writing


def soon() -> float:
    return time.monotonic() + 0.05


def later() -> float:
    return time.monotonic() + 60


def test_packet_survives_the_round_trip(pipe: tuple[int, int]) -> None:
    sent = Packet(packets.RUN, b"payload", (MemoryRegion(0, 0), MemoryRegion(64, 12)))
    packets.write_packet(pipe[1], sent, later())
    assert read_packet(pipe[0], 100, later()) == sent


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<4sIIQ", b"GMi2", 1, 0, 0),
        struct.pack("<4sIIQ", b"GMi1", 1, packets.MAX_REGIONS + 1, 0),
        struct.pack("<4sIIQ", b"GMi1", 1, 0, 101),
        struct.pack("<4sIIQ", b"GMi1", 1, 0, 2**64 - 1),
    ],
)
def test_malformed_header_is_refused_before_memory_is_used(
    pipe: tuple[int, int], header: bytes
) -> None:
    os.write(pipe[1], header)
    with pytest.raises(DataLossError, match="a packet is malformed"):
        read_packet(pipe[0], 100, later())


def test_incomplete_packet_times_out(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], encode(Packet(packets.RUN, b"payload"))[:-1])
    with pytest.raises(DeadlineExceededError):
        read_packet(pipe[0], 100, soon())


def test_packet_that_is_not_read_times_out(pipe: tuple[int, int]) -> None:
    with pytest.raises(DeadlineExceededError):
        packets.write_packet(pipe[1], Packet(packets.RUN, bytes(1 << 20)), soon())


def test_closed_pipe_is_the_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, encode(Packet(packets.RUN, b"payload"))[:10])
    os.close(writing)
    with os.fdopen(reading), pytest.raises(EndOfStreamError):
        read_packet(reading, 100)


def test_error_keeps_its_class_and_location() -> None:
    error = NotFoundError("no such file", node="read", op_type="ReadFile", device="/cpu:0")
    error.add_note("look elsewhere")
    decoded = decode_error(encode_error(error))
    assert type(decoded) is NotFoundError
    assert str(decoded) == str(error)
    assert decoded.__notes__ == ["look elsewhere"]


def test_untyped_errors_become_typed_ones() -> None:
    assert decode_error(encode_error(KeyError("x"))).code == 13
    assert decode_error(encode_error(MemoryError())).code == 8


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[1]", b"{}", b'{"code": "x"}', b"[" * 100_000, b"\xff\xfe", b"1e999999"],
)
def test_malformed_error_is_refused(payload: bytes) -> None:
    with pytest.raises(DataLossError):
        decode_error(Packet(packets.ERROR, payload))


@pytest.mark.parametrize(
    "payload",
    [
        b'{"code": 5, "message": {"a": 1}, "node": 7, "notes": "text"}',
        b'{"code": 99999999999999999999, "notes": [1, null]}',
        b'{"code": -1}',
    ],
)
def test_wrong_fields_of_an_error_are_left_out(payload: bytes) -> None:
    assert isinstance(decode_error(Packet(packets.ERROR, payload)), OpError)


def test_unexpected_reply_is_refused() -> None:
    with pytest.raises(DataLossError, match="kind 3 was not expected"):
        decode_error(Packet(packets.RUN))
