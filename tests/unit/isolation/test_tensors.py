"""Tensors in messages and shared memory: round trips, and replies of a hostile process."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes, proto
from graphmill.errors import DataLossError, OpError, ResourceExhaustedError, UnimplementedError
from graphmill.isolation.packets import MemoryRegion
from graphmill.isolation.tensors import SharedArea, decode_tensors, encode_tensors, new_area

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
SIZE = 1 << 16


@pytest.fixture
def area() -> Iterator[SharedArea]:
    fd = new_area(SIZE)
    made = SharedArea(fd, SIZE)
    os.close(fd)
    yield made
    made.close()


def named(**fields: Any) -> proto.NamedTensorProto:
    message = proto.NamedTensorProto(name="x")
    shape = fields.pop("shape", [])
    message.tensor.MergeFrom(proto.TensorProto(**fields))
    for size in shape:
        message.tensor.tensor_shape.dim.add(size=size)
    return message


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.5),
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.arange(3000, dtype=np.float64)[::2],
        np.zeros((0, 3), np.complex64),
        np.array([True, False]),
        np.array([b"one", "zwei", b""], object).reshape(3, 1),
        np.array(["text"]),
    ],
    ids=lambda value: str(value.dtype),
)
def test_values_survive_the_round_trip_between_processes(area: SharedArea, value: Any) -> None:
    messages, regions = encode_tensors([("x", value)], area)
    (received,) = decode_tensors(messages, regions, area)
    expected = np.asarray(value)
    if expected.dtype.kind in "OU":
        texts = [text.encode() if isinstance(text, str) else text for text in expected.flat]
        expected = np.array(texts, object).reshape(expected.shape)
    assert received.dtype == expected.dtype
    assert received.shape == expected.shape
    np.testing.assert_array_equal(received, expected)
    assert received.flags.writeable


@pytest.mark.parametrize("name", ["bfloat16", "int4"])
def test_values_of_further_types_arrive(area: SharedArea, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    value = np.arange(5000).astype(getattr(ml_dtypes, name))
    (received,) = decode_tensors(*encode_tensors([("x", value)], area), area)
    assert received.dtype == value.dtype
    np.testing.assert_array_equal(received, value)


def test_large_values_do_not_change_with_the_memory(area: SharedArea) -> None:
    messages, regions = encode_tensors([("x", np.ones(4000, np.float32))], area)
    (received,) = decode_tensors(messages, regions, area)
    encode_tensors([("x", np.zeros(4000, np.float32))], area)
    assert received.sum() == 4000


def test_values_larger_than_the_memory_are_refused(area: SharedArea) -> None:
    values = [("x", np.ones(8000, np.float32)), ("y", np.ones(9000, np.float32))]
    with pytest.raises(ResourceExhaustedError, match="transfer_bytes"):
        encode_tensors(values, area)


def test_value_that_cannot_leave_its_session_is_refused(area: SharedArea) -> None:
    with pytest.raises(UnimplementedError, match="x: a value of type dict"):
        encode_tensors([("x", np.array([{}], object))], area)


def test_other_process_cannot_truncate_the_shared_memory() -> None:
    fd = new_area(SIZE)
    with os.fdopen(fd, "r+b"):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 2 * SIZE)
        mmap.mmap(fd, SIZE).close()


FLOAT = dtypes.float32.enum


@pytest.mark.parametrize(
    ("message", "region"),
    [
        (named(dtype=FLOAT, shape=[4]), MemoryRegion(SIZE - 8, 16)),
        (named(dtype=FLOAT, shape=[4]), MemoryRegion(2**64 - 8, 16)),
        (named(dtype=FLOAT, shape=[4]), MemoryRegion(0, 12)),
        (named(dtype=FLOAT, shape=[2**40]), MemoryRegion(0, 16)),
        (named(dtype=FLOAT, shape=[2**40], float_val=[1.0]), MemoryRegion(0, 0)),
        (named(dtype=FLOAT, shape=[2**62, 2**62]), MemoryRegion(0, 16)),
        (named(dtype=FLOAT, shape=[-1]), MemoryRegion(0, 0)),
        (named(dtype=FLOAT, shape=[1] * 65, tensor_content=bytes(4)), MemoryRegion(0, 0)),
        (named(dtype=FLOAT, shape=[3], tensor_content=bytes(11)), MemoryRegion(0, 0)),
        (named(dtype=dtypes.string.enum, shape=[2**40], string_val=[b"x"]), MemoryRegion(0, 0)),
        (named(dtype=dtypes.string.enum, shape=[4]), MemoryRegion(0, 16)),
        (named(dtype=dtypes.resource.enum), MemoryRegion(0, 0)),
        (named(dtype=dtypes.variant.enum), MemoryRegion(0, 0)),
        (named(dtype=FLOAT + 100, tensor_content=bytes(4)), MemoryRegion(0, 0)),
        (named(dtype=12345, tensor_content=bytes(4)), MemoryRegion(0, 0)),
        (named(), MemoryRegion(0, 0)),
    ],
)
def test_malformed_tensor_is_refused(
    area: SharedArea, message: proto.NamedTensorProto, region: MemoryRegion
) -> None:
    with pytest.raises(OpError):
        decode_tensors([message], [region], area)


def test_missing_regions_are_refused(area: SharedArea) -> None:
    with pytest.raises(DataLossError, match="1 tensors have 0 regions"):
        decode_tensors([named(dtype=FLOAT)], [], area)


def test_bytes_other_than_0_and_1_become_true(area: SharedArea) -> None:
    message = named(dtype=dtypes.bool.enum, shape=[3], tensor_content=b"\x00\x02\xff")
    (received,) = decode_tensors([message], [MemoryRegion(0, 0)], area)
    assert received.view(np.uint8).tolist() == [0, 1, 1]
