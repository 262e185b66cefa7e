"""Shape functions that many ops share, and helpers for other shape functions."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import SCALAR, UNKNOWN_SHAPE, TensorShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size


def table(*rows: tuple[str, ShapeFunction]) -> dict[str, ShapeFunction]:
    """Return a map from ops to shape functions; a row has names of ops separated by spaces."""
    return {name: function for names, function in rows for name in names.split()}


@bounded_by(OutputBound.INPUT)
def unchanged(op: ShapeContext) -> TensorShape:
    """Return the shape of the first input."""
    return op.inputs[0]


def like_input(index: int) -> ShapeFunction:
    """Return the shape function of ops whose output has the shape of an input."""
    return bounded_by(OutputBound.INPUT)(lambda op: op.inputs[index])


@bounded_by(OutputBound.INPUT)
def each_unchanged(op: ShapeContext) -> Any:
    """Return for each output the shape of the input with the same index."""
    shapes = list(op.inputs[: op.num_outputs])
    return shapes[0] if op.num_outputs == 1 else shapes


def of_rank(rank: int) -> ShapeFunction:
    """Return the shape function of ops whose output is like input 0, which has a fixed rank."""
    return bounded_by(OutputBound.INPUT)(lambda op: op.inputs[0].with_rank(rank))


def with_ranks(function: ShapeFunction, **ranks: int | tuple[int, int]) -> ShapeFunction:
    """Return a shape function that checks inputs before it calls another one.

    Args:
        function: the other one.
        ranks: the rank of inputs, by name; or the lowest and the highest.
    """

    @wraps(function)
    def checked(op: ShapeContext) -> Any:
        for name, rank in ranks.items():
            lowest, highest = (rank, rank) if isinstance(rank, int) else rank
            op.shape(name).with_rank_at_least(lowest).with_rank_at_most(highest)
        return function(op)

    return checked


@bounded_by(OutputBound.INPUT)
def all_equal(op: ShapeContext) -> TensorShape:
    """Return the common shape of all inputs."""
    merged = UNKNOWN_SHAPE
    for shape in op.inputs:
        merged = merged.merge_with(shape)
    return merged


@bounded_by(OutputBound.PRODUCT)
def broadcast(op: ShapeContext) -> TensorShape:
    """Return the broadcast shape of all inputs."""
    shape, *others = op.inputs
    for other in others:
        shape = shape.broadcast_with(other)
    return shape


@bounded_by(OutputBound.INPUT)
def scalars(op: ShapeContext) -> Any:
    """Return the shape of a scalar for each output."""
    return SCALAR if op.num_outputs == 1 else [SCALAR] * op.num_outputs


def fixed(*dims: Size) -> ShapeFunction:
    """Return the shape function of ops whose only output has a fixed shape."""
    return lambda _: TensorShape(dims)


def shape_attr(name: str) -> ShapeFunction:
    """Return the shape function of ops whose output has the shape in an attr."""
    return lambda op: TensorShape(op.get_attr(name))


def shape_input(name: str) -> ShapeFunction:
    """Return the shape function of ops whose output has the shape in an input."""
    return lambda op: op.value_as_shape(name)


def integer(op: ShapeContext, name: str) -> int | None:
    """Return the static value of an integer input with one element, or None."""
    value = op.value(name)
    return None if value is None or value.size != 1 else int(value.reshape(-1)[0])


def integers(op: ShapeContext, name: str) -> list[int] | None:
    """Return the static elements of an integer input, or None."""
    value = op.value(name)
    return None if value is None else [int(item) for item in value.reshape(-1)]


def after_prefix(shape: TensorShape, prefix: TensorShape) -> TensorShape:
    """Return the sizes of a shape after those of another one, with which it begins.

    Raises:
        InvalidArgumentError: it begins with other sizes.
    """
    if prefix.dims is None:
        return UNKNOWN_SHAPE
    rank = len(prefix.dims)
    shape.with_rank_at_least(rank)[:rank].merge_with(prefix)
    return shape[rank:]


def axis_in(axis: int, rank: int) -> int:
    """Return an axis as a non-negative index.

    Raises:
        InvalidArgumentError: the axis is out of range.
    """
    if not -rank <= axis < rank:
        raise InvalidArgumentError(
            f"axis {axis} is out of range for a tensor of rank {rank} [-{rank}, {rank})"
        )
    return axis % rank


def sized(one: Size, compute: Callable[[int], int], *, smallest: int = 0) -> Size:
    """Return a size computed from another one, None if that is unknown.

    Raises:
        InvalidArgumentError: it would be less than `smallest`.
    """
    if one is None:
        return None
    size = compute(one)
    if size < smallest:
        raise InvalidArgumentError(f"Negative dimension size caused by a dimension of {one}")
    return size


def window_counts(
    sizes: Sequence[Size], reaches: Sequence[Size], strides: Sequence[int], *, is_same: bool
) -> list[Size]:
    """Return how many windows lie on each axis; unknown for all if one size is unknown.

    Raises:
        InvalidArgumentError: a stride is not positive, or a number is negative.
    """
    counts: list[Size] = []
    for size, reach, stride in zip(sizes, reaches, strides, strict=True):
        if None in sizes or size is None or None in reaches or reach is None:
            return [None] * len(sizes)
        if stride < 1:
            raise InvalidArgumentError(f"Stride must be > 0, but got {stride}")
        count = -(-size // stride) if is_same else int((size - reach + stride) / stride)
        if count < 0:
            raise InvalidArgumentError(f"Computed output size would be negative: {count}")
        counts.append(count)
    return counts


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes, None if one of them is unknown."""
    result: Size = 1
    for size in sizes:
        if size is None or result is None:
            result = None
        else:
            result *= size
    return result
