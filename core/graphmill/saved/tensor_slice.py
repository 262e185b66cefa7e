"""Slices of tensors: the pieces of partitioned variables in checkpoints.

For each dimension, a slice has a start and a length, or spans the whole dimension ("-" in text).
Semantics: tensorflow/core/framework/tensor_slice.cc, core/util/saved_tensor_slice_util.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphmill import proto
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.saved import ordered_code

if TYPE_CHECKING:
    from graphmill.proto.tensor_slice_pb2 import TensorSliceProto

FULL = -1
"""The length of an extent that spans a whole dimension; its start is 0."""

_NUMBER = re.compile(r"[+-]?\d+")
_MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """A slice: a (start, length) per dimension; length `FULL` spans the whole dimension."""

    extents: tuple[tuple[int, int], ...]

    @classmethod
    def full(cls, rank: int) -> TensorSlice:
        """Return the slice that spans the whole tensor."""
        return cls(((0, FULL),) * rank)

    @classmethod
    def from_proto(cls, message: TensorSliceProto) -> TensorSlice:
        """Return the slice that a message describes.

        Raises:
            InvalidArgumentError: an extent has a negative start or no length.
        """
        extents = []
        for extent in message.extent:
            length = extent.length if extent.HasField("length") else FULL
            if (extent.start, length) != (0, FULL) and not _is_extent(extent.start, length):
                raise InvalidArgumentError(
                    f"a slice has start {extent.start} and length {length}; expected start >= 0 "
                    "and length > 0"
                )
            extents.append((extent.start, length))
        return cls(tuple(extents))

    @classmethod
    def parse(cls, text: str) -> TensorSlice:
        """Parse a slice such as "0,2:-" (start,length or - per dimension).

        Raises:
            InvalidArgumentError: the text is malformed.
        """
        extents = []
        for item in filter(None, text.split(":")):
            if item == "-":
                extents.append((0, FULL))
                continue
            numbers = [part for part in item.split(",") if part]
            if len(numbers) != 2 or not all(map(_NUMBER.fullmatch, numbers)):
                raise InvalidArgumentError(
                    f"Expected a pair of numbers or '-' but got '{item}': string = {text}"
                )
            start, length = int(numbers[0]), int(numbers[1])
            if not _is_extent(start, length):
                raise InvalidArgumentError(
                    "Expected non-negative start and positive length but got "
                    f"start = {start}, length = {length}: string = {text}"
                )
            extents.append((start, length))
        return cls(tuple(extents))

    @property
    def is_full(self) -> bool:
        """Whether every extent spans its whole dimension."""
        return all(length == FULL for _, length in self.extents)

    def __str__(self) -> str:
        return ":".join(
            "-" if length == FULL else f"{start},{length}" for start, length in self.extents
        )

    def to_proto(self) -> TensorSliceProto:
        """Return the message, in which whole dimensions have an empty extent."""
        message = proto.TensorSliceProto()
        for start, length in self.extents:
            extent = message.extent.add()
            if length != FULL:
                extent.start, extent.length = start, length
        return message

    def shape(self, full_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of this slice of a tensor of shape `full_shape`.

        Raises:
            InternalError: the ranks differ, or an extent exceeds its dimension (TensorFlow uses
                this code for both).
        """
        return tuple(stop - start for start, stop in self.bounds(full_shape))

    def bounds(self, full_shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return (start, stop) in every dimension of a tensor of shape `full_shape`.

        Raises:
            InternalError: as for `shape`.
        """
        if len(full_shape) != len(self.extents):
            raise InternalError(f"Mismatching ranks: shape = {_show(full_shape)}, slice = {self}")
        bounds = []
        for axis, ((start, length), size) in enumerate(zip(self.extents, full_shape, strict=True)):
            stop = size if length == FULL else start + length
            if stop > size:
                raise InternalError(
                    f"Extent in dimension {axis} out of bounds: shape = {_show(full_shape)}, "
                    f"slice = {self}"
                )
            bounds.append((start, stop))
        return tuple(bounds)

    def indices(self, full_shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the index of this slice in an array of shape `full_shape`."""
        return tuple(slice(start, stop) for start, stop in self.bounds(full_shape))


def parse_shape_and_slice(text: str) -> tuple[tuple[int, ...], TensorSlice]:
    """Parse a full shape and a slice, such as "4 2 0,2:-".

    Raises:
        InvalidArgumentError: the text is malformed.
        InternalError: the slice is out of the shape's bounds.
    """
    *sizes, last = text.split(" ")
    if not sizes:
        raise InvalidArgumentError(
            f"Need at least two elements in shape_and_slice specification: {text}"
        )
    tensor_slice = TensorSlice.parse(last)
    if not all(map(_NUMBER.fullmatch, sizes)):
        raise InvalidArgumentError(f"Non numerical dimension in shape_and_slice: {text}")
    shape = tuple(map(int, sizes))
    if any(not 0 <= size <= _MAX_INT64 for size in shape):
        raise InvalidArgumentError(f"Dimension out of range in shape_and_slice: {text}")
    tensor_slice.bounds(shape)
    return shape, tensor_slice


def slice_key(name: bytes, tensor_slice: TensorSlice) -> bytes:
    """Return the key of a slice of tensor `name` in a checkpoint."""
    key = ordered_code.encode_number(0) + ordered_code.encode_string(name)
    key += ordered_code.encode_number(len(tensor_slice.extents))
    for start, length in tensor_slice.extents:
        key += ordered_code.encode_signed(start) + ordered_code.encode_signed(length)
    return key


def is_slice_key(key: bytes) -> bool:
    """Return whether a key belongs to a slice; names of tensors do not start with NUL."""
    return key.startswith(b"\0")


def _is_extent(start: int, length: int) -> bool:
    return start >= 0 and 0 < length <= _MAX_INT64 - start


def _show(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
