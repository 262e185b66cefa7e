"""Sliding windows over a tensor, with padding and dilation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels._support import check_size, shape_text, to_ints

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.spi import Value


class Windows(NamedTuple):
    """The positions of a window that slides over an operand.

    Attributes:
        operand: the shape of the operand.
        window: the sizes of the window.
        strides: the strides of the window.
        low: the padding in front of each dimension.
        base: the dilation of the operand.
        dilation: the dilation of the window.
        shape: the number of windows along each dimension.
    """

    operand: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    base: tuple[int, ...]
    dilation: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls,
        operand: Sequence[int],
        window: Value,
        strides: Value,
        padding: Value,
        *dilations: Value,
    ) -> Windows:
        """Read the inputs of an op; the optional `dilations` are the operand's and the window's.

        Raises:
            InvalidArgumentError: an input does not have one positive number for each dimension.
        """
        rank = len(operand)
        numbers = [to_ints(value) for value in (window, strides, *dilations)]
        numbers += [(1,) * rank] * (4 - len(numbers))
        if any(len(values) != rank or min(values, default=1) < 1 for values in numbers):
            raise InvalidArgumentError(
                f"window, strides and dilations must be {rank} positive numbers each, got "
                f"{[list(values) for values in numbers]}"
            )
        pairs = padding_pairs(padding, rank)
        low, high = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
        sizes, moves, base, dilation = numbers
        shape = []
        for axis in range(rank):
            span = (sizes[axis] - 1) * dilation[axis] + 1
            full = low[axis] + high[axis] + max((operand[axis] - 1) * base[axis] + 1, 0)
            shape.append(max(0, (full - span) // moves[axis] + 1))
        check_size(shape, itemsize=8)
        return cls(tuple(operand), sizes, moves, low, base, dilation, tuple(shape))

    def element_indices(self, tap: Sequence[int]) -> tuple[Value, Value]:
        """Return the flat operand index of one element of each window, and a mask of valid ones.

        An index in the padding, or between dilated elements, is 0 and invalid.
        """
        indices = np.zeros(self.shape, np.int64)
        inside = np.ones(self.shape, np.bool_)
        rank = len(self.shape)
        for axis, size in enumerate(self.operand):
            starts = np.arange(self.shape[axis], dtype=np.int64) * self.strides[axis]
            starts += tap[axis] * self.dilation[axis] - self.low[axis]
            is_in = (
                (starts >= 0) & (starts % self.base[axis] == 0) & (starts // self.base[axis] < size)
            )
            spread = [-1 if other == axis else 1 for other in range(rank)]
            step = math.prod(self.operand[axis + 1 :])
            indices += (np.where(is_in, starts // self.base[axis], 0) * step).reshape(spread)
            inside &= is_in.reshape(spread)
        return np.where(inside, indices, 0), inside


def taps(window: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the positions in a window, the last dimension fastest; end with a cancelled step."""
    if not window:
        yield ()
        return
    for first in range(window[0]):
        for rest in taps(window[1:]):
            check_cancelled()
            yield (first, *rest)


def padding_pairs(padding: Value, rank: int) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each dimension.

    Raises:
        InvalidArgumentError: there are not two numbers for each dimension.
    """
    if padding.shape != (rank, 2):
        raise InvalidArgumentError(
            f"padding must have shape {shape_text((rank, 2))}, got {shape_text(padding.shape)}"
        )
    return tuple((int(low), int(high)) for low, high in padding.tolist())
