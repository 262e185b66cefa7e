"""Merge, check and read static shapes with unknown sizes (-1) or unknown rank (None).

Semantics: tensorflow/core/framework/tensor_shape.h, PartialTensorShape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import check_axis_count, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Shape, Value


def is_fully_defined(shape: Shape) -> bool:
    """Return whether rank and all sizes are known."""
    return shape is not None and -1 not in shape


def is_compatible(expected: Shape, shape: Sequence[int] | None) -> bool:
    """Return whether two partial shapes may be equal."""
    if expected is None or shape is None or expected == shape:
        return True
    if len(expected) != len(shape):
        return False
    # `all` with a generator takes twice as long.
    for a, b in zip(expected, shape, strict=True):  # noqa: SIM110
        if a != b and a >= 0 and b >= 0:
            return False
    return True


def merged(one: Shape, other: Shape) -> Shape:
    """Return the shape with all sizes that are known in either of two partial shapes.

    Raises:
        InvalidArgumentError: they contradict each other.
    """
    if one is None or one == other:
        return other
    if other is None:
        return one
    if len(one) != len(other):
        raise InvalidArgumentError(
            f"Incompatible ranks during merge: {len(one)} ({shape_text(one)}) vs. "
            f"{len(other)} ({shape_text(other)})"
        )
    if not is_compatible(one, other):
        raise InvalidArgumentError(
            f"Incompatible shapes during merge: {shape_text(one)} vs. {shape_text(other)}"
        )
    return tuple(b if a < 0 else a for a, b in zip(one, other, strict=True))


def shape_of_tensor(tensor: Value) -> Shape:
    """Return the shape in an integer tensor: a vector of sizes, or the scalar -1.

    Raises:
        InvalidArgumentError: another scalar, a tensor of higher rank, sizes below -1, or more of
            them than a tensor can have axes.
    """
    if tensor.ndim == 0:
        if int(tensor) == -1:
            return None
        raise InvalidArgumentError(
            "The only valid scalar shape tensor is the fully unknown shape specified as -1; "
            f"got {int(tensor)}"
        )
    if tensor.ndim != 1:
        raise InvalidArgumentError(
            f"a shape must be a vector of sizes or -1, got a tensor of shape "
            f"{shape_text(tensor.shape)}"
        )
    check_axis_count(tensor, "a shape")
    sizes = tuple(tensor.tolist())
    if sizes and min(sizes) < -1:
        raise InvalidArgumentError(f"the shape {list(sizes)} has a size below -1")
    return sizes
