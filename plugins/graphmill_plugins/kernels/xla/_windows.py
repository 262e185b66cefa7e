"""Windows over a tensor: the elements of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import check_size, shape_text, to_ints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value


class Windows(NamedTuple):
    """How a window moves over an operand.

    Attributes:
        operand: the shape of the operand.
        window: the sizes of the window.
        strides: how far it moves.
        low: the padding in front.
        base: how far apart the elements of the operand are.
        dilation: how far apart those of the window are.
        shape: how many windows there are along each dimension.
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
        """Read the inputs of an op; `dilations` are of the operand and of the window, if any.

        Raises:
            InvalidArgumentError: they are not one number for each dimension, or not positive.
        """
        rank = len(operand)
        numbers = [to_ints(value) for value in (window, strides, *dilations)]
        numbers += [(1,) * rank] * (4 - len(numbers))
        if any(len(given) != rank or min(given, default=1) < 1 for given in numbers):
            raise InvalidArgumentError(
                f"window, strides and dilations must be {rank} positive numbers each, got "
                f"{[list(given) for given in numbers]}"
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

    def places(self, tap: Sequence[int]) -> tuple[Value, Value]:
        """Return for each window the flat index of one of its elements, and whether there is one.

        An index beside the operand or in a hole is 0.
        """
        places = np.zeros(self.shape, np.int64)
        inside = np.ones(self.shape, np.bool_)
        rank = len(self.shape)
        for axis, size in enumerate(self.operand):
            at = np.arange(self.shape[axis], dtype=np.int64) * self.strides[axis]
            at += tap[axis] * self.dilation[axis] - self.low[axis]
            is_in = (at >= 0) & (at % self.base[axis] == 0) & (at // self.base[axis] < size)
            spread = [-1 if other == axis else 1 for other in range(rank)]
            step = math.prod(self.operand[axis + 1 :])
            places += (np.where(is_in, at // self.base[axis], 0) * step).reshape(spread)
            inside &= is_in.reshape(spread)
        return np.where(inside, places, 0), inside


def padding_pairs(padding: Value, rank: int) -> tuple[tuple[int, int], ...]:
    """Return how much is put before and behind each dimension.

    Raises:
        InvalidArgumentError: it is not two numbers for each.
    """
    if padding.shape != (rank, 2):
        raise InvalidArgumentError(
            f"padding must have shape {shape_text((rank, 2))}, got {shape_text(padding.shape)}"
        )
    return tuple((int(low), int(high)) for low, high in padding.tolist())
