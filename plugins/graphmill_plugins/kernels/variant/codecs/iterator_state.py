"""Codec of the states of iterators: a position and the seeds drawn, under a name of our own.

TensorFlow saves the state of each dataset's iterator, under names of its classes: neither side
reads the other's.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import VariantCodec, VariantData
from graphmill_plugins.kernels.dataset.iterators.iterator_state import SavedIterator
from graphmill_plugins.kernels.dataset.iterators.ops import IteratorPosition


def encode(value: SavedIterator) -> VariantData:
    """Return the position, and for each generator its position followed by its seeds."""
    position = value.position
    tensors: list[Any] = [np.int64(position.num_taken)]
    tensors += [np.array([count, *drawn], np.int64) for drawn, count in position.seeds]
    return VariantData(b"", tuple(tensors), (dtypes.int64,) * len(tensors))


def decode(data: VariantData) -> SavedIterator:
    """Return the state.

    Raises:
        InvalidArgumentError: the tensors are no numbers, have other shapes, or are negative.
    """
    tensors = [np.asarray(tensor) for tensor in data.tensors]
    if set(data.types) != {dtypes.int64} or [tensor.ndim for tensor in tensors] != _ranks(
        len(tensors)
    ):
        typed = zip(data.types, tensors, strict=True)
        raise InvalidArgumentError(
            "the state of an iterator consists of a scalar and vectors of int64, not of "
            f"{[(dtype.name, tensor.shape) for dtype, tensor in typed]}"
        )
    if min(int(tensor.flat[0]) if tensor.size else -1 for tensor in tensors) < 0:
        raise InvalidArgumentError("the state of an iterator has a negative position")
    if not all(tensor.size % 2 for tensor in tensors):
        raise InvalidArgumentError("the state of an iterator has a seed without its second half")
    seeds = [(array("q", tensor[1:].tobytes()), int(tensor[0])) for tensor in tensors[1:]]
    return SavedIterator(IteratorPosition(int(tensors[0]), seeds))


def _ranks(count: int) -> list[int]:
    return [0] + [1] * (count - 1)


CODEC: Final = VariantCodec(SavedIterator, encode, decode)
